"""Multilayer perceptrons: dense layers with ReLU between them.

Not modelled: dropout and weight decay, which the text adds to the same networks elsewhere.
"""

from __future__ import annotations

import itertools

from torch import nn

__all__ = ["mlp", "two_layer_mlp"]


def mlp(*sizes: int) -> nn.Sequential:
    """Dense layers from each of `sizes` to the next, by default 512 → 256 → 128 → 2.

    From (batch, first size) to (batch, last size).

    Source: d2l.ai 12.1.

    Example:
        >>> mlp(4, 3, 2)
        Sequential(
          (0): Linear(in_features=4, out_features=3, bias=True)
          (1): ReLU()
          (2): Linear(in_features=3, out_features=2, bias=True)
        )
    """
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes or (512, 256, 128, 2)):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def two_layer_mlp(inputs: int = 784, hidden: int = 256, outputs: int = 10) -> nn.Sequential:
    """A perceptron of two dense layers, from images of `inputs` pixels in all to (batch, `outputs`).

    Source: d2l.ai fig. 12.3.1.

    Example:
        >>> [tuple(p.shape) for p in two_layer_mlp().parameters()]
        [(256, 784), (256,), (10, 256), (10,)]
    """
    return nn.Sequential(nn.Flatten(), *mlp(inputs, hidden, outputs))

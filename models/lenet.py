"""LeNet with the parameters of the text: as a function of a list of parameters, and as a module around it.

Not modelled: the radial basis functions and the partly connected maps of the network of 1998.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["SHAPES", "LeNet", "initial_params", "lenet"]

SHAPES = {
    "W1": (20, 1, 3, 3), "b1": (20,), "W2": (50, 20, 5, 5), "b2": (50,),
    "W3": (800, 128), "b3": (128,), "W4": (128, 10), "b4": (10,),
}  # fmt: skip
"""Names and shapes of the parameters, in the order in which `lenet` takes them. Dense weights are (inputs, outputs)."""


def initial_params(scale: float = 0.01) -> list[Tensor]:
    """New parameters in the order of `SHAPES`: weights normal × `scale`, biases zero.

    Example:
        >>> [tuple(p.shape) for p in initial_params()[:2]]
        [(20, 1, 3, 3), (20,)]
    """
    return [
        torch.randn(shape) * scale if name.startswith("W") else torch.zeros(shape) for name, shape in SHAPES.items()
    ]


def lenet(x: Tensor, params: list[Tensor]) -> Tensor:
    """From images (batch, 1, 28, 28) to scores (batch, 10): convolution, ReLU and average twice, then two dense layers.

    Args:
        x: Images.
        params: Tensors of `SHAPES`, in that order.

    Source: d2l.ai 12.5.

    Example:
        >>> lenet(torch.zeros(2, 1, 28, 28), initial_params()).shape
        torch.Size([2, 10])
    """
    w1, b1, w2, b2, w3, b3, w4, b4 = params
    h = functional.avg_pool2d(torch.relu(torch.conv2d(x, w1, b1)), 2)
    h = functional.avg_pool2d(torch.relu(torch.conv2d(h, w2, b2)), 2)
    h = torch.relu(torch.mm(torch.flatten(h, 1), w3) + b3)
    return torch.mm(h, w4) + b4


class LeNet(nn.Module):
    """`lenet` as a module whose parameters are named as in `SHAPES`.

    Source: d2l.ai 12.5.
    """

    def __init__(self) -> None:
        super().__init__()
        params = map(nn.Parameter, initial_params())
        self.W1, self.b1, self.W2, self.b2, self.W3, self.b3, self.W4, self.b4 = params

    def forward(self, x: Tensor) -> Tensor:
        """From images (batch, 1, 28, 28) to scores (batch, 10)."""
        return lenet(x, [self.W1, self.b1, self.W2, self.b2, self.W3, self.b3, self.W4, self.b4])

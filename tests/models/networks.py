"""The networks of `models`, by name, small enough to train for a few steps in a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import nn

from models.alexnet import AlexNet, AlexNetSplit
from models.lenet import LeNet
from models.mlp import two_layer_mlp
from models.resnet import resnet18
from models.transformer import RowTransformer

NETWORKS: Mapping[str, Callable[[], nn.Module]] = {
    "MLP": two_layer_mlp,
    "LeNet": LeNet,
    "AlexNet": lambda: AlexNet(dropout=0.0),
    "AlexNet, split": lambda: AlexNetSplit(("cpu", "cpu"), dropout=0.0),
    "ResNet-18": resnet18,
    "transformer": RowTransformer,
}


def seeded(make: Callable[[], nn.Module], seed: int = 12) -> nn.Module:
    """A network with the same parameters for the same seed."""
    torch.manual_seed(seed)
    return make()


def gradients(net: nn.Module, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
    """Gradients of the mean loss by parameter."""
    net.zero_grad()
    nn.functional.cross_entropy(net(x), labels).backward()
    return {name: p.grad for name, p in net.named_parameters() if p.grad is not None}

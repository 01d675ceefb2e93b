"""ResNet-18 for 28×28 images: a 3×3 stem without max-pool, then eight residual blocks.

Not modelled: a normalisation on the 1×1 shortcut, which the paper has and the text has not.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["Residual", "resnet18"]


class Residual(nn.Module):
    """Two 3×3 convolutions with batch normalisation, and a shortcut that is added before the last ReLU.

    From (batch, `inputs`, height, width) to (batch, `outputs`, height/`stride`, width/`stride`, both rounded up). The
    shortcut is a 1×1 convolution where these differ.

    Source: He, Zhang, Ren and Sun, CVPR 2016; d2l.ai 8.6.

    Example:
        >>> Residual(3, 6, stride=2)(torch.zeros(4, 3, 7, 7)).shape
        torch.Size([4, 6, 4, 4])
    """

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1, stride=stride)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if (inputs, 1) != (outputs, stride):
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        """From (batch, inputs, height, width) to (batch, outputs, height/stride, width/stride)."""
        h = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(h)) + self.shortcut(x))


def resnet18(classes: int = 10, channels: int = 1) -> nn.Sequential:
    """ResNet-18 from images (batch, `channels`, 28, 28) to scores (batch, `classes`).

    Weights of convolutions and of the dense layer start normal × 0.01, the rest as PyTorch has it.

    Source: d2l.ai 12.6.

    Example:
        >>> sum(p.numel() for p in resnet18().parameters())
        11175818
    """
    net = nn.Sequential()
    net.add_module("stem", nn.Sequential(nn.Conv2d(channels, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()))
    inputs = 64
    for i, outputs in enumerate((64, 128, 256, 512), start=1):
        first = Residual(inputs, outputs, stride=1 if i == 1 else 2)
        net.add_module(f"stage{i}", nn.Sequential(first, Residual(outputs, outputs)))
        inputs = outputs
    net.add_module("head", nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes)))
    return net.apply(_first_values)


def _first_values(layer: nn.Module) -> None:
    if isinstance(layer, (nn.Conv2d, nn.Linear)):
        nn.init.normal_(layer.weight, std=0.01)

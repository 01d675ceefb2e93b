"""AlexNet for 28×28 images, as one network and split over two devices as its authors trained it.

Channels, groups and dense layers are those of 2012. Adapted to small images: one input channel; the first
convolution is 5×5 with stride 1 (11×11 with stride 4), so that the pools leave 28 → 13 → 6 → 2 pixels a side; ten
classes.

What a device computes (channels), and where it needs what the other one computed::

    image ─ conv 48, conv 128 ─┬─ conv 192, conv 192, conv 128 ─┬─ dense 2048 ─┬─ dense 2048 ─┬─ dense 10, on the
                              256                              256           4096           4096      first only

The second, fourth and fifth convolution have two groups: they read no channel of the other half. Pools, ReLU and
dropout treat each channel alone. So each parameter of a half is half of the whole network's, cut along its first
dimension (output channels); only the last layer stays whole.

Not modelled: local response normalisation, and the crops and colour shifts of the training images of 2012.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from graphsched.errors import ExperimentError

__all__ = ["AlexNet", "AlexNetSplit"]

HALVES = 2
DENSE = 4096


def _stages(share: int, groups: int, dropout: float) -> nn.ModuleList:
    """One of `share` equal parts of the layers, cut where a part reads the channels of all parts."""
    first = [
        nn.Conv2d(1, 96 // share, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, stride=2),
        nn.Conv2d(96 // share, 256 // share, 5, padding=2, groups=groups), nn.ReLU(), nn.MaxPool2d(3, stride=2),
    ]  # fmt: skip
    second = [
        nn.Conv2d(256, 384 // share, 3, padding=1), nn.ReLU(),
        nn.Conv2d(384 // share, 384 // share, 3, padding=1, groups=groups), nn.ReLU(),
        nn.Conv2d(384 // share, 256 // share, 3, padding=1, groups=groups), nn.ReLU(), nn.MaxPool2d(3, stride=2),
        nn.Flatten(),
    ]  # fmt: skip
    third = [nn.Linear(256 * 2 * 2, DENSE // share), nn.ReLU(), nn.Dropout(dropout)]
    fourth = [nn.Linear(DENSE, DENSE // share), nn.ReLU(), nn.Dropout(dropout)]
    return nn.ModuleList(nn.Sequential(*layers) for layers in (first, second, third, fourth))


class AlexNet(nn.Module):
    """From images (batch, 1, 28, 28) to scores (batch, `classes`), on one device.

    Weights start normal with variance 1/inputs, biases zero: with PyTorch's own first values, or normal × 0.01, plain
    gradient descent takes far longer to leave the loss it starts with.

    Args:
        classes: Number of classes.
        dropout: Probability of dropping an output of the first two dense layers while training.

    Source: Krizhevsky, Sutskever and Hinton, NeurIPS 2012; d2l.ai 8.1. First values: LeCun, Bottou, Orr and Müller,
        Efficient BackProp, 1998.

    Example:
        >>> sum(p.numel() for p in AlexNet().parameters())
        23322314
    """

    def __init__(self, classes: int = 10, *, dropout: float = 0.5) -> None:
        super().__init__()
        self.stages = _stages(1, HALVES, dropout)
        self.output = nn.Linear(DENSE, classes)
        self.apply(_first_values)

    def forward(self, x: Tensor) -> Tensor:
        """From images (batch, 1, 28, 28) to scores (batch, classes)."""
        for stage in self.stages:
            x = stage(x)
        scores: Tensor = self.output(x)
        return scores


class AlexNetSplit(nn.Module):
    """`AlexNet` with half of the channels on each of two devices; what both read is copied between stages.

    It returns what `AlexNet` returns with the same parameters, and after the same ``torch.manual_seed`` starts from the
    same ones. Only dropout, while training, draws other numbers (none with ``dropout=0``).

    Args:
        devices: The two devices, which may be one and the same. Scores are on the first.
        classes: Number of classes.
        dropout: As in `AlexNet`.

    Raises:
        ExperimentError: There are not two devices.

    Not modelled: moving it later; ``.to(device)`` would bring the halves together. Make it anew.

    Source: Krizhevsky, Sutskever and Hinton, NeurIPS 2012, fig. 2.

    Example:
        >>> AlexNetSplit(("cpu", "cpu"))(torch.zeros(2, 1, 28, 28)).shape
        torch.Size([2, 10])
    """

    def __init__(self, devices: Sequence[str | torch.device], classes: int = 10, *, dropout: float = 0.5) -> None:
        super().__init__()
        if len(devices) != HALVES:
            raise ExperimentError(f"{len(devices)} devices for AlexNet's {HALVES} halves: name two, or one twice")
        self.devices = tuple(torch.device(device) for device in devices)
        with torch.device("meta"):  # shapes without values, which are those of a whole network
            self.halves = nn.ModuleList(_stages(HALVES, 1, dropout) for _ in self.devices)
            self.output = nn.Linear(DENSE, classes)
        self.load_whole(AlexNet(classes, dropout=dropout))

    def load_whole(self, net: AlexNet) -> None:
        """Take copies of the parameters of `net`, half of each stage's on either device.

        They are new tensors: an optimiser is made after.
        """
        whole = net.stages.state_dict()
        for i, (half, device) in enumerate(zip(self.halves, self.devices, strict=True)):
            parts = {name: values.chunk(HALVES)[i] for name, values in whole.items()}
            _give(half, parts, device)
        _give(self.output, net.output.state_dict(), self.devices[0])

    def forward(self, x: Tensor) -> Tensor:
        """From images (batch, 1, 28, 28) to scores (batch, classes) on the first device."""
        parts = [x.to(device) for device in self.devices]
        for i, stages in enumerate(zip(*self.halves, strict=True)):
            read = [_joined(parts, device) for device in self.devices] if i else parts
            parts = [stage(h) for stage, h in zip(stages, read, strict=True)]
        scores: Tensor = self.output(_joined(parts, self.devices[0]))
        return scores


def _joined(parts: Sequence[Tensor], device: torch.device) -> Tensor:
    """The channels of all parts, in order, on `device`."""
    return torch.cat([part.to(device) for part in parts], dim=1)


def _give(layers: nn.Module, values: Mapping[str, Tensor], device: torch.device) -> None:
    """Make copies of `values` on `device` the parameters of `layers`."""
    layers.load_state_dict({name: value.to(device, copy=True) for name, value in values.items()}, assign=True)


def _first_values(layer: nn.Module) -> None:
    if isinstance(layer, (nn.Conv2d, nn.Linear)):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="linear")
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)

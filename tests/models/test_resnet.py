"""ResNet-18: sizes after each stage, the count of parameters, and what a block computes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from models.resnet import Residual, resnet18
from tests.models.networks import seeded


def test_no_pool_stands_before_the_last() -> None:
    """stem ─ 64 ─ 128 ─ 256 ─ 512 ─ mean ─ dense"""
    x, shapes = torch.zeros(2, 1, 28, 28), {}
    for name, stage in resnet18().named_children():
        x = stage(x)
        shapes[name] = tuple(x.shape[1:])
    assert shapes == {
        "stem": (64, 28, 28), "stage1": (64, 28, 28), "stage2": (128, 14, 14), "stage3": (256, 7, 7),
        "stage4": (512, 4, 4), "head": (10,),
    }  # fmt: skip


@pytest.mark.parametrize(("classes", "channels"), [(10, 1), (7, 3)])
def test_parameters_are_as_many_as_the_layers_say(classes: int, channels: int) -> None:
    def conv(inputs: int, outputs: int, side: int = 3) -> int:
        return inputs * outputs * side * side + outputs

    def block(inputs: int, outputs: int) -> int:
        shortcut = conv(inputs, outputs, 1) if inputs != outputs else 0
        return conv(inputs, outputs) + conv(outputs, outputs) + 2 * 2 * outputs + shortcut

    blocks = [(64, 64), (64, 64), (64, 128), (128, 128), (128, 256), (256, 256), (256, 512), (512, 512)]
    expected = conv(channels, 64) + 2 * 64 + sum(block(*b) for b in blocks) + 512 * classes + classes
    assert sum(p.numel() for p in resnet18(classes, channels).parameters()) == expected


def test_weights_start_small() -> None:
    net = seeded(resnet18)
    for layer in net.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)) and layer.weight.numel() > 4000:
            assert float(layer.weight.detach().std()) == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize(("inputs", "stride"), [(4, 1), (4, 2), (3, 1), (3, 2)])
def test_a_block_whose_convolutions_add_nothing_is_its_shortcut(inputs: int, stride: int) -> None:
    """x ─ conv1 ─ bn1 ─ relu ─ conv2 ─ bn2 (zero) ─ + ─ relu, with x ─ shortcut ─ + beside"""
    block = Residual(inputs, 4, stride)
    nn.init.zeros_(block.bn2.weight)
    x = torch.randn(2, inputs, 6, 6)
    same = inputs == 4 and stride == 1
    expected = x if same else nn.functional.conv2d(x, block.shortcut.weight, block.shortcut.bias, stride=stride)
    torch.testing.assert_close(block(x), expected.clamp(min=0))


def test_a_block_without_shortcut_is_its_convolutions() -> None:
    block = Residual(3, 4, 2).double().eval()
    nn.init.zeros_(block.shortcut.weight)
    nn.init.zeros_(block.shortcut.bias)
    x = torch.randn(2, 3, 6, 6, dtype=torch.float64)
    layers = nn.Sequential(block.conv1, block.bn1, nn.ReLU(), block.conv2, block.bn2, nn.ReLU())
    torch.testing.assert_close(block(x), layers(x))

"""LeNet: parameters of the text, and the function and the module as one network."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from models.lenet import SHAPES, LeNet, initial_params, lenet
from tests.models.networks import seeded


def test_it_has_the_parameters_of_the_text() -> None:
    params = dict(LeNet().named_parameters())
    assert [tuple(p.shape) for p in params.values()] == [
        (20, 1, 3, 3), (20,), (50, 20, 5, 5), (50,), (800, 128), (128,), (128, 10), (10,),
    ]  # fmt: skip
    assert list(params) == list(SHAPES)


def test_weights_are_small_and_biases_zero() -> None:
    torch.manual_seed(12)
    for name, values in zip(SHAPES, initial_params(), strict=True):
        if name.startswith("b"):
            assert not values.any()
        else:
            assert float(values.std()) == pytest.approx(0.01, rel=0.15)
    assert float(initial_params(scale=2.0)[4].std()) == pytest.approx(2.0, rel=0.02)


def test_function_and_module_are_the_same_to_the_bit() -> None:
    net = seeded(LeNet)
    torch.manual_seed(12)
    params = [p.requires_grad_() for p in initial_params()]
    x = torch.rand(3, 1, 28, 28)
    by_module, by_function = net(x), lenet(x, params)
    assert torch.equal(by_module, by_function)
    by_module.sum().backward()
    by_function.sum().backward()
    assert all(torch.equal(p.grad, q.grad) for p, q in zip(net.parameters(), params, strict=True))


def test_it_is_what_layers_of_pytorch_compute() -> None:
    """x ─ conv ─ relu ─ pool ─ conv ─ relu ─ pool ─ flat ─ dense ─ relu ─ dense"""
    layers = nn.Sequential(
        nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10),
    ).double()  # fmt: skip
    params = [p.T if name in ("7.weight", "9.weight") else p for name, p in layers.named_parameters()]
    x = torch.rand(3, 1, 28, 28, dtype=torch.float64)
    torch.testing.assert_close(lenet(x, params), layers(x), rtol=1e-12, atol=1e-12)

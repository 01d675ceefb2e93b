"""Dense layers: sizes of the text, and what they compute."""

from __future__ import annotations

import torch

from models.mlp import mlp, two_layer_mlp


def test_the_mlp_is_that_of_the_text() -> None:
    shapes = {name: tuple(p.shape) for name, p in mlp().named_parameters()}
    assert shapes == {
        "0.weight": (256, 512), "0.bias": (256,),
        "2.weight": (128, 256), "2.bias": (128,),
        "4.weight": (2, 128), "4.bias": (2,),
    }  # fmt: skip


def test_two_layers_with_relu_between() -> None:
    """images ─ flat ─ dense ─ relu ─ dense"""
    net = two_layer_mlp(4, 3, 2).double()
    w1, b1, w2, b2 = net.parameters()
    x = torch.randn(5, 1, 2, 2, dtype=torch.float64)
    expected = (x.reshape(5, 4) @ w1.T + b1).clamp(min=0) @ w2.T + b2
    torch.testing.assert_close(net(x), expected, rtol=1e-12, atol=1e-12)

"""Calls that kernels would not check: those of torch's own gradients pass, others are refused before they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from graphsched.errors import SignatureError
from graphsched.executors.strict_shapes import strict

aten = torch.ops.aten
F3, F5 = torch.ones(3), torch.ones(5)
IMAGES = torch.rand(4, 3, 8, 8)
ROWS = torch.rand(4, 6)
MASK = [True, True, True]
WEIGHT = torch.rand(6, 3, 3, 3)
CONVOLUTION = ([6], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, MASK)


def _norm(**vectors: torch.Tensor) -> Any:
    given = dict(weight=F3, bias=F3, running_mean=F3.clone(), running_var=F3.clone()) | vectors
    return aten._native_batch_norm_legit(IMAGES, **given, training=True, momentum=0.1, eps=1e-5)


def _norm_backward(grad: torch.Tensor, mean: torch.Tensor, *, train: bool = True) -> Any:
    return aten.native_batch_norm_backward(grad, IMAGES, F3, F3, F3, mean, mean, train, 1e-5, MASK)


def _pool_backward(grad: torch.Tensor) -> Any:
    return aten.avg_pool2d_backward(grad, IMAGES, [2, 2], [2, 2], [0, 0], False, True, None)


def _layer_norm_backward(grad: torch.Tensor, mean: torch.Tensor) -> Any:
    return aten.native_layer_norm_backward(grad, ROWS, [6], mean, torch.ones(4, 1), None, None, [True, False, False])


def _group_norm_backward(grad: torch.Tensor, mean: torch.Tensor) -> Any:
    return aten.native_group_norm_backward(grad, IMAGES, mean, torch.ones(4, 1), F3, 4, 3, 64, 1, MASK)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: _norm(running_mean=F5), r"running_mean of aten::_native_batch_norm_legit is \[5\], \[3\] is needed"),
        (lambda: _norm(running_var=torch.ones(1)), r"running_var of .* is \[1\], \[3\]"),
        (lambda: _norm(weight=torch.ones(1)), r"weight of .* is \[1\], \[3\]"),
        (lambda: aten.native_batch_norm(F3, None, None, None, None, True, 0.1, 1e-5), "two dimensions or more"),
        (lambda: _norm_backward(IMAGES, F5), r"save_mean of aten::native_batch_norm_backward is \[5\]"),
        (lambda: _norm_backward(IMAGES[:1], F3), r"grad_out of .* is \[1, 3, 8, 8\], \[4, 3, 8, 8\] is needed"),
        (
            lambda: _pool_backward(torch.rand(12, 3, 4, 4)),
            r"grad_output of aten::avg_pool2d_backward is \[12, 3, 4, 4\]",
        ),
        (lambda: aten._softmax_backward_data(ROWS[:1], ROWS, 1, torch.float32), r"grad_output of aten::_softmax_back"),
        (lambda: aten._log_softmax_backward_data(ROWS, ROWS[0], 0, torch.float32), r"is \[4, 6\], \[6\] is needed"),
        (
            lambda: aten.convolution_backward(torch.rand(4, 6, 8, 8), IMAGES[:1], WEIGHT, *CONVOLUTION),
            r"\[1, 6, 8, 8\]",
        ),
        (lambda: aten.convolution_backward(torch.rand(4, 6, 8, 8), IMAGES, WEIGHT.half(), *CONVOLUTION), "one type is"),
        (lambda: _layer_norm_backward(ROWS, torch.ones(1)), r"mean of aten::native_layer_norm_backward is \[1\]"),
        (lambda: _layer_norm_backward(ROWS[:1], torch.ones(4, 1)), r"grad_out of aten::native_layer_norm_backward"),
        (lambda: _group_norm_backward(IMAGES, torch.ones(1)), r"mean of aten::native_group_norm_backward is \[1\]"),
    ],
)
def test_other_shapes_are_refused(call: Callable[[], Any], message: str) -> None:
    with strict(), pytest.raises(SignatureError, match=message):
        call()


@pytest.mark.parametrize(
    "call",
    [
        _norm,
        lambda: _norm_backward(IMAGES, F3),
        lambda: _norm_backward(IMAGES, torch.ones(0), train=False),
        lambda: _pool_backward(torch.rand(4, 3, 4, 4)),
        lambda: _layer_norm_backward(ROWS, torch.ones(4, 1)),
        lambda: _group_norm_backward(IMAGES, torch.ones(4, 1)),
        lambda: aten.convolution_backward(torch.rand(4, 6, 8, 8), IMAGES, WEIGHT, *CONVOLUTION),
    ],
)
def test_right_shapes_pass(call: Callable[[], Any]) -> None:
    with strict():
        checked = call()
    unchecked = call()
    one, other = ([v] if isinstance(v, torch.Tensor) else [*v] for v in (checked, unchecked))
    assert [t if t is None else t.shape for t in one] == [t if t is None else t.shape for t in other]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "layer",
    [
        nn.BatchNorm2d(3),
        nn.BatchNorm2d(3, affine=False, track_running_stats=False),
        nn.InstanceNorm2d(3, affine=True, track_running_stats=True),
        nn.GroupNorm(3, 3),
        nn.LayerNorm(8),
        nn.LayerNorm((8, 8), elementwise_affine=False),
        nn.Conv2d(3, 6, 3, stride=2, groups=3),
        nn.ConvTranspose2d(3, 2, 3, output_padding=1, stride=2),
        nn.AvgPool2d(3, stride=2, padding=1, ceil_mode=True),
        nn.AvgPool3d((1, 2, 2)),
        nn.Softmax(1),
        nn.LogSoftmax(-1),
    ],
    ids=str,
)
def test_what_torch_calls_for_gradients_passes(layer: nn.Module, training: bool) -> None:
    layer.train(training)
    images = IMAGES.clone().requires_grad_()
    with strict():
        layer(images).sum().backward()
    assert images.grad is not None
    assert images.grad.shape == IMAGES.shape

"""Types of what norms return of an input in less precision than their weights, on fake tensors as on real ones."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import graphsched as gs
from graphsched.workload import fake_mode
from graphsched.workload.norms import as_kernels_return
from tests.tracing.steps import run

ATEN = torch.ops.aten
NORMS = {
    "batch": lambda: nn.BatchNorm2d(4),
    "batch, no weight": lambda: nn.BatchNorm2d(4, affine=False),
    "batch, mean of all": lambda: nn.BatchNorm2d(4, momentum=None),
    "layer": lambda: nn.LayerNorm([4, 3, 3]),
    "group": lambda: nn.GroupNorm(2, 4),
    "instance": lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
}


def calls(weight: torch.dtype) -> list[tuple[Any, tuple[Any, ...]]]:
    """Operators with arguments, the image in bfloat16."""
    x, w = torch.randn(5, 4, 3, 3).bfloat16(), torch.ones(4, dtype=weight)
    images, mean, variance = x.flatten(2), torch.zeros(4, dtype=weight), torch.ones(4, dtype=weight)
    group = (5, 4, 9, 2)
    _, *kept = ATEN.native_group_norm(images, w, w, *group, 1e-5)
    return [
        (ATEN.native_batch_norm.default, (x, w, w, mean, variance, True, 0.1, 1e-5)),
        (ATEN.native_batch_norm.default, (x, None, None, mean, variance, False, 0.1, 1e-5)),
        (ATEN.native_batch_norm.default, (x, None, None, None, None, True, 0.1, 1e-5)),
        (ATEN._native_batch_norm_legit_functional.default, (x, w, w, mean, variance, True, 0.1, 1e-5)),
        (ATEN._native_batch_norm_legit.no_stats, (x, w, w, True, 0.1, 1e-5)),
        (ATEN._batch_norm_with_update.default, (x, w, w, mean, variance, 0.1, 1e-5)),
        (ATEN.native_layer_norm.default, (x.transpose(1, 3).contiguous(), [4], w, w, 1e-5)),
        (ATEN.native_group_norm.default, (images, w, w, *group, 1e-5)),
        (ATEN.native_group_norm_backward.default, (images, images, *kept, w, *group, [True, True, True])),
        (ATEN.native_group_norm_backward.default, (images, images, *kept, w, *group, [False, True, True])),
    ]


@pytest.mark.parametrize("weight", [torch.float32, torch.bfloat16])
def test_types_are_those_of_the_kernels(weight: torch.dtype) -> None:
    for operator, args in calls(weight):
        mode = fake_mode()
        fakes = [mode.from_tensor(arg) if isinstance(arg, torch.Tensor) else arg for arg in args]
        with mode:
            found = operator(*fakes)
        types = [[None if t is None else t.dtype for t in result] for result in (found, operator(*args))]
        assert types[0] == types[1], operator


def test_results_of_other_operators_stay() -> None:
    result = object()
    assert as_kernels_return(ATEN.mm.default, (), result) is result


@pytest.mark.parametrize("norm", NORMS)
def test_a_step_in_mixed_precision(norm: str) -> None:
    """x ─ convolution (bfloat16) ─ norm (weights in single precision) ─ loss, gradients, update"""
    torch.manual_seed(3)
    net = nn.Sequential(nn.Conv2d(2, 4, 1), NORMS[norm]())
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        sgd.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = net(x)
        loss = y.float().pow(3).mean()
        loss.backward()
        sgd.step()
        return loss

    x = torch.randn(5, 2, 3, 3)
    found, states = run(gs.trace(step, x), steps=2)
    step(x)
    torch.testing.assert_close(found["output"], step(x).detach(), rtol=0.02, atol=0.02)
    after = net.state_dict()
    for name, tensor in states.items():
        if name in after:
            torch.testing.assert_close(tensor, after[name], rtol=0.02, atol=0.02)

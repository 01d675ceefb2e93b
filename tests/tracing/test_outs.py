"""Operators with ``out=``: the operator that returns the result, and a copy.

x ─ operator ─ copy ─ tensor or state of out=
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

import graphsched as gs
from graphsched.errors import TraceError
from tests.tracing.steps import plain, run, worst

X = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
Y = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def into_a_view(x: torch.Tensor) -> torch.Tensor:
    whole = torch.zeros_like(x)
    torch.mul(x[:2], 2, out=whole[2:4])
    return whole + 1


def two_results(x: torch.Tensor) -> dict[str, torch.Tensor]:
    largest, places = x.new_empty(6), torch.empty(6, dtype=torch.long)
    returned = torch.max(x, 1, out=(largest, places))
    return {"largest": largest * 2, "places": places, "returned": returned[0]}


@pytest.mark.parametrize(
    "function",
    [
        into_a_view,
        two_results,
        lambda x: torch.cat([x, x], out=x.new_empty(12, 4)) * 2,
        lambda x: torch.add(x, x, out=torch.empty(6, 4)),  # in another type
    ],
)
def test_results_are_those_of_pytorch(function: Callable[[Any], Any]) -> None:
    found, _ = run(gs.trace(function, X))
    wanted = function(X)
    wanted = wanted if isinstance(wanted, dict) else {"output": wanted}
    assert {name: t.dtype for name, t in found.items()} == {name: t.dtype for name, t in wanted.items()}
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_states_are_changed_in_place() -> None:
    """The power iteration of spectral norm writes its vectors to buffers."""
    torch.manual_seed(3)
    net = spectral_norm(nn.Linear(4, 3)).double()
    sgd = lambda parameters: torch.optim.SGD(parameters, lr=0.1)  # noqa: E731
    _, states = run(gs.trace(net, X, target=Y, loss=F.mse_loss, optimizer=sgd(net.parameters())), steps=3)
    _, _, stepped = plain(net, sgd, F.mse_loss, X, Y, 3)
    wanted = dict(stepped.named_parameters()) | dict(stepped.named_buffers())
    assert worst(states, {name: tensor for name, tensor in wanted.items() if name in states}) < 1e-12
    assert "parametrizations.weight.0._u" in states


def test_another_shape() -> None:
    with pytest.raises(TraceError, match=r"result of shape \(6, 4\) to out= of shape \(3,\)"):
        gs.trace(lambda x: torch.neg(x, out=torch.empty(3, dtype=x.dtype)), X)

"""Parameters that several modules share: of one that another holds, and of one tensor in two."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import graphsched as gs
from tests.tracing.steps import run

X = torch.randn(4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
STEPS = 3


def held() -> tuple[nn.Module, nn.Module]:
    """A layer, and a network that holds it."""
    inner = nn.Linear(6, 6, dtype=torch.float64)
    return inner, nn.Sequential(inner, nn.ReLU())


def tied() -> tuple[nn.Module, nn.Module]:
    """Two layers of one weight."""
    first, second = (nn.Linear(6, 6, dtype=torch.float64) for _ in range(2))
    second.weight = first.weight
    return first, second


def step_of(a: nn.Module, b: nn.Module) -> Any:
    """A training step on both: x ─▶ a ─▶ b ─▶ loss, and a ─▶ loss."""
    parameters = list(dict.fromkeys([*a.parameters(), *b.parameters()]))
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = (b(a(x)) + a(x)).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


@pytest.mark.parametrize("make", [held, tied])
def test_what_modules_share_is_trained_as_one(make: Any) -> None:
    torch.manual_seed(0)
    a, b = make()
    weight = a.weight
    wanted, other = copy.deepcopy((a, b))  # in one go: what they share they still share
    plain = step_of(wanted, other)
    losses = [plain(X).item() for _ in range(STEPS)]
    results, states = run(gs.trace(step_of(a, b), X), STEPS, x=X)
    (loss,) = results.values()
    assert loss.item() == pytest.approx(losses[-1], rel=1e-12)
    weights = [value for name, value in states.items() if name.endswith("weight")]
    assert len(weights) == 1
    torch.testing.assert_close(weights[0], wanted.weight.detach())
    assert a.weight is weight  # the trace has put everything back
    assert all(type(p) is nn.Parameter for p in (*a.parameters(), *b.parameters()))

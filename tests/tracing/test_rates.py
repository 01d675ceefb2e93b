"""Learning rates of traced steps: one for each trace; what would change it inside the step is refused.

x ─ layer ─ loss ─ gradients ─ update at the rate of the trace ─ (scheduler, outside)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import lr_scheduler

import graphsched as gs
from graphsched.errors import TraceError
from tests.tracing.steps import Optimizer, plain, run, worst

X = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
Y = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
SGD: Optimizer = functools.partial(torch.optim.SGD, lr=0.1)


def small() -> nn.Module:
    torch.manual_seed(3)
    return nn.Linear(4, 3).double()


class Quartered(lr_scheduler.LRScheduler):
    """The user's own, with a step of its own."""

    def get_lr(self) -> Any:
        return [group["lr"] / 4 for group in self.optimizer.param_groups]

    def step(self, epoch: Any = None) -> None:
        self.note = epoch
        super().step(epoch)


SCHEDULERS: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "StepLR": lambda optimizer: lr_scheduler.StepLR(optimizer, 10),
    "CosineAnnealingWarmRestarts": lambda optimizer: lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 4),
    "ReduceLROnPlateau": lr_scheduler.ReduceLROnPlateau,
    "ChainedScheduler": lambda optimizer: lr_scheduler.ChainedScheduler([lr_scheduler.ExponentialLR(optimizer, 0.5)]),
    "Quartered": Quartered,
}


def as_it_is(optimizer: torch.optim.Optimizer, scheduler: Any) -> str:
    """All that both hold; an optimiser's attributes as they are, hooks and wrapped methods among them."""
    own = {key: value for key, value in vars(optimizer).items() if key not in ("param_groups", "state")}
    return repr((own, optimizer.state_dict(), {k: v for k, v in vars(scheduler).items() if k != "optimizer"}))


@pytest.mark.parametrize("kind", SCHEDULERS)
def test_a_scheduler_in_the_step_is_refused(kind: str) -> None:
    """Also where its rate would stay the same for some steps; nothing has moved, and outside it takes its steps."""
    net = small()
    optimizer = SGD(net.parameters())
    scheduler = SCHEDULERS[kind](optimizer)
    before = as_it_is(optimizer, scheduler)

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step(*[loss.detach()] * (kind == "ReduceLROnPlateau"))

    message = rf"test_rates.py:\d+: `scheduler.step.*{kind} takes a step.*call scheduler.step\(\) outside of the step"
    with pytest.raises(TraceError, match=message):
        gs.trace(step, X, Y)
    assert as_it_is(optimizer, scheduler) == before
    step(X, Y)
    assert scheduler.state_dict()["_last_lr"] == [group["lr"] for group in optimizer.param_groups]
    assert as_it_is(optimizer, scheduler) != before


def test_a_rate_that_the_step_sets_is_refused() -> None:
    """A warm-up by hand: even at its first value, which is what the optimiser has already."""
    net = small()
    optimizer = SGD(net.parameters())
    warm = [0.1, 0.2]

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        for group in optimizer.param_groups:
            group["lr"] = warm[0]
        F.mse_loss(net(x), y).backward()
        optimizer.step()

    with pytest.raises(TraceError, match=r"test_rates.py:\d+: `group.*sets .lr. of SGD.*outside of the step"):
        gs.trace(step, X, Y)
    step(X, Y)


def test_a_number_that_an_optimizer_counts_in_its_groups_is_refused() -> None:
    class Slower(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            for group in self.param_groups:
                group["taken"] = group.get("taken", 0) + 1
            return super().step(closure)

    net = small()
    optimizer = Slower(net.parameters(), lr=0.1)
    with pytest.raises(TraceError, match="sets 'taken' of Slower"):
        gs.trace(net, X, target=Y, loss=F.mse_loss, optimizer=optimizer)
    assert "taken" not in optimizer.param_groups[0]


def test_a_scheduler_outside_and_a_trace_for_each_rate() -> None:
    """trace at 0.1 ─ two steps ─ scheduler.step() ─ trace at 0.05 ─ two steps; a trace is no step for the scheduler."""
    net = small()
    optimizer = SGD(net.parameters())
    halved = lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    _, _, first = plain(net, SGD, F.mse_loss, X, Y, 2)
    _, _, wanted = plain(first, functools.partial(SGD, lr=0.05), F.mse_loss, X, Y, 2)

    def two_steps() -> None:
        before = as_it_is(optimizer, halved)
        work = gs.trace(net, X, target=Y, loss=F.mse_loss, optimizer=optimizer)
        assert as_it_is(optimizer, halved) == before
        net.load_state_dict(run(work, steps=2)[1], strict=False)

    two_steps()
    with pytest.warns(UserWarning, match="before `optimizer.step"):  # it does not know of the program's steps
        halved.step()
    assert optimizer.param_groups[0]["lr"] == 0.05
    two_steps()
    assert worst(net.state_dict(), dict(wanted.named_parameters())) < 1e-12


def test_an_optimizer_is_as_it_was_with_what_its_step_notes() -> None:
    class Counting(torch.optim.SGD):
        taken = 0

        def step(self, closure: Any = None) -> Any:
            self.taken += 1
            return super().step(closure)

    net = small()
    optimizer = Counting(net.parameters(), lr=0.1)
    gs.trace(net, X, target=Y, loss=F.mse_loss, optimizer=optimizer)
    assert optimizer.taken == 0

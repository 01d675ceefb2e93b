"""What a trace takes as it was, leaves out or does not see, as docs/tracing.md says."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graphsched as gs
from graphsched.errors import TraceError
from tests.tracing.steps import plain, run, worst

X = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
Y = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)


def small() -> nn.Module:
    torch.manual_seed(3)
    return nn.Linear(4, 3).double()


def test_gradients_begin_at_none_in_every_run() -> None:
    """A step without zero_grad, of which PyTorch would add up the gradients."""
    net = small()
    optimizer = sgd(net.parameters())

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        F.mse_loss(net(x), y).backward()
        optimizer.step()

    _, states = run(gs.trace(step, X, Y), steps=3)
    _, _, stepped = plain(net, sgd, F.mse_loss, X, Y, 3)
    assert worst(states, dict(stepped.named_parameters())) < 1e-12


def test_numbers_from_outside_are_those_of_the_trace() -> None:
    found = [random.Random(5)]

    def noise(x: torch.Tensor) -> torch.Tensor:
        return x * found[0].random()

    work = gs.trace(noise, X)
    for steps in (1, 2):
        assert torch.equal(run(work, steps)[0]["output"], X * random.Random(5).random())


def test_an_optimizer_that_was_not_found() -> None:
    """Of a helper or an object: it is refused, or it would take no step; named it is as any other."""
    net = small()
    trainer = SimpleNamespace(net=net, optimizer=sgd(net.parameters()))

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        F.mse_loss(trainer.net(x), y).backward()
        trainer.optimizer.step()

    with pytest.raises(TraceError, match=r"test_limits.py:\d+: `trainer.optimizer.step.*SGD takes a step.*optimizer="):
        gs.trace(step, X, Y, module=net)
    _, states = run(gs.trace(step, X, Y, module=net, optimizer=trainer.optimizer))
    _, _, stepped = plain(net, sgd, F.mse_loss, X, Y, 1)
    assert worst(states, dict(stepped.named_parameters())) < 1e-12
    trainer.optimizer.step()  # outside nothing is refused


@pytest.mark.parametrize(
    "function", [lambda x: x + torch.ones(4, device="cuda"), lambda x: x.to("meta") + x], ids=["made", "moved"]
)
def test_tensors_of_two_devices(function: Callable[..., Any]) -> None:
    with pytest.raises(TraceError, match="devices"):
        gs.trace(function, X.float())


def test_a_move_of_all_is_none() -> None:
    found, _ = run(gs.trace(lambda x: x.to("meta") * 2, X))
    assert torch.equal(found["output"], X * 2)


def test_changes_through_data_are_traced() -> None:
    net = small()

    def function(x: torch.Tensor) -> torch.Tensor:
        net.get_parameter("weight").data.mul_(2)
        return net(x)

    found, states = run(gs.trace(function, X))
    assert torch.equal(found["output"], function(X).detach())
    assert torch.equal(states["weight"], net.get_parameter("weight").detach())


def test_what_nothing_needs_is_no_task() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x.exp().sum()
        return x * 2

    assert [task.name for task in gs.trace(function, X).tasks] == ["output"]


@pytest.mark.parametrize(("rows", "tasks"), [(1 << 18, ["output"]), ((1 << 18) + 1, ["zeros_like", "output"])])
def test_constants_like_others_have_a_megabyte_at_most(rows: int, tasks: list[str]) -> None:
    work = gs.trace(lambda x: torch.maximum(x, torch.zeros_like(x)), torch.zeros(rows))
    assert [task.name for task in work.tasks] == tasks


@pytest.mark.parametrize("grain", ["operator", "module"])
def test_tasks_name_no_device(grain: str) -> None:
    """What a step draws is drawn where the plan runs it, in a task of several operators too."""
    work = gs.trace(lambda x: torch.relu(x + torch.rand(4)), X, grain=grain)
    operations = [t.operation for t in work.tasks if t.operation is not None]
    steps = [step for o in operations for step in getattr(o.function, "steps", (o,))]
    assert "torch.ops.aten.rand.default" in [step.name for step in steps]
    assert not any({"device", "pin_memory"} & set(step.kwargs) for step in steps)

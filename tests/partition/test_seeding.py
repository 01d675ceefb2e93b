"""Shares of gradients that cost nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graphsched as gs
from graphsched.errors import TraceError
from graphsched.partition.seeding import with_share
from tests.partition.replicas import small
from tests.tracing.steps import run


def _changes(work: gs.Workload) -> dict[str, Any]:
    before = {name: tensor.detach().clone() for name, tensor in work.tensors.items()}
    return {name: tensor - before[name] for name, tensor in run(work)[1].items() if not name.startswith("constant")}


def test_a_share_of_the_gradients_from_the_same_tasks() -> None:
    work, _ = small()
    part = with_share(work.source, 0.25).trace()
    assert [t.name for t in part.tasks] == [t.name for t in work.tasks]
    assert torch.equal(run(part)[0]["loss"], run(work)[0]["loss"])
    for name, change in _changes(work).items():
        assert torch.allclose(_changes(part)[name], change / 4, rtol=1e-9, atol=1e-16)


def _by_hand(differentiate: Callable[[torch.Tensor, list[Any]], Any]) -> gs.Workload:
    """A step that computes gradients and updates as `differentiate` and plain arithmetic do."""
    torch.manual_seed(3)
    net = nn.Linear(4, 3).double()

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(net(x), y)
        parameters = list(net.parameters())
        gradients = differentiate(loss, parameters) or [p.grad for p in parameters]
        with torch.no_grad():
            for p, gradient in zip(parameters, gradients, strict=True):
                p -= 0.1 * gradient
        return loss

    return gs.trace(step, torch.randn(6, 4).double(), torch.randint(0, 3, (6,)))


def _twice(loss: torch.Tensor, _: Any) -> None:
    loss.backward(retain_graph=True)
    loss.backward()


@pytest.mark.parametrize(
    "backward", [lambda loss, _: loss.backward(), lambda loss, _: torch.autograd.backward([loss]), _twice]
)
def test_steps_that_call_backward_themselves(backward: Callable[..., Any]) -> None:
    work = _by_hand(backward)
    part = with_share(work.source, 0.25).trace()
    assert [t.name for t in part.tasks] == [t.name for t in work.tasks]
    for name, change in _changes(work).items():
        assert torch.allclose(_changes(part)[name], change / 4, rtol=1e-9, atol=1e-16)


def test_gradients_that_no_share_could_be_given_are_refused() -> None:
    work = _by_hand(lambda loss, parameters: torch.autograd.grad(loss, parameters))
    with pytest.raises(TraceError, match=r"call loss\.backward\(\) instead"):
        with_share(work.source, 0.25).trace()


def test_the_whole_share_is_the_source_itself() -> None:
    work, _ = small()
    assert with_share(work.source, 1.0) is work.source

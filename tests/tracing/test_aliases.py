"""Views and in-place changes in traced functions: random programs, beside PyTorch."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import graphsched as gs
from graphsched.errors import TraceError
from graphsched.tracing.aliases import functional
from tests.tracing.steps import run

Change = Callable[[torch.Tensor], torch.Tensor]

VIEWS: list[Change] = [
    lambda t: t[0] if t.dim() > 1 else t[:2],
    lambda t: t[..., 1:3],
    lambda t: t.transpose(0, -1),
    lambda t: t.unsqueeze(0),
    lambda t: t.flatten(),
    lambda t: t.split(1)[0],
    lambda t: t.unbind()[-1] if t.dim() > 1 else t,
    lambda t: t.detach(),
    lambda t: t[:1].unsqueeze_(0).transpose_(0, 1),
    lambda t: t.t_() if t.dim() == 2 else t,
    lambda t: t.unsqueeze_(1),
    lambda t: t.T if t.dim() == 2 else t,
    lambda t: t.expand(2, *t.shape)[0],
]
IN_PLACE: list[Change] = [
    lambda t: t.add_(1),
    lambda t: t.mul_(t),
    lambda t: t.zero_(),
    lambda t: t.relu_(),
    lambda t: t.copy_(t.flip(0)),
    lambda t: t.fill_(3.0),
    lambda t: t.clamp_(-1, 2),
]
OUT_OF_PLACE: list[Change] = [lambda t: t * 2, lambda t: t + t.mean(), lambda t: t.cumsum(0), lambda t: t.clone()]


def program(seed: int, *, keeps_input: bool) -> Change:
    """A function that looks into tensors, changes them and makes others, in a random order."""

    def function(x: torch.Tensor) -> torch.Tensor:
        rng = random.Random(seed)
        tensors = [x * 1 if keeps_input else x]
        for _ in range(rng.randint(1, 12)):
            kind = rng.choice((VIEWS, VIEWS, IN_PLACE, OUT_OF_PLACE))
            tensors.append(rng.choice(kind)(rng.choice(tensors)))
        return torch.cat([t.flatten() for t in tensors])

    return function


@given(seed=st.integers(0, 10**9))
@settings(deadline=None, max_examples=150)
def test_random_programs(seed: int) -> None:
    """x ─ x·1 ─ views, changes in place and results of them in any order ─ all of them at the end"""
    function = program(seed, keeps_input=True)
    x = torch.randn(3, 4, dtype=torch.float64)
    found, _ = run(gs.trace(function, x))
    assert torch.equal(found["output"], function(x))


def test_a_change_through_a_view_is_seen_by_all() -> None:
    """x ─ y ─┬─ y[:, 0] += 5
    └─ y (whole), y.T"""

    def change(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        turned, column = y.T, y[:, 0]
        column += 5
        return y, turned, column

    x = torch.rand(3, 4)
    found, _ = run(gs.trace(change, x))
    for name, wanted in zip(("output.0", "output.1", "output.2"), change(x), strict=True):
        assert torch.equal(found[name], wanted)


@pytest.mark.parametrize("make", [torch.zeros_like, torch.ones_like, lambda t: torch.full_like(t, 2.0)])
def test_a_constant_lies_in_memory_as_what_it_is_like(make: Change) -> None:
    """A row of it is changed, and numbers are drawn into it in the order of memory."""

    def function(x: torch.Tensor) -> dict[str, torch.Tensor]:
        changed = make(x.T)
        changed[0] = x.sum()
        return {"changed": changed, "drawn": make(x.T).uniform_()}

    found, _ = run(gs.trace(function, torch.rand(3, 4)), x=(x := torch.rand(3, 4)))
    torch.manual_seed(7)
    wanted = function(x)
    assert all(torch.equal(found[name], tensor) for name, tensor in wanted.items())


@pytest.mark.parametrize("operator", [F.logsigmoid, lambda t: F.batch_norm(t, None, None, training=True)])
def test_a_row_is_changed_of_a_result_that_lies_otherwise_than_its_fake(operator: Change) -> None:
    """The results of both operators are contiguous, where their fakes have the strides of the transposed argument."""

    def function(x: torch.Tensor) -> torch.Tensor:
        result = operator(x.permute(2, 1, 0))
        result[0] = 1.0
        return result

    found, _ = run(gs.trace(function, torch.rand(3, 4, 5)), x=(x := torch.rand(3, 4, 5)))
    assert torch.equal(found["output"], function(x))


@pytest.mark.parametrize("make", [lambda x: x, lambda x: x * 1, torch.ones_like, lambda x: x.new_ones(2, 3)])
def test_a_tensor_that_is_turned_in_place_is_changed(make: Change) -> None:
    """x ─ t ─┬─ t.t_() (the same tensor) += 1, its first row doubled
    └─ its first column, taken before"""

    def turned(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        tensor = make(x)
        column = tensor[:, 0]
        tensor.t_().add_(1)
        tensor[0].mul_(2)
        return tensor, column, tensor.sum(1)

    x = torch.rand(2, 3)
    found, _ = run(gs.trace(turned, x))
    for i, wanted in enumerate(turned(x.clone())):
        assert torch.equal(found[f"output.{i}"], wanted)


def test_a_state_that_is_turned_in_place_is_refused() -> None:
    held = torch.zeros(3, 3)
    with pytest.raises(TraceError, match=r"aten.t_.default turns a parameter, buffer or tensor from around the step"):
        gs.trace(lambda x: held.t_() + x, torch.ones(3))


def test_a_state_is_changed_in_place_through_views() -> None:
    held = torch.zeros(3, 4)

    def count(x: torch.Tensor) -> torch.Tensor:
        held[:, 1] += x
        held.t()[0].mul_(2).add_(1)
        return held.sum()

    work = gs.trace(count, torch.ones(3))
    assert not held.any()
    assert {v.name for t in work.tasks for v in t.updates} == {"constant.0"}
    found, states = run(work, steps=2)
    assert count(torch.ones(3)) is not None
    assert torch.equal(found["output"], count(torch.ones(3)))
    assert torch.equal(states["constant.0"], held)


def _scale(net: nn.Module, x: torch.Tensor) -> None:
    ((net.a + net.b) * x).sum().pow(2).backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.1)


def _accumulate(net: nn.Module, x: torch.Tensor) -> None:
    ((net.a + net.b) * x).sum().backward()
    (net.a * x).sum().backward()


def _give(net: nn.Module, x: torch.Tensor) -> None:
    net.a.backward(net.kept)
    net.kept.mul_(2)
    net.a.grad[0].mul_(3)
    (net.b * x).sum().backward()


def _spread(net: nn.Module, x: torch.Tensor) -> None:
    (net.a.sum() + (net.b * x).sum()).backward()
    net.a.grad.t()[1].mul_(3)


@pytest.mark.parametrize("step", [_scale, _accumulate, _give, _spread])
def test_each_gradient_has_memory_of_its_own(step: Callable[[nn.Module, torch.Tensor], None]) -> None:
    """a + b ─ x·(a + b) ─ loss: both parameters are handed one gradient; each changes its own in place"""
    torch.manual_seed(0)
    net = nn.Module()
    net.a, net.b = nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(3, 4))
    net.register_buffer("kept", torch.randn(3, 4))

    def gradients(x: torch.Tensor) -> list[torch.Tensor | None]:
        step(net, x)
        return [parameter.grad for parameter in net.parameters()]

    x = torch.randn(3, 4)
    found, states = run(gs.trace(gradients, x))
    for i, wanted in enumerate(gradients(x)):
        assert torch.allclose(found[f"output.{i}"], wanted)
    assert torch.equal(states.get("kept", net.kept), net.kept)


@pytest.mark.parametrize("operator", ["relu_", "zero_", "copy_", "sigmoid_", "tril_", "exp_"])
def test_operators_that_return_what_others_change(operator: str) -> None:
    found = functional(getattr(torch.ops.aten, operator).default)
    assert found._schema.name == f"aten::{operator.removesuffix('_')}"


def test_random_operators_draw_the_same() -> None:
    def draw(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x).normal_() + torch.empty_like(x).uniform_(0, 3) * torch.empty_like(x).bernoulli_(0.3)

    x = torch.zeros(50)
    found, _ = run(gs.trace(draw, x))
    torch.manual_seed(7)
    assert torch.equal(found["output"], draw(x))


def test_a_tensor_with_another_memory() -> None:
    with pytest.raises(TraceError, match="another memory"):
        gs.trace(lambda x: (x * 2).resize_(2), torch.zeros(4))


def test_no_operator_returns_what_this_changes() -> None:
    with pytest.raises(TraceError, match="write it out of place"):
        functional(torch.ops.aten.set_data.default)


def test_a_view_of_another_type_is_not_changed() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        z = torch.complex(x, x)
        z.real.mul_(2)
        return z

    with pytest.raises(TraceError, match=r"test_aliases.py:\d+: `z.real.mul_.*view of type torch.float32"):
        gs.trace(function, torch.rand(4))


@pytest.mark.parametrize("inplace", [True, False])
def test_an_operator_that_returns_one_tensor_and_changes_another(inplace: bool) -> None:
    """RReLU's noise."""
    x = torch.randn(40, dtype=torch.float64)
    found, _ = run(gs.trace(lambda x: torch.nn.functional.rrelu(x * 1, training=True, inplace=inplace), x))
    torch.manual_seed(7)
    assert torch.equal(found["output"], torch.nn.functional.rrelu(x, training=True))

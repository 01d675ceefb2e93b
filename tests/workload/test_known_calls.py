"""Calls that are alike share what is known of them; calls that only look alike do not."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphsched.errors import ForeignValueError, SignatureError
from graphsched.workload import TensorSpec, Workload
from graphsched.workload.signatures import lasting

SQUARE = TensorSpec((4, 4))


def two() -> tuple[Workload, Any, Any]:
    work = Workload()
    return work, work.input("x", SQUARE), work.input("y", TensorSpec((4, 4)))


def test_tasks_that_call_alike_share_their_operation() -> None:
    """x, y ──▶ a ──▶ b: both products of two values of one size."""
    work, x, y = two()
    a = work.task(torch.mm, x, y, name="a")
    work.task(torch.mm, a, y, name="b")
    work.task(torch.mm, y, y, name="c")
    a, b, c = (work[name] for name in "abc")
    assert a.operation is not c.operation
    assert [a.signature, b.signature] == ["torch.mm($0,$1) $0=float32[4,4] $1=float32[4,4]"] * 2
    assert c.signature == "torch.mm($0,$0) $0=float32[4,4]"
    assert a.operation.flops == b.operation.flops == 2 * 4**3
    again = work.task(torch.mm, x, y, name="d")
    assert work["d"].operation is a.operation
    assert [read.value.name for read in work["d"].reads] == ["x", "y"]
    assert (again.name, again.producer, again.spec) == ("d", "d", SQUARE)


@pytest.mark.parametrize(
    ("calls", "arguments"),
    [
        (((1,), (True,), (1.0,)), ("$0,1", "$0,True", "$0,1.0")),
        (((0.0,), (-0.0,)), ("$0,0.0", "$0,-0.0")),
    ],
)
def test_constants_that_are_equal_are_told_apart(calls: Any, arguments: Any) -> None:
    work, x, _ = two()
    for k, constants in enumerate(calls):
        work.task(torch.add, x, *constants, name=f"t{k}")
    assert [task.signature for task in work.tasks] == [f"torch.add({each}) $0=float32[4,4]" for each in arguments]


def test_arguments_by_place_and_by_name_are_told_apart() -> None:
    work, x, y = two()
    for k, given in enumerate([{"other": y}, {}, {"other": y, "alpha": 2}, {"other": y, "alpha": 3}, {"other": y}]):
        work.task(torch.add, x, *(() if given else (y,)), name=f"t{k}", **given)
    assert [task.signature.partition(" ")[0] for task in work.tasks] == [
        "torch.add($0,other=$1)",
        "torch.add($0,$1)",
        "torch.add($0,other=$1,alpha=2)",
        "torch.add($0,other=$1,alpha=3)",
        "torch.add($0,other=$1)",
    ]


def test_sizes_are_told_apart_and_what_is_returned_too() -> None:
    work, x, _ = two()
    wide = work.input("wide", TensorSpec((4, 8)))
    made = [work.task(torch.mm, x, value, name=f"t{k}") for k, value in enumerate((x, wide, x, wide))]
    assert [value.spec.shape for value in made] == [(4, 4), (4, 8)] * 2


def test_layers_with_values_of_their_own_share_what_is_known() -> None:
    """x ──▶ mm(w) ──▶ relu ──▶ mul(½) ──▶ mm(w) ──▶ …: each w and ½ another object."""
    work, x, _ = two()
    for k in range(20):
        w = work.input(f"w{k}", torch.rand(4, 4))
        x = work.task(torch.mul, work.task(torch.relu, work.task(torch.mm, x, w)), float("0.5"))
    assert len({id(task.operation) for task in work.tasks}) == 3
    assert len({id(value.spec) for value in work.values.values()}) == 1


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda work: pickle.loads(pickle.dumps(work))])
def test_a_copy_knows_nothing_by_the_addresses_of_the_original(copied: Callable[[Workload], Workload]) -> None:
    """Specifications of the copy may lie where those of the original lay."""
    work = Workload()
    for k in range(200):
        work.task(torch.relu, work.input(f"x{k}", TensorSpec((4, k + 1))), name=f"a{k}")
    other = copied(work)
    del work
    gc.collect()
    for k in range(2000):
        y = other.input(f"y{k}", TensorSpec((7, k + 1)))
        assert other.task(torch.relu, y, name=f"r{k}").spec.shape == (7, k + 1)


def test_code_that_changes_is_looked_at_each_time() -> None:
    factor = 2.0

    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * factor

    work, x, _ = two()
    work.task(scaled, x, name="a")
    factor = 3.0
    work.task(scaled, x, name="b")
    assert work["a"].signature != work["b"].signature
    assert [lasting(f) for f in (scaled, torch.mm, torch.Tensor.add_, torch.ops.aten.mm.default)] == [False] + [
        True
    ] * 3


def test_a_call_known_to_return_something_is_still_checked() -> None:
    work, x, y = two()
    state = work.state("w", SQUARE)
    work.task(torch.Tensor.add_, state, x, updates=state, name="a")
    with pytest.raises(SignatureError, match="'b' changes its argument 'w' in place"):
        work.task(torch.Tensor.add_, state, x, name="b")
    with pytest.raises(SignatureError, match="declares 2 outputs, its function returns 1"):
        work.task(torch.mm, x, y, outputs=2)
    with pytest.raises(ForeignValueError, match="'x' belongs to another workload"):
        work.task(torch.mm, two()[1], y)
    assert [task.name for task in work.tasks] == ["a"]

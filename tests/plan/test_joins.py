"""Which concatenations are made by their parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from graphsched.plan import Plan
from graphsched.workload import Value, Workload
from tests.executors.programs import WORKERS, by_hand

aten = torch.ops.aten


def joined(
    work: Workload, parts: list[Value], shape: tuple[int, ...] | None = None, duration_s: float | None = 0.0
) -> Plan:
    """The plan that puts `parts` together on worker:0, in this shape; all tasks run there but those named ``far``."""
    cat = aten.cat.default
    if shape is None:
        work.task(cat, parts, name="all", duration_s=duration_s)
    else:
        inner = gs_operation(cat, parts)
        work.task(aten.view.default, inner, list(shape), name="all", duration_s=duration_s)
    lanes = {t.name: f"worker:{int('far' in t.name)}/w0" for t in work.tasks if t.kind == "run"}
    return by_hand(work, WORKERS, lanes)


def gs_operation(function: Any, *args: Any) -> Any:
    from graphsched.workload import Operation, operation_name

    return Operation(operation_name(function), function, args)


def start() -> tuple[Workload, Value, Value]:
    """x of 3 elements on worker:0, y of 4 on worker:1."""
    work = Workload()
    return work, work.input("x", torch.ones(3), device="worker:0"), work.input("y", torch.ones(4), device="worker:1")


def test_parts_are_copies_sums_and_clones() -> None:
    """x ─▶ sum ─┐
    x ─▶ same ┼▶ all        y is copied by the plan, far2 too, by a copy of its own
    y ────────┤
    y ─▶ far ─▶ copy ┘
    """
    work, x, y = start()
    total = work.task(aten.add_.Tensor, gs_operation(aten.add.Tensor, x, x), x, name="sum")
    same = work.task(aten.clone.default, x, name="same")
    far = work.task(aten.neg.default, y, name="far")
    copy = work.copy(far, to="worker:0", pinned=True, name="copy")
    (join,) = joined(work, [total, same, y, copy], (2, 7)).joins
    assert (join.task, join.device, join.elements, join.dtype) == ("all", "worker:0", 14, "float32")
    assert list(join.starts.values()) == [0, 3, 6, 10]
    assert list(join.starts)[:2] + list(join.starts)[3:] == ["sum", "same", "copy"]


@pytest.mark.parametrize(
    ("make", "duration_s"),
    [
        (lambda work, x, y: [y], None),  # it is not said to take no time
        (lambda work, x, y: [y], 1e-6),
        (lambda work, x, y: [x, y], 0.0),  # an input lies where it is
        (lambda work, x, y: [work.task(aten.neg.default, x, name="neg"), y], 0.0),  # another kind of task
        (lambda work, x, y: [y, y], 0.0),  # one part in two places
        (lambda work, x, y: [work.task(aten.add.Tensor, x, 1, alpha=2, name="sum"), y], 0.0),
        (lambda work, x, y: [work.input("z", torch.ones(2, 2), device="worker:1")], 0.0),  # not flat
        (lambda work, x, y: [y, work.input("z", torch.ones(2, dtype=torch.float64), device="worker:1")], 0.0),
    ],
)
def test_others_are_concatenated(make: Any, duration_s: float | None) -> None:
    work, x, y = start()
    assert joined(work, make(work, x, y), duration_s=duration_s).joins == ()


def test_a_part_has_one_place() -> None:
    """The copy of y is a part of the first of two."""
    work, _, y = start()
    work.task(aten.cat.default, [y], name="first", duration_s=0.0)
    assert [join.task for join in joined(work, [y]).joins] == ["first"]


@pytest.mark.parametrize("outer", [aten.add_.Tensor, aten.neg.default, aten.split.Tensor])
def test_only_views_of_one_tensor_are_made_by_the_parts(outer: Any) -> None:
    """What changes the concatenation would change the parts; what is made of it is other memory."""
    work, _, y = start()
    more = () if outer is aten.neg.default else (2,)
    work.task(outer, gs_operation(aten.cat.default, [y]), *more, name="all", duration_s=0.0)
    plan = by_hand(work, WORKERS, "worker:0/w0")
    assert plan.joins == ()
    assert plan.peak_memory["worker:0"].nbytes > 0


def test_ranks_concatenate() -> None:
    """They receive parts in memory of their own."""
    work, _, y = start()
    plan = joined(work, [y])
    assert [len(replace(plan, mode=mode).joins) for mode in ("eager", "distributed")] == [1, 0]

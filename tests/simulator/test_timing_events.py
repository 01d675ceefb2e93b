"""Timing events beside copies from the host: each takes longer while one goes into its GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.costs import Costs, TaskCost
from graphsched.plan import Plan
from graphsched.simulator import Model, predict
from graphsched.simulator.predict import tabulated
from graphsched.simulator.substitution import Substitution
from graphsched.simulator.timing_events import incoming, late_events_s, run_with_events
from graphsched.timeline import Timeline
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, planned, platform

LATE = replace(FREE, timed_gap_s=1.0, timed_beside_s=3.0)
TO_GPU, TO_HOST, TO_OTHER = ("cpu", "cuda:0"), ("cuda:0", "cpu"), ("cpu", "cuda:1")


def plan_of(
    ends: tuple[str, str] = TO_GPU, *, nbytes: int = 1000, tasks: int = 3, pinned: bool = True, mode: str = "eager"
) -> Plan:
    """t0 -> t1 -> t2, 2 s each on cuda:0; beside them c, a copy at 100 bytes per second."""
    work = Workload()
    source, target = ends
    value = work.input("h", TensorSpec((nbytes,), "uint8"), device=source)
    work.copy(value, to=target, name="c", pinned=pinned)
    x = work.input("x", TensorSpec((2,)), device="cuda:0")
    for i in range(tasks):
        x = work.task("f", x, name=f"t{i}", outputs=[TensorSpec((2,))], device="cuda:0")
    costs = Costs({(work["t0"].signature, "GPU"): TaskCost(2.0, 0.0)})
    plan = planned(work, platform(dispatch=LATE), {f"t{i}": "cuda:0/s0" for i in range(tasks)}, costs=costs)
    return replace(plan, mode=mode)


def ends_of(line: Timeline) -> list[float]:
    return [span.end_s for span in line if span.action.startswith("t")]


def test_events_beside_a_copy_from_the_host_take_longer() -> None:
    """The copy lasts from 0 to 11: the event behind t0 (at 3) and both of t1 (at 6 and 9) fall into that."""
    plan = plan_of()
    line = predict(plan)
    assert ends_of(line) == [6.0, 15.0, 18.0]
    assert line.start_s.tolist()[1:] == [0.0, 6.0, 15.0]
    assert line.makespan_s == 10.0


def test_the_copy_itself_and_the_run_without_events_take_what_they_did() -> None:
    plan = plan_of(nbytes=100_000)
    line = predict(plan)
    assert (line[0].end_s, line.makespan_s) == (1001.0, 1000.0)
    assert ends_of(predict(plan, model=Model(timing=False))) == [2.0, 4.0, 6.0]
    assert tabulated(plan, 1, Model(timing=False))[0].dispatch.timed_beside_s == 0.0


@pytest.mark.parametrize("ends", [TO_HOST, TO_OTHER])
def test_copies_to_the_host_or_into_another_gpu_change_nothing(ends: tuple[str, str]) -> None:
    assert ends_of(predict(plan_of(ends))) == [3.0, 6.0, 9.0]


def test_pageable_copies_change_nothing() -> None:
    assert ends_of(predict(plan_of(pinned=False))) == [3.0, 6.0, 9.0]


def test_events_in_graphs_are_late_too() -> None:
    """As in eager mode, behind a launch."""
    line = predict(plan_of(mode="graph"))
    assert ends_of(line) == pytest.approx([6.0, 15.0, 18.0], rel=1e-5)
    assert line.makespan_s == pytest.approx(10.0, rel=1e-5)


def test_stamps_in_graphs_are_not_late() -> None:
    """Two stamps of 0.5 s take the place of the events around each task."""
    plan = plan_of(mode="graph")
    stamped = replace(plan.platform, dispatch=replace(LATE, graph_stamp_s=0.5))
    assert ends_of(predict(replace(plan, platform=stamped))) == pytest.approx([3.0, 6.0, 9.0], rel=1e-4)


def without(plan: Plan):  # type: ignore[no-untyped-def]
    """The plan's platform where such events are not known to take longer."""
    return replace(plan.platform, dispatch=replace(plan.platform.dispatch, timed_beside_s=0.0))


def test_where_nothing_is_known_the_run_is_simulated_once() -> None:
    plan = plan_of()
    plan = replace(plan, platform=without(plan))
    columns, _, makespan_s = run_with_events(tabulated(plan, 1, Model())[0], plan)
    assert (columns.late_events_s, makespan_s) == ({}, 11.0)


def test_events_around_copies_are_left_as_they_are() -> None:
    """In goes a copy of 1000 s, out at once one of 5 s and one of 2 s after it."""
    work = Workload()
    work.copy(work.input("h", TensorSpec((100_000,), "uint8"), device="cpu"), to="cuda:0", name="c", pinned=True)
    for name, nbytes in (("first", 500), ("second", 200)):
        value = work.input(f"{name}-value", TensorSpec((nbytes,), "uint8"), device="cuda:0")
        work.copy(value, to="cpu", name=name, pinned=True)
    line = predict(planned(work, platform(dispatch=LATE), {}))
    assert {span.action: span.end_s for span in line} == {"c": 1001.0, "first": 6.0, "second": 9.0}


def test_one_copy_of_several_is_enough() -> None:
    """Events at 0 and 2 (around t0), 5 and 8 (t1), 9 and 14 (t2); an end or a start of a copy is not beside it.

    ::

        copies   |0-----------------9|     |12------20|
                   |1--3|
        events   0    2    5      8  9          14
    """
    plan = plan_of()
    columns, copies = tabulated(plan, 1, Model())[0], {"cuda:0": [0, 5, 4]}
    start_s, end_s = [0.0, 0.0, 5.0, 9.0, 1.0, 12.0], [9.0, 2.0, 8.0, 14.0, 3.0, 20.0]
    assert late_events_s(columns, plan, copies, start_s, end_s) == {1: 3.0, 2: 6.0, 3: 3.0}


def test_of_several_steps_each_has_its_copies() -> None:
    plan = plan_of()
    assert incoming(tabulated(plan, 2, Model())[0], plan) == {"cuda:0": [0, 4]}
    assert predict(plan, steps=2).timed_makespan_s > predict(plan).timed_makespan_s


def test_the_parts_of_an_error_start_from_the_same_run() -> None:
    plan = plan_of()
    line = predict(plan)
    assert Substitution(replace(line, source="measured")).makespan_s(()) == line.timed_makespan_s

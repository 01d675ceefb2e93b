"""CPU lanes and the thread that hands them tasks take turns with the interpreter's lock."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphsched.plan import Placement, Plan, build_plan
from graphsched.platform import Device, Dispatch, Link, Platform
from graphsched.schedulers import schedule
from graphsched.simulator import Model, predict
from graphsched.simulator.interpreter_lock import without_lock
from graphsched.simulator.substitution import TERMS, Substitution
from graphsched.simulator.tabulating import tabulate
from graphsched.timeline import Timeline
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE

JOB_S, SIGNAL_S, WAKE_S = 1.0, 2.0, 4.0
LOCKED = replace(FREE, job_s=JOB_S, lock_signal_s=SIGNAL_S, lock_wake_s=WAKE_S)


def plan_of(rows: list[list[float]], dispatch: Dispatch, *, mode: str = "eager") -> Plan:
    """Tasks that need nothing, a row for each lane, handed over in turn.

    ::

        cpu/w0   t0/0   t0/1   …
        cpu/w1   t1/0   t1/1   …
    """
    work, lane_of = Workload(), {}
    x = work.input("x", TensorSpec((2, 2)))
    for k in range(max(map(len, rows))):
        for lane, row in enumerate(rows):
            if k < len(row):
                lane_of[f"t{lane}/{k}"] = f"cpu/w{lane}"
                work.task(torch.neg, x, name=f"t{lane}/{k}", device="cpu", duration_s=row[k])
    here = Platform("here", (Device("cpu", "cpu"),), dispatch=dispatch, cores=64)
    return replace(build_plan(work, here, None, Placement(list(lane_of), lane_of), scheduler="by hand"), mode=mode)


def spans(found: Timeline) -> dict[str, tuple[float, float]]:
    return {name: (float(found.start_s[i]), float(found.end_s[i])) for i, name in enumerate(found.plan.names)}


def test_one_lane_takes_what_it_takes_without_a_lock() -> None:
    """cpu/w0   t0/0 ─ t0/1 ─ t0/2: nobody else wants the lock."""
    alone = replace(LOCKED, lock_signal_s=0.0, lock_wake_s=0.0)
    found, without = (predict(plan_of([[10.0, 5.0, 3.0]], costs)) for costs in (LOCKED, alone))
    assert found.end_s.tolist() == without.end_s.tolist() == [11.0, 17.0, 21.0]


def test_a_lane_that_comes_while_another_has_the_lock_is_woken_at_a_cost() -> None:
    """t1/0 is over at 10.5, when the lane of t0 says that t0/0 is over: it sleeps until 11 + 4.

    The next operation of the other lane takes 2 s longer, for it wakes it.

    ::

        cpu/w0   t0/0 ├────10────┤ job ├── 2 + 20 ──┤ job
        cpu/w1   t1/0 ├────10.5───┤ asleep ├ job
    """
    found = spans(predict(plan_of([[10.0, 20.0], [10.5]], LOCKED)))
    assert found == {"t0/0": (0.0, 11.0), "t0/1": (11.0, 34.0), "t1/0": (0.0, 16.0)}


def test_a_lane_that_is_woken_may_find_the_lock_taken_again() -> None:
    """At 15, when lane 1 is there, lane 0 has been back from 1 s of work since 14: it lets go at 15.5.

    ::

        cpu/w0   t0/0 ├─10─┤ job ├ 2 + 1.5 ┤ job ├ 2 + 30 ┤
        cpu/w1   t1/0 ├─10.5─┤   asleep            ├ job
    """
    found = spans(predict(plan_of([[10.0, 1.5, 30.0], [10.5]], LOCKED)))
    assert found["t0/1"] == (11.0, 15.5)
    assert found["t0/2"] == (15.5, 48.5)
    assert found["t1/0"] == (0.0, 20.5)


def test_lanes_start_when_the_thread_has_handed_over_everything() -> None:
    """It has the lock for 8 + 2 × 1 s, for the lane sleeps when it is given the first task; then the lane is woken."""
    costs = replace(LOCKED, handoff_s=8.0, put_s=1.0)
    found = predict(plan_of([[10.0, 10.0, 10.0]], costs))
    assert found.issue_end_s.tolist() == [8.0, 9.0, 10.0]
    assert found.start_s.tolist() == [14.0, 25.0, 36.0]


def test_a_lane_that_is_busy_takes_a_task_for_less() -> None:
    """Without a lock too; unknown, it costs what a lane that sleeps does."""
    costs = replace(FREE, handoff_s=8.0, put_s=1.0)
    assert predict(plan_of([[100.0, 1.0]], costs)).issue_end_s.tolist() == [8.0, 9.0]
    assert predict(plan_of([[0.5, 1.0]], replace(costs, put_s=7.5))).issue_end_s.tolist() == [8.0, 15.5]
    assert predict(plan_of([[100.0, 1.0]], replace(costs, put_s=0.0))).issue_end_s.tolist() == [8.0, 16.0]


def test_a_lane_that_others_wait_for_wakes_them_with_the_lock_held() -> None:
    """t0 ──▶ t1 on another lane, which is woken at t0's end; the next task of t0's lane starts 8 s later for that.

    ::

        cpu/w0   t0 ├10┤ job, 8 ├ t2
        cpu/w1              asleep ├ t1
    """
    found = spans(predict(told(replace(LOCKED, handoff_s=8.0, put_s=1.0))))
    start_s, end_s = found["t0"]
    assert end_s - start_s == 10.0 + JOB_S
    assert found["t2"][0] == end_s + 8.0
    assert found["t1"][0] == found["t2"][0] + WAKE_S


def test_it_is_told_and_starts_as_measured_between_lanes() -> None:
    """The same: t0's lane takes 3 s to tell, and lets the lock go then; t1's lane is awake after 6, and has it."""
    found = spans(predict(told(replace(LOCKED, handoff_s=8.0, put_s=1.0, wake_s=5.0, tell_s=3.0, told_s=6.0))))
    end_s = found["t0"][1]
    assert found["t2"][0] == end_s + 3.0
    assert found["t1"][0] == end_s + 6.0
    off = Model(waits=False)
    ends = [predict(told(costs), model=off).end_s.tolist() for costs in (LOCKED, replace(LOCKED, told_s=6.0))]
    assert ends[0] == ends[1]


def told(dispatch: Dispatch) -> Plan:
    """t0 ──▶ t1 on another lane of the CPU; t2 behind t0 on its own."""
    work, x = Workload(), TensorSpec((2, 2))
    value = work.task(torch.neg, work.input("x", x), name="t0", device="cpu", duration_s=10.0)
    work.task(torch.neg, value, name="t1", device="cpu", duration_s=1.0)
    work.task(torch.neg, work.input("z", x), name="t2", device="cpu", duration_s=30.0)
    here = Platform("here", (Device("cpu", "cpu"),), dispatch=dispatch)
    lanes = Placement(["t0", "t1", "t2"], {"t0": "cpu/w0", "t1": "cpu/w1", "t2": "cpu/w0"})
    return build_plan(work, here, None, lanes, scheduler="by hand")


@pytest.mark.parametrize("model", [Model(interpreter=False), Model(dispatch=False)])
def test_it_can_be_switched_off(model: Model) -> None:
    rows = [[10.0, 20.0], [10.5]]
    unknown = replace(LOCKED, lock_signal_s=0.0, lock_wake_s=0.0)
    found, without = (predict(plan_of(rows, costs), model=model) for costs in (LOCKED, unknown))
    assert found.end_s.tolist() == without.end_s.tolist()


def test_ranks_have_no_lanes_beside_them() -> None:
    rows = [[10.0, 20.0], [10.5]]
    unknown = replace(LOCKED, lock_signal_s=0.0, lock_wake_s=0.0)
    found, without = (predict(plan_of(rows, costs, mode="distributed")) for costs in (LOCKED, unknown))
    assert found.makespan_s == without.makespan_s


def test_columns_without_the_lock_are_those_of_a_platform_that_has_none() -> None:
    """Two copies over one bus into a worker, and their sum there::

    worker:0 ─ a ┐
                 ├ sum on worker:2
    worker:1 ─ b ┘
    """
    workers = tuple(Device(f"worker:{k}", "worker") for k in range(3))
    links = tuple(Link(f"worker:{k}", "worker:2", "local", 0.5, 8.0, ("bus",)) for k in range(2))
    here = Platform("here", (Device("cpu", "cpu"), *workers), links, {"bus": 8.0}, LOCKED)
    work = Workload()
    x, y = (work.input(name, TensorSpec((4,)), device=f"worker:{k}") for k, name in enumerate("xy"))
    a, b = (work.copy(value, to="worker:2", name=name) for value, name in ((x, "a"), (y, "b")))
    work.task(torch.add, a, b, name="sum", device="worker:2", duration_s=3.0)
    free = replace(here, dispatch=replace(LOCKED, lock_signal_s=0.0, lock_wake_s=0.0))
    taken_off, never = (
        without_lock(tabulate(schedule(work, platform, scheduler="one_stream"), Model())[0])
        for platform in (here, free)
    )
    assert taken_off.routes
    assert (taken_off.routes, taken_off.work_s, taken_off.job_s) == (never.routes, never.work_s, JOB_S)


def test_with_all_that_was_measured_a_run_comes_out_as_measured() -> None:
    """What lanes waited for the lock is in their spans; it does not count twice."""
    costs = replace(LOCKED, handoff_s=8.0, put_s=1.0)
    found = predict(plan_of([[10.0, 1.5, 30.0], [10.5, 3.0]], costs))
    assert Substitution(found).makespan_s(TERMS) == pytest.approx(found.timed_makespan_s)
    assert Substitution(found).makespan_s(()) == found.timed_makespan_s


TIMES = st.floats(0.0, 20.0)


@given(st.lists(st.lists(TIMES, min_size=1, max_size=5), min_size=1, max_size=4), TIMES, TIMES)
def test_no_row_is_shorter_than_without_a_lock(rows: list[list[float]], signal_s: float, wake_s: float) -> None:
    """Every plan ends, each row in order, and none before its own operations and jobs are over."""
    found = predict(plan_of(rows, replace(LOCKED, lock_signal_s=signal_s, lock_wake_s=wake_s)))
    ends = {name: end for name, (_, end) in spans(found).items()}
    for lane, row in enumerate(rows):
        over = [ends[f"t{lane}/{k}"] for k in range(len(row))]
        assert over == sorted(over)
        assert over[-1] >= sum(row) + len(row) * JOB_S - 1e-9

"""CPU lanes and the thread that hands them tasks take turns with the interpreter's lock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
TIMES_OF_CALLS = st.floats(0.0, 40.0)
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


def calling(calls: int, seconds: float, dispatch: Dispatch, *, mode: str = "eager", read: bool = False) -> Plan:
    """Calls of 10 s each to a GPU behind a task of a lane, whose result is perhaps `read` there.

    ::

        thread     t │ c0 │ c1 │ c2 │ …  ( │ u )
        cpu/w0       t ├ seconds ┤ job
    """
    work, x, names = Workload(), TensorSpec((2, 2)), [f"c{k}" for k in range(calls)]
    made = work.task(torch.neg, work.input("x", x), name="t", device="cpu", duration_s=seconds)
    there = work.input("y", x, device="cuda:0")
    for name in names:
        work.task(torch.neg, there, name=name, device="cuda:0", duration_s=1.0)
    if read:
        names.append("u")
        work.task(torch.neg, made, name="u", device="cuda:0", duration_s=1.0)
    devices, way = (Device("cpu", "cpu"), Device("cuda:0", "cuda")), Link("cpu", "cuda:0", "pinned", 0.0, 1e9)
    here = Platform("here", devices, (way,), dispatch=replace(dispatch, run_s=10.0))
    lanes = Placement(["t", *names], {"t": "cpu/w0"} | dict.fromkeys(names, "cuda:0/s0"))
    return replace(build_plan(work, here, None, lanes, scheduler="by hand"), mode=mode)


WOKEN = replace(LOCKED, wake_s=3.0)
LOSING = replace(WOKEN, lock_losses=((100, 5.0),))


def durations(plan: Plan, **options: Any) -> list[float]:
    """Of the thread's calls, in the order of the plan."""
    found = predict(plan, **options)
    return [round(seconds, 3) for seconds in (found.issue_end_s - found.issue_start_s).tolist()]


def test_calls_of_gpus_lose_the_lock_to_a_lane_that_begins_and_ends() -> None:
    """t begins at 3, while the first call is made, which is over at 10 + 5, and is over at 35, within the third."""
    alone, found = (durations(calling(4, 32.0, costs)) for costs in (WOKEN, LOSING))
    handed, *calls = alone
    assert calls == [10.0] * 4
    assert found == [handed, 15.0, 10.0, 15.0, 10.0]


def test_a_lane_that_has_rested_for_longer_takes_more_from_calls() -> None:
    """t begins at 3 behind a rest of as long, and is over at 35: both times a call loses what is said of 3 s."""
    costs = replace(WOKEN, lock_losses=((1_000_000, 1.0), (5_000_000, 5.0)))
    assert durations(calling(5, 32.0, costs))[1:] == [13.0, 10.0, 10.0, 13.0, 10.0]


def test_a_result_that_a_gpu_reads_takes_the_lock_once_more() -> None:
    """t's operation and the copy into pinned memory both end within the third call."""
    kept, read = (durations(calling(4, 32.0, LOSING, read=read))[1:5] for read in (False, True))
    assert (kept, read) == ([15.0, 10.0, 15.0, 10.0], [15.0, 10.0, 20.0, 10.0])


def test_operations_beside_calls_find_the_lock_taken() -> None:
    """t is over so much later, its copy too; behind the last call it is not."""
    late = replace(LOSING, lock_late_s=4.0)
    ends = {read: spans(predict(calling(4, 32.0, late, read=read)))["t"][1] for read in (False, True)}
    alone = spans(predict(calling(4, 32.0, LOSING)))["t"][1]
    assert (ends[False] - alone, ends[True] - alone) == (pytest.approx(4.0), pytest.approx(8.0))
    found, without = (spans(predict(calling(2, 50.0, costs)))["t"] for costs in (late, LOSING))
    assert found == without


def test_a_thread_that_waits_or_has_made_its_calls_loses_nothing() -> None:
    """t is over after the last call; without calls behind it, t costs the thread nothing."""
    assert durations(calling(2, 50.0, LOSING))[1:] == [15.0, 10.0]
    found, without = (predict(calling(0, 50.0, costs)) for costs in (LOSING, WOKEN))
    assert found.makespan_s == without.makespan_s


def test_what_calls_lose_can_be_switched_off_and_is_not_there_in_graphs() -> None:
    for options in ({"model": Model(interpreter=False)}, {"model": Model(dispatch=False)}):
        assert durations(calling(4, 32.0, LOSING), **options) == durations(calling(4, 32.0, WOKEN), **options)
    found, without = (predict(calling(4, 32.0, costs, mode="graph"), mode="graph") for costs in (LOSING, WOKEN))
    assert found.makespan_s == without.makespan_s


def test_results_of_calls_that_lost_the_lock_come_later() -> None:
    """The second and later calls, and what they start, by what was lost before."""
    found, without = (spans(predict(calling(4, 32.0, costs))) for costs in (LOSING, WOKEN))
    later = [round(found[f"c{k}"][0] - without[f"c{k}"][0], 3) for k in range(4)]
    assert later == [0.0, 5.0, 5.0, 10.0]


@given(st.integers(0, 6), TIMES_OF_CALLS, TIMES_OF_CALLS)
def test_every_plan_ends_and_none_sooner(calls: int, seconds: float, lost_s: float) -> None:
    costs = replace(WOKEN, lock_losses=((100, lost_s),))
    found, without = (predict(calling(calls, seconds, each)) for each in (costs, WOKEN))
    assert found.makespan_s >= without.makespan_s - 1e-9
    assert found.makespan_s <= without.makespan_s + 2 * lost_s + 1e-9


def test_what_was_lost_is_in_measured_calls() -> None:
    found = predict(calling(4, 32.0, LOSING))
    assert Substitution(found).makespan_s(TERMS) == pytest.approx(found.timed_makespan_s)
    assert Substitution(found).makespan_s(("dispatch",)) == pytest.approx(found.timed_makespan_s)
    assert Substitution(found).makespan_s(()) == found.timed_makespan_s


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

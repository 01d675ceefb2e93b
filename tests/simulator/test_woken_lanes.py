"""When tasks start on CPU lanes that have slept, in seconds that tests can work out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsched.plan import Plan
from graphsched.platform import Dispatch
from graphsched.simulator import Model, predict
from graphsched.simulator.substitution import TERMS, Substitution
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, kernel, planned, platform

WAKE_S, CALL_S = 2.0, 10.0
SLEEPY = replace(FREE, wake_s=WAKE_S, run_s=CALL_S, wakes=((4_000_000, 5.0), (24_000_000, 9.0)))


def chain(before: int, gpu_s: float, costs: Dispatch = SLEEPY) -> Plan:
    """`before` calls of 10 s, then the last's task and a task of a lane that waits for it::

    thread     c0 │ … │ g │ t
    cuda:0     ├┤       ├ gpu_s ┤
    cpu/w0                  ·······├ 1 ┤
    """
    work, none = Workload(), TensorSpec((0,), "uint8")
    names = [f"c{k}" for k in range(before)]
    for k, name in enumerate(names):
        work.task(kernel, k, name=name, outputs=[], device="cuda:0", duration_s=1.0)
    made = work.task(kernel, 100, name="g", outputs=[none], device="cuda:0", duration_s=gpu_s)
    work.task(kernel, made, 101, name="t", outputs=[none], device="cpu", duration_s=1.0)
    work.task(kernel, 102, name="u", outputs=[none], device="cpu", duration_s=1.0)
    lanes = dict.fromkeys([*names, "g"], "cuda:0/s0") | dict.fromkeys("tu", "cpu/w0")
    return planned(work, platform(dispatch=costs), lanes)


def starts(plan: Plan, model: Model | None = None) -> Mapping[str, float]:
    return {span.action: round(span.start_s, 6) for span in predict(plan, model=model or Model())}


@pytest.mark.parametrize(("before", "late_s"), [(0, 6.2), (1, 8.2), (2, 9.0), (5, 9.0)])
def test_the_longer_a_lane_has_slept_the_later_it_is_awake(before: int, late_s: float) -> None:
    """g is over 1 s after its call, at the thread's 10, 20, 30 and 60, when t is handed over."""
    handed_s = CALL_S * (before + 1)
    assert starts(chain(before, 0.0))["t"] == pytest.approx(handed_s + late_s)


def test_a_lane_that_waits_awake_for_what_a_task_reads_starts_at_once_behind_it() -> None:
    """g is over at 10 + 50, long after t was handed over and the lane awake."""
    assert starts(chain(0, 50.0))["t"] == pytest.approx(60.0 + WAKE_S)


def test_it_sleeps_until_it_is_handed_the_task_not_until_all_is_there() -> None:
    """g is over at 13; the lane, which has slept for 10, is awake at 16.2."""
    assert starts(chain(0, 3.0))["t"] == pytest.approx(16.2)


def test_a_lane_that_has_not_slept_starts_at_once() -> None:
    """u has been handed over before t is over."""
    found = starts(chain(1, 50.0))
    assert found["u"] == found["t"] + 1.0


def test_a_lane_that_is_handed_a_task_while_it_computes_does_not_sleep() -> None:
    """a ends at 5 + 7, t was handed over at 10, g is over at 12.5: the lane waits for it awake.

    ::

        thread     a │ g │ t
        cuda:0           ├ 2.5 ┤
        cpu/w0       ├ 7 ───┤    ├ 1 ┤
    """
    work, none = Workload(), TensorSpec((0,), "uint8")
    work.task(kernel, 0, name="a", outputs=[], device="cpu", duration_s=7.0)
    made = work.task(kernel, 1, name="g", outputs=[none], device="cuda:0", duration_s=2.5)
    work.task(kernel, made, 2, name="t", outputs=[none], device="cpu", duration_s=1.0)
    plan = planned(work, platform(dispatch=SLEEPY), {"a": "cpu/w0", "g": "cuda:0/s0", "t": "cpu/w0"})
    assert (starts(plan)["a"], starts(plan)["t"]) == (5.0, pytest.approx(14.5))


def test_without_the_figures_a_lane_is_awake_as_soon_as_any() -> None:
    unknown = replace(SLEEPY, wakes=())
    assert starts(chain(2, 0.0, unknown))["t"] == pytest.approx(30.0 + WAKE_S)
    assert starts(chain(2, 0.0), Model(waits=False)) == starts(chain(2, 0.0, unknown), Model(waits=False))


@given(st.integers(0, 3), st.floats(0.0, 60.0))
def test_no_lane_is_awake_sooner_for_having_slept(before: int, gpu_s: float) -> None:
    with_figures, without = (starts(chain(before, gpu_s, each)) for each in (SLEEPY, replace(SLEEPY, wakes=())))
    assert all(0.0 <= with_figures[name] - without[name] <= 9.0 for name in "tu")


@pytest.mark.parametrize("gpu_s", [0.0, 50.0])
def test_what_was_measured_put_in_its_place_gives_the_same_run(gpu_s: float) -> None:
    found = predict(chain(2, gpu_s))
    assert Substitution(found).makespan_s(TERMS) == pytest.approx(found.timed_makespan_s)
    assert Substitution(found).makespan_s(("waits",)) == pytest.approx(found.timed_makespan_s)
    assert Substitution(found).makespan_s(()) == found.timed_makespan_s

"""What a step waits for in the one before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graphsched.plan import Plan
from graphsched.plan.steps import carried, carried_waits
from graphsched.workload import Workload
from tests.executors.programs import WORKERS, by_hand, digits, double_, random_plan, random_workload, step_, top, wide


def names(plan: Plan, pairs: dict[int, tuple[int, ...]]) -> dict[str, list[str]]:
    return {plan.names[i]: [plan.names[j] for j in before] for i, before in pairs.items()}


def test_reads_through_views_are_reads_of_the_state() -> None:
    """w ──▶ part = top(w) ──▶ look(part) (w0);  double_(part) (w1);  look again (w0)."""
    work = Workload()
    part = work.task(top, work.state("w", digits(0)), name="part")
    work.task(wide, part, name="look")
    work.task(double_, part, updates=part, name="double")
    work.task(wide, part, name="again")
    lanes = {"part": "cpu/w0", "look": "cpu/w0", "double": "cpu/w1", "again": "cpu/w0"}
    plan = by_hand(work, WORKERS, lanes)
    assert names(plan, carried_waits(plan)) == {"part": ["double"], "look": ["double"], "double": ["again"]}
    assert names(plan, carried(plan))["double"] == ["double", "again"]


def test_the_last_of_several_updates_counts() -> None:
    """use (w0);  one(w) and two(w) (w1)."""
    work = Workload()
    w = work.state("w", digits(0))
    work.task(wide, w, name="use")
    for name in ("one", "two"):
        work.task(step_, w, 1.0, updates=w, name=name, outputs=[])
    plan = by_hand(work, WORKERS, {"use": "cpu/w0", "one": "cpu/w1", "two": "cpu/w1"})
    assert names(plan, carried_waits(plan)) == {"use": ["two"]}
    assert names(plan, carried(plan)) == {"use": ["two"], "one": ["two"]}


def test_states_that_nobody_updates_carry_nothing() -> None:
    work = Workload()
    work.task(wide, work.state("w", digits(0)), name="use")
    assert carried(by_hand(work, WORKERS, "cpu/w0")) == {}


@given(seed=st.integers(0, 10_000))
def test_a_wait_is_for_the_same_action_or_a_later_one(seed: int) -> None:
    """So a step that is issued in plan order looks before it records; and none is for its own lane."""
    plan = random_plan(random_workload(seed, ("worker:0", "worker:1", "cpu")), WORKERS, seed)
    assert all(i <= j for i, before in carried(plan).items() for j in before)
    assert all(plan.lane_of[i] != plan.lane_of[j] for i, before in carried_waits(plan).items() for j in before)

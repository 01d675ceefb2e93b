"""Measured halves of messages in place of modelled ones: by each rank's own thread, and nothing is left over."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.plan import Plan
from graphsched.platform import Dispatch
from graphsched.simulator import predict
from graphsched.simulator.substitution import TERMS, Substitution
from graphsched.timeline import Timeline
from tests.builders import FREE, planned, platform, workload
from tests.executors.programs import machine, random_plan, random_workload
from tests.simulator.measured import as_measured, slower_links, twin
from tests.simulator.test_substitution import ALL, changes, only

RANKS = replace(ALL, message_s=0.021397, first_message_s=0.043711, meeting_s=0.017231)


def between_ranks(dispatch: Dispatch, source: str = "cuda:0/s0", *, blocking: bool = False) -> Plan:
    """Six tasks that rank 1 issues before its half of the message from a to b.

    ::

        source      a ──▶ message, 1 s
        cuda:1/s0   x0 … x5      └──▶ b
    """
    names = [f"x{k}" for k in range(6)]
    work = workload(dict.fromkeys([*names, "a", "b"], 0.01), [("a", "b", 100)])
    here = platform(dispatch=dispatch, blocking=blocking)
    return replace(planned(work, here, dict.fromkeys([*names, "b"], "cuda:1/s0") | {"a": source}), mode="distributed")


def random_ranks(seed: int, count: int, kind: str) -> Plan:
    """A random plan of tasks on `count` ranks and rank 0's host, with blocking copies, waits and messages."""
    names = [f"{kind}:{k}" for k in range(count)]
    where = replace(machine(*names), dispatch=RANKS)
    plan = random_plan(random_workload(seed, names, tasks=18), where, seed, 1 + seed % 3, on=[*names, "cpu"])
    return replace(plan, mode="distributed")


def test_a_target_that_is_late_is_dispatch() -> None:
    """x0 to x5 take 1 s each to issue where 0.5 s were expected: rank 1 comes 3 s late to the message."""
    plan = between_ranks(replace(FREE, run_s=0.5, message_s=0.25))
    assert changes(twin(plan, dispatch=replace(FREE, run_s=1.0, message_s=0.25))) == only("dispatch", 3.0)


def test_a_half_that_takes_its_target_longer_is_dispatch() -> None:
    """Its half takes rank 1 2.25 s instead of 0.25 s; that of rank 0 is as expected, and long over."""
    plan = between_ranks(replace(FREE, run_s=0.5, message_s=0.25))
    line = predict(plan)
    i = line.plan.index_of["a>cuda:1"]
    moved = {name: getattr(line, name).copy() for name in ("issue_start_s", "issue_end_s", "start_s", "end_s")}
    for k in (i, i + 1):
        for name in ("start_s", "end_s") if k == i else moved:
            moved[name][k] += 2.0
    slower = replace(line, **moved, halves_s={(i, 1): (3.0, 5.25)}, timed_makespan_s=line.timed_makespan_s + 2.0)
    measured = as_measured(slower, plan)
    assert line.halves_s == {(i, 1): (3.0, 3.25)}
    assert changes(measured)["dispatch"] == pytest.approx(2.0)
    assert Substitution(measured).makespan_s(TERMS) == pytest.approx(measured.timed_makespan_s)
    assert Substitution(measured).issue_s()[i] == pytest.approx(2.0)


def test_a_pause_of_its_target_after_a_wait_of_all_is_waits() -> None:
    """All wait before the message; the threads go on 1 s later than expected, there and at the end."""
    work = workload({"a": 0.5, "b": 0.5}, [("a", "b", 100)])
    costs = replace(FREE, message_s=0.25, sync_s=0.5)
    lanes = {"a": "cuda:0/s0", "b": "cuda:1/s0"}
    plan = replace(planned(work, platform(dispatch=costs), lanes, wait_after=["a"]), mode="distributed")
    assert changes(twin(plan, dispatch=replace(costs, sync_s=1.5))) == only("waits", 2.0)


@pytest.mark.parametrize("blocking", [False, True])
def test_a_message_from_a_host_is_handed_over_by_its_source(blocking: bool) -> None:
    """Rank 0 hands the message over within 8 s, not 4, which rank 1, ready at 3.25 s, waits for."""
    costs = replace(FREE, run_s=0.5, message_s=0.25, handoff_s=4.0, wake_s=0)
    plan = between_ranks(costs, "cpu/w0", blocking=blocking)
    assert changes(twin(plan, dispatch=replace(costs, handoff_s=8.0))) == only("dispatch", 8.0)


def perturbed(plan: Plan, link: float, host: float) -> Timeline:
    """`plan` measured with links and threads so many times slower."""
    names = ("run_s", "copy_s", "wait_s", "handoff_s", "message_s", "first_message_s", "meeting_s", "other_device_s")
    slower = {name: host * getattr(RANKS, name) for name in names}
    return twin(plan, links=slower_links(plan.platform, link), dispatch=replace(RANKS, **slower))


FACTOR = st.floats(0.4, 2.5)


@given(
    seed=st.integers(0, 10_000),
    count=st.integers(2, 4),
    kind=st.sampled_from(["worker", "cuda"]),
    link=FACTOR,
    host=FACTOR,
)
@settings(max_examples=60, deadline=None)
def test_all_classes_replaced_is_the_measured_run(seed: int, count: int, kind: str, link: float, host: float) -> None:
    """With its halves and, as in recorded runs from before they were kept, without."""
    measured = perturbed(random_ranks(seed, count, kind), link, host)
    for line in (measured, replace(measured, halves_s={})):
        assert Substitution(line).makespan_s(TERMS) == pytest.approx(line.timed_makespan_s, rel=1e-6)


@given(seed=st.integers(0, 10_000), count=st.integers(2, 4), kind=st.sampled_from(["worker", "cuda"]))
@settings(max_examples=40, deadline=None)
def test_a_perfect_prediction_is_changed_by_nothing(seed: int, count: int, kind: str) -> None:
    plan = random_ranks(seed, count, kind)
    line = predict(plan)
    swap = Substitution(as_measured(line, plan))
    for terms in (("dispatch",), ("waits",), TERMS):
        assert swap.makespan_s(terms) == pytest.approx(line.timed_makespan_s, rel=1e-6)

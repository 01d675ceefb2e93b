"""Measured times in place of modelled ones: each class alone, and all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.costs import Costs, TaskCost
from graphsched.plan import Plan
from graphsched.platform import Dispatch
from graphsched.simulator import predict
from graphsched.simulator.substitution import TERMS, Substitution, Term
from graphsched.timeline import Timeline
from tests.builders import FREE, operations, planned, platform, workload
from tests.simulator.measured import as_measured, of_durations, slower_host, slower_links, twin
from tests.simulator.test_properties import random_plan

SMALL = Dispatch(
    run_s=0.01, copy_s=0.02, peer_copy_s=0.03, record_s=0.005, wait_s=0.005, switch_s=0.01, device_switch_s=0.02,
    timed_record_s=0.01, timed_gap_s=0.05, timed_edge_s=0.03, sync_s=0.1, handoff_s=0.01,
    wake_s=0.05, same_device_s=0.02, other_device_s=0.1, start_s=0.0, launch_s=0.03, queue_depth=1024,
)  # fmt: skip


def chain(dispatch: Dispatch = SMALL, seconds: float = 2.0) -> Plan:
    """a (cuda:0) ─▶ copy of 100 bytes, 1 s ─▶ b (cuda:1)."""
    lanes = {"a": "cuda:0/s0", "b": "cuda:1/s0"}
    return of_durations({"a": seconds, "b": seconds}, [("a", "b", 100)], platform(dispatch=dispatch), lanes)


def changes(measured: Timeline) -> dict[Term, float]:
    """Seconds that each class alone adds to the makespan of the model."""
    swap = Substitution(measured)
    return {term: swap.makespan_s((term,)) - swap.makespan_s(()) for term in TERMS}


def only(term: Term, seconds: float) -> dict[Term, object]:
    return {name: pytest.approx(seconds if name == term else 0.0, abs=1e-9) for name in TERMS}


def test_nothing_replaced_is_the_prediction() -> None:
    plan = chain()
    assert Substitution(twin(plan, dispatch=slower_host(SMALL, 3))).makespan_s(()) == predict(plan).timed_makespan_s


def test_longer_tasks_are_computes() -> None:
    """a and b take 3 s each where 2 s were expected."""
    measured = as_measured(predict(chain(seconds=3.0)), chain())
    assert changes(measured) == only("compute", 2.0)


def test_slower_links_are_transfers() -> None:
    """The copy takes 1.5 s where 1 s was expected."""
    plan = chain()
    assert changes(twin(plan, links=slower_links(plan.platform, 1.5))) == only("transfers", 0.5)


def test_longer_waits_are_waits() -> None:
    """The copy and b wait 0.6 s longer for another lane, of their GPU and of the other; the last return 0.3 s."""
    measured = twin(chain(), dispatch=replace(SMALL, same_device_s=0.62, other_device_s=0.7, sync_s=0.4))
    assert changes(measured) == only("waits", 1.5)


def test_slower_calls_are_dispatch() -> None:
    """Twenty tasks of 0.01 s that take the thread 1 s each where 0.5 s were expected."""
    names = [f"t{i}" for i in range(20)]
    lanes = dict.fromkeys(names, "cuda:0/s0")
    plan = of_durations(dict.fromkeys(names, 0.01), [], platform(dispatch=replace(FREE, run_s=0.5)), lanes)
    measured = twin(plan, dispatch=replace(FREE, run_s=1.0))
    assert changes(measured) == only("dispatch", 10.0)


def test_a_slow_thread_before_a_long_task_is_no_ones_fault_but_its_own() -> None:
    """The span of a starved kernel holds the rest of its call: that is not compute.

    ::

        thread  |--call of a, 5 s--|
        lane    |--- a: 5 s of waiting, 2 s of work ---|
    """
    work, costs = operations({"a": 0}, [TaskCost(2.0, dispatch_s=1.0)])
    plan = planned(work, platform(dispatch=FREE), {"a": "cuda:0/s0"}, costs=costs)
    slower = planned(
        work, platform(), {"a": "cuda:0/s0"}, costs=Costs({k: replace(costs[k], dispatch_s=5.0) for k in costs})
    )
    measured = as_measured(predict(slower), plan)
    assert measured.end_s[0] - measured.start_s[0] == pytest.approx(7.0)
    assert changes(measured) == only("dispatch", 4.0)


@pytest.mark.parametrize(("call_s", "device_s"), [(4.0, 8.0), (8.0, 2.0)])
def test_a_task_of_several_launches(call_s: float, device_s: float) -> None:
    """Four launches: bound by the work, and by the launches."""
    work, costs = operations({"a": 0, "b": 0}, [TaskCost(6.0, dispatch_s=3.0, launches=4)])
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s0"}
    plan = planned(work, platform(dispatch=SMALL), lanes, costs=costs)
    other = Costs({k: replace(costs[k], dispatch_s=call_s, device_s=device_s) for k in costs})
    measured = as_measured(predict(planned(work, platform(dispatch=SMALL), lanes, costs=other)), plan)
    assert Substitution(measured).makespan_s(TERMS) == pytest.approx(measured.timed_makespan_s, rel=1e-9)


def test_what_others_cost_a_task_is_in_its_span() -> None:
    """Two tasks of 2 s side by side, 4 s by the model (no curve); measured they do not slow each other."""
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s1"}
    plan = of_durations({"a": 2.0, "b": 2.0}, [], platform(gpus=1), lanes)
    assert predict(plan).timed_makespan_s == 4.0
    spans = {"start_s": np.zeros(2), "end_s": np.full(2, 2.0), "makespan_s": 2.0, "timed_makespan_s": 2.0}
    assert changes(as_measured(replace(predict(plan), **spans), plan)) == only("compute", -2.0)


def test_copies_that_share_a_link_are_measured_as_they_are() -> None:
    """Two copies of 100 bytes through one bus of 100 bytes/s: 2 s by the model, 1 s measured."""
    where = platform(shared={"bus": 100.0})
    lanes = {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": "cpu/w0", "d": "cpu/w1"}
    plan = of_durations(dict.fromkeys("abcd", 0.0), [("a", "c", 100), ("b", "d", 100)], where, lanes)
    measured = twin(plan, capacities={"bus": 200.0})
    assert changes(measured)["transfers"] == pytest.approx(-1.0)
    assert Substitution(measured).makespan_s(TERMS) == pytest.approx(measured.timed_makespan_s)


def test_a_full_launch_queue_is_not_the_threads_time() -> None:
    """40 tasks of 1 s in a queue of 4: the thread waits 35 s for room; 1.5 s a task measured."""
    names = [f"t{i}" for i in range(40)]
    lanes = dict.fromkeys(names, "cuda:0/s0")
    where = platform(gpus=1, dispatch=replace(SMALL, queue_depth=4))
    plan = of_durations(dict.fromkeys(names, 1.0), [], where, lanes)
    measured = as_measured(predict(of_durations(dict.fromkeys(names, 1.5), [], where, lanes)), plan)
    swap = Substitution(measured)
    assert swap.makespan_s(("dispatch",)) == pytest.approx(swap.makespan_s(()), rel=1e-3)
    assert swap.makespan_s(("compute",)) == pytest.approx(measured.timed_makespan_s, rel=1e-3)


def test_issues_and_late_starts_are_by_action() -> None:
    """The copy's call and b's start on time: both wait, 0.6 s longer than expected."""
    swap = Substitution(
        twin(chain(), dispatch=replace(SMALL, run_s=0.11, same_device_s=0.62, other_device_s=0.7, sync_s=0.4))
    )
    copy, b = 1, 2
    assert [swap.issue_s()[i] for i in (0, copy, b)] == pytest.approx([0.1, 0.0, 0.1])
    assert [swap.late_s()[i] for i in (0, copy, b)] == pytest.approx([0.0, 0.6, 0.6])
    assert swap.return_s() == pytest.approx(0.3)


def test_a_wait_of_the_thread_returns_late() -> None:
    """a, a wait, b: the thread goes on 1 s after a where 0.1 s were expected; so it does at the end."""
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s0"}
    plan = of_durations({"a": 2.0, "b": 2.0}, [], platform(dispatch=SMALL), lanes, wait_after=["a"])
    measured = twin(plan, dispatch=replace(SMALL, sync_s=1.0))
    assert changes(measured) == only("waits", 1.8)
    assert Substitution(measured).return_s() == pytest.approx(1.8)


def test_a_pause_of_the_thread_before_a_wait_is_dispatch() -> None:
    """a, 5 s of nothing, a wait for a, which is long over, b."""
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s0"}
    plan = of_durations({"a": 0.0, "b": 0.0}, [], platform(dispatch=SMALL), lanes, wait_after=["a"])
    line, shift = predict(plan), np.array([0.0, 5.0, 5.0])
    columns = ("issue_start_s", "issue_end_s", "start_s", "end_s")
    moved = {name: getattr(line, name) + shift for name in columns}
    moved["issue_start_s"][1] = line.issue_end_s[0] + 5.0
    moved["issue_end_s"][1] = moved["issue_start_s"][1] + SMALL.sync_s
    back = line.issue_end_s[1] - moved["issue_end_s"][1] + 5.0  # the wait is shorter than it was
    for name in columns:
        moved[name][2] -= back
    measured = as_measured(replace(line, **moved, timed_makespan_s=line.timed_makespan_s + 5.0 - back), plan)
    assert changes(measured) == only("dispatch", 5.0 - back)


def test_a_late_result_of_a_cpu_lane_is_not_dispatch() -> None:
    """a on a worker lane takes 4 s, not 2 s; the thread needs it for b on a GPU, and is blocked until then."""
    lanes = {"a": "cpu/w0", "b": "cuda:0/s0"}
    edges = [("a", "b", 0)]
    plan, slower = (
        of_durations({"a": seconds, "b": 1.0}, edges, platform(dispatch=SMALL), lanes) for seconds in (2.0, 4.0)
    )
    assert changes(as_measured(predict(slower), plan)) == only("compute", 2.0)


def test_what_events_take_between_two_spans_belongs_to_the_second() -> None:
    """a, b on one lane; the event before b is passed 0.03 s after the one behind a, the end is as expected."""
    plan = of_durations({"a": 2.0, "b": 2.0}, [], platform(dispatch=SMALL), {"a": "cuda:0/s0", "b": "cuda:0/s0"})
    line = predict(plan)
    measured = as_measured(replace(line, start_s=line.start_s + np.array([0.0, 0.03])), plan)
    assert changes(measured) == only("compute", 0.0)
    late = as_measured(replace(line, start_s=line.start_s + np.array([0.0, 0.25])), plan)
    assert changes(late) == only("compute", 0.0) | {"compute": pytest.approx(-0.2), "waits": pytest.approx(0.2)}


def test_actions_that_others_slow_are_known() -> None:
    """a and b side by side, c after both."""
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s1", "c": "cuda:0/s0"}
    plan = of_durations(dict.fromkeys("abc", 2.0), [("a", "c", 0), ("b", "c", 0)], platform(gpus=1), lanes)
    line = predict(plan)
    assert Substitution(as_measured(line, plan)).loaded(line) == {0, 1}


def perturbed(plan: Plan, factors: list[float]) -> Timeline:
    """A measured timeline of `plan`: durations, links, host and latencies times `factors`."""
    task, link, host, latency = factors
    graph = plan.work.graph
    durations = {name: task * data.duration_s for name, data in graph.nodes(data="task")}
    work = workload(durations, list(graph.edges(data="nbytes")))
    costs = slower_host(plan.platform.dispatch, host)
    costs = replace(costs, same_device_s=latency * costs.same_device_s, other_device_s=latency * costs.other_device_s)
    where = replace(plan.platform, links=slower_links(plan.platform, link), dispatch=costs)
    return as_measured(predict(replace(plan, work=work, platform=where)), plan)


FACTOR = st.floats(0.4, 2.5)
ALL = replace(  # odd figures, so that nothing ends just when something else is ready
    SMALL, run_s=0.010137, handoff_s=0.010359, wake_s=0.050713, free_s=0.020477, query_s=0.015,
    result_s=0.040823, yield_s=0.060571, colds=((20, 0.010191), (200, 0.040191)),
)  # fmt: skip


@given(seed=st.integers(0, 10_000), factors=st.lists(FACTOR, min_size=4, max_size=4))
@settings(max_examples=60, deadline=None)
def test_all_classes_replaced_is_the_measured_run(seed: int, factors: list[float]) -> None:
    """Random layered DAGs on GPUs, CPU lanes and a worker, with waits, blocking copies among them."""
    plan = random_plan(seed, dispatch=ALL)
    measured = perturbed(plan, factors)
    assert Substitution(measured).makespan_s(TERMS) == pytest.approx(measured.timed_makespan_s, rel=1e-6)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_a_perfect_prediction_is_changed_by_nothing(seed: int) -> None:
    plan = random_plan(seed, dispatch=ALL)
    line = predict(plan)
    swap = Substitution(as_measured(line, plan))
    for terms in (("dispatch",), ("waits",), TERMS):  # one kind of sharer measured frees the cores for the other
        assert swap.makespan_s(terms) == pytest.approx(line.timed_makespan_s, rel=1e-6)


@pytest.mark.parametrize("slept", [(), ((1000, 0.25),), ((1000, 0.75),)])
@pytest.mark.parametrize("returns_s", [0.0, 0.25, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("call_s", [0.1, 0.6])
def test_a_thread_that_went_on_sooner_behind_a_result_gives_the_run_back(
    returns_s: float, slept: tuple[tuple[int, float], ...], call_s: float
) -> None:
    """c (4 s, on a CPU) ──▶ g (1 s, on a GPU), called in a stream so late behind c, and a second late by the model.

    Timing events take the thread half a second more than the model has it: what is called was so long under way.
    """
    work = workload({"c": 4.0, "g": 1.0}, [("c", "g", 0)])
    costs = replace(FREE, result_s=1.0, copy_s=call_s, launch_s=0.05, slept_colds=slept)
    plan = planned(work, platform(gpus=1, dispatch=costs), {"c": "cpu/w0", "g": "cuda:0/s0"})
    measured = predict(
        replace(plan, platform=platform(gpus=1, dispatch=replace(costs, result_s=returns_s, timed_record_s=0.5)))
    )
    measured = replace(measured, plan=plan)
    assert Substitution(measured).makespan_s(TERMS) == pytest.approx(measured.timed_makespan_s)

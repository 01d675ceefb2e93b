"""Timetables: lanes, states, copies and what a trial leaves."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.costs import Costs
from graphsched.errors import PlatformError, ScheduleError
from graphsched.platform import Device, Platform
from graphsched.schedulers import schedule
from graphsched.schedulers.heft import upward_ranks
from graphsched.schedulers.placing.levels import in_grains, levels_below, transfer_seconds, typical_seconds
from graphsched.schedulers.placing.timetable import Timetable
from graphsched.workload import Workload
from tests.schedulers.graphs import MATRIX, add, dags, graph, machine, workloads


def table(
    work: Workload, platform: Platform, lanes: int = 1, *, copies: str = "own", contention: bool = True
) -> Timetable:
    """Nothing placed yet."""
    return Timetable(work, platform, Costs(), lanes=lanes, copies=copies, contention=contention)  # type: ignore[arg-type]


def by_rank(work: Workload, platform: Platform, lanes: int = 1, *, contention: bool) -> Timetable:
    """All tasks as `heft` places them."""
    found = table(work, platform, lanes, contention=contention)
    ranks = in_grains(levels_below(work, typical_seconds(found), transfer_seconds(found)))
    for name in sorted(work.graph, key=lambda name: -ranks[name]):
        if work[name].kind == "run":
            found.place_best(work[name])
        else:
            found.pass_by(work[name])
    return found


@settings(deadline=None, max_examples=100)
@given(dag=dags(), lanes=st.integers(1, 3))
def test_without_queues_it_is_what_heft_reckons_with(dag: nx.DiGraph, lanes: int) -> None:
    """By upward rank, each where it is over first: the plan of `heft`."""
    work, here = Workload.from_graph(dag), machine(2)
    placement = by_rank(work, here, lanes, contention=False).placement()
    plan = schedule(work, here, lanes=lanes, contention=False)
    assert [name for name in plan.names if name in dag] == list(placement.order)
    assert {n: plan.lanes[k].name for n, k in zip(plan.names, plan.lane_of, strict=True) if n in dag} == placement.lanes


@settings(deadline=None, max_examples=150)
@given(work=st.one_of(workloads(), dags().map(Workload.from_graph)))
def test_levels_with_transfers_are_hefts_ranks(work: Workload) -> None:
    """Copies, barriers, groups of states and times that differ from device to device included."""
    add(work, "free")
    found = table(work, machine(2), 6)  # the cpu has 4
    ranks = upward_ranks(work, found.candidates, found.counts, found.durations, found.transfers)
    assert levels_below(work, typical_seconds(found), transfer_seconds(found)) == pytest.approx(ranks)


@settings(deadline=None, max_examples=100)
@given(work=workloads())
def test_nothing_starts_before_what_it_needs_is_over(work: Workload) -> None:
    """Whatever queues."""
    found = by_rank(work, machine(2), contention=True)
    for before, name in work.graph.edges:
        assert found.end_s[before] <= found.start_s[name]
    assert found.makespan_s == max(found.end_s.values(), default=0.0)


def test_a_task_goes_to_the_lane_that_was_idle_for_the_shortest_time() -> None:
    """At 3 both lanes are free, the first since 1: b stays behind a.

    ::

        x (1)        a (3) ─▶ b (1)
    """
    work = graph([("a", "b")], x=1.0, a=3.0, b=1.0)
    found = table(work, machine(1, cpu=False), 2)
    for name in ("x", "a", "b"):
        found.append(work[name], "cuda:0")
    assert found.placement().lanes == {"x": "cuda:0/s0", "a": "cuda:0/s1", "b": "cuda:0/s1"}
    assert found.idle_s("cuda:0") == 1


def test_chances_use_gaps_and_appending_does_not() -> None:
    """d (1 s) fits before b, which waits for 5 bytes.

    ::

        a (1, cuda:0) ─5 bytes─▶ b (9, cuda:1)        d (1, cuda:1)
    """
    dag = nx.DiGraph([("a", "b", {"nbytes": 5})])
    dag.add_node("d", duration_s={"cuda:1": 1.0})
    dag.add_node("a", duration_s={"cuda:0": 1.0})
    dag.add_node("b", duration_s={"cuda:1": 9.0})
    work = Workload.from_graph(dag)
    found = table(work, machine(2))
    found.place(work["a"], "cuda:0")
    found.place(work["b"], "cuda:1")
    assert [chance.start_s for chance in found.chances(work["d"])] == [0]
    found.append(work["d"], "cuda:1")
    assert found.start_s == {"a": 0, "b": 6, "d": 15}


def test_a_state_settles_where_its_first_task_goes() -> None:
    """Then its other tasks may run nowhere else, and a reader elsewhere needs a copy of the version that it reads.

    ::

        w ─▶ step(w) ─▶ again(w)        reader(w@1)
    """
    work = Workload()
    w = work.state("w", MATRIX)
    add(work, "step", w, updates=w)
    add(work, "reader", w)
    add(work, "again", w, updates=w)
    found = table(work, machine(2))
    assert found.devices(work["again"]) == ("cuda:0", "cuda:1", "cpu")
    found.place(work["step"], "cuda:1")
    assert found.devices(work["again"]) == ("cuda:1",)
    assert found.ready_s(work["reader"], "cuda:1") == 1
    assert found.ready_s(work["reader"], "cuda:0") == 1 + 256


def test_an_open_state_lives_where_it_may() -> None:
    """`reader` on cuda:0 comes first, but w must be on cuda:1, where its update may run."""
    work = Workload()
    w = work.state("w", MATRIX)
    add(work, "reader", w, device="cuda:0")
    add(work, "update", w, updates=w, device="cuda:1")
    found = table(work, machine(2))
    assert found.ready_s(work["reader"], "cuda:0") == 256
    found.place_best(work["reader"])
    assert found.start_s["reader"] == 256


def test_copies_on_compute_lanes_hold_up_their_tasks() -> None:
    """The copy takes cuda:0's first lane for 256 s; on a lane of its own it does not.

    ::

        p (1) ─▶ copy        q (1)
    """
    work = Workload()
    work.copy(add(work, "p", device="cuda:0"), to="cpu", pinned=True, name="copy")
    add(work, "q", device="cuda:0")
    for copies, start in (("own", 1), ("compute", 257)):
        found = table(work, machine(1), copies=copies)
        found.place_best(work["p"])
        found.pass_by(work["copy"])
        found.append(work["q"], "cuda:0")
        assert found.start_s["q"] == start
        assert found.placement().copies == copies


def test_no_link_says_which() -> None:
    """No device can have the value: the error names both ends. As a chance such a device is left out."""
    work = Workload()
    x = work.input("x", MATRIX, device="cuda:0")
    add(work, "t", x, device="cuda:1")
    add(work, "u", x)
    found = table(work, Platform("apart", (Device("cuda:0", "cuda"), Device("cuda:1", "cuda"))))
    with pytest.raises(PlatformError, match="no link from 'cuda:0' to 'cuda:1'"):
        found.place_best(work["t"])
    assert [chance.device for chance in found.chances(work["u"])] == ["cuda:0"]


def test_too_many_lanes() -> None:
    """As for every scheduler."""
    with pytest.raises(ScheduleError, match="lanes=40: cuda:0 may have 32"):
        table(graph(a=1.0), machine(1), 40)

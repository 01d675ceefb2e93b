"""Walks over placements."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.plan import build_plan
from graphsched.schedulers.benchmarks.known_optima import packed
from graphsched.schedulers.registry import find_scheduler
from graphsched.schedulers.searching.budget import Budget
from graphsched.schedulers.searching.placement_moves import Candidate, candidate, improve
from graphsched.workload import Workload, ancestors_first
from tests.schedulers.graphs import graph, workloads
from tests.schedulers.ideal import makespan
from tests.schedulers.searching.test_fast_clock import instance, open_machine


def begun(work: Workload, devices: int = 2) -> tuple[object, Candidate]:
    platform = open_machine(devices)
    tasks = instance(work, platform)
    read = tasks.read(find_scheduler("heft")(work, platform, platform.costs))
    assert read is not None
    return tasks, candidate(tasks, *read)


def walked(work: Workload, iterations: int, seed: int = 0) -> Candidate:
    tasks, begin = begun(work)
    return improve(tasks, [begin], 0.0, Budget(iterations, None), seed, lambda _: None)  # type: ignore[arg-type]


@settings(deadline=None, max_examples=60)
@given(work=workloads(), seed=st.integers(0, 3))
def test_what_is_found_can_be_planned(work: Workload, seed: int) -> None:
    """It takes what the walk says, no longer than the beginning; groups share their device."""
    tasks, begin = begun(work)
    told = [begin]
    found = improve(tasks, [begin], 0.0, Budget(80, None), seed, told.append)  # type: ignore[arg-type]
    assert found.makespan_s == min(each.makespan_s for each in told)
    placement = tasks.placement(found.order, found.place)  # type: ignore[attr-defined]
    assert ancestors_first(work.graph, placement.order)
    plan = build_plan(work, open_machine(2), None, placement, scheduler="walk")
    plan.check()
    assert makespan(plan) == found.makespan_s


def clusters() -> Workload:
    """Two chains of four tasks that pass 20 bytes, and one edge between them."""
    dag = nx.DiGraph()
    for name in "ab":
        for k in range(4):
            dag.add_node(f"{name}{k}", duration_s=3.0)
        nx.add_path(dag, [f"{name}{k}" for k in range(4)], nbytes=20)
    dag.add_edge("a0", "b3", nbytes=1)
    return Workload.from_graph(dag)


def test_a_bad_beginning_is_mended() -> None:
    """Both chains alternate between two devices at first; the best leaves each chain on one: 12 s.

    ::

        a0 ─▶ a1 ─▶ a2 ─▶ a3        b0 ─▶ b1 ─▶ b2 ─▶ b3
    """
    tasks = instance(clusters(), open_machine(2))
    begin = candidate(tasks, range(len(tasks)), [i // 2 % 2 for i in range(len(tasks))])
    found = improve(tasks, [begin], 12.0, Budget(5000, None), 0, lambda _: None)
    assert begin.makespan_s > 30.0
    assert found.makespan_s == 12.0


def test_the_same_seed_walks_the_same_way() -> None:
    one, two = walked(clusters(), 100, seed=3), walked(clusters(), 100, seed=3)
    assert (one.order, one.place, one.makespan_s) == (two.order, two.place, two.makespan_s)


def test_the_best_is_that_of_the_least_makespan() -> None:
    """Told again and again, it never becomes longer, though the mean end counts on the way."""
    made = packed(3, 20, communication=2.0, seed=1)
    tasks = instance(made.work, made.platform)
    read = tasks.read(find_scheduler("heft")(made.work, made.platform, made.platform.costs))
    assert read is not None
    told: list[Candidate] = []
    improve(tasks, [candidate(tasks, *read)], 0.0, Budget(3000, None), 0, told.append)
    makespans = [best.makespan_s for best in told]
    assert makespans == sorted(makespans, reverse=True)


def test_it_ends_where_nothing_can_be_better() -> None:
    told: list[Candidate] = []
    tasks, begin = begun(graph(a=1.0))
    assert improve(tasks, [begin], 1.0, Budget(100, None), 0, told.append) is begin  # type: ignore[arg-type]
    assert told == []


def test_the_critical_path_goes_back_from_the_last_end() -> None:
    """a(2) ─▶ b(3), and c(1) beside: b, then a.

    ::

        a ─▶ b        c
    """
    tasks, begin = begun(graph([("a", "b")], a=2.0, b=3.0, c=1.0))
    assert [tasks.names[i] for i in begin.critical] == ["b", "a"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("work", [Workload(), graph(a={"cuda:1": 1.0}, b={"cuda:1": 1.0})])
def test_where_there_is_nothing_to_choose(work: Workload) -> None:
    """No tasks, or tasks that may run on one device only."""
    assert walked(work, 30).makespan_s == begun(work)[1].makespan_s

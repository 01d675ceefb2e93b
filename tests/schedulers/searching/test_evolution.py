"""Breeding list schedules."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.formats.stg import read_stg
from graphsched.schedulers import lower_bound
from graphsched.schedulers.searching.budget import Budget
from graphsched.schedulers.searching.evolution import Schedule, evolve
from graphsched.workload import Workload
from tests.schedulers.processors import STG, assert_starts, identical, processors, random_dag, small_dags


def evolved(graph: nx.DiGraph, count: int, iterations: int, *, seed: int = 0, enough_s: float = 0.0) -> Schedule:
    return evolve(identical(graph, count), enough_s, Budget(iterations, None), seed, lambda _: None)


@settings(deadline=None, max_examples=40)
@given(dag=small_dags(), count=st.integers(1, 3), seed=st.integers(0, 3))
def test_schedules_are_right(dag: nx.DiGraph, count: int, seed: int) -> None:
    found = evolved(dag, count, 60, seed=seed)
    assert_starts(identical(dag, count), found.start_s)
    assert found.makespan_s == identical(dag, count).makespan_s(found.start_s)


def test_more_iterations_find_no_worse() -> None:
    """The same beginning, then on from there."""
    graph = random_dag(60, 4)
    found = [evolved(graph, 3, iterations).makespan_s for iterations in (0, 30, 300)]
    assert found == sorted(found, reverse=True)


def test_the_same_seed_finds_the_same() -> None:
    graph = random_dag(50, 1)
    assert evolved(graph, 4, 200, seed=5).start_s == evolved(graph, 4, 200, seed=5).start_s
    assert evolved(graph, 4, 200, seed=5).start_s != evolved(graph, 4, 200, seed=6).start_s


def test_it_ends_where_nothing_can_be_better() -> None:
    """Two tasks on two processors: the first list schedule is optimal."""
    told: list[float] = []
    graph = nx.DiGraph()
    graph.add_nodes_from("ab", duration_s=1.0)
    evolve(identical(graph, 2), 1.0, Budget(1000, None), 0, told.append)
    assert told == []


@pytest.mark.parametrize(
    ("name", "count", "best"),
    [("100/rand0020.stg", 4, 140.0), ("100/rand0148.stg", 8, 98.0), ("50/rand0028.stg", 4, 162.0)],
)
def test_graphs_that_critical_path_scheduling_does_not_solve(name: str, count: int, best: float) -> None:
    """Optimal within 2,000 list schedules; critical-path scheduling is 1 to 7 units above."""
    graph = read_stg(STG / name)
    bound = lower_bound(Workload.from_graph(graph), processors(count))
    assert evolved(graph, count, 1).makespan_s > best
    assert evolved(graph, count, 2000, enough_s=bound).makespan_s == best

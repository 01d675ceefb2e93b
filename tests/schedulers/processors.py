"""Identical processors for tests: platforms, random graphs, and the shortest schedule by trying all."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import networkx as nx
from hypothesis import strategies as st

from graphsched.costs import Costs
from graphsched.platform import Device, Platform
from graphsched.schedulers.placing.candidates import find_candidates
from graphsched.schedulers.placing.lanes import lane_counts
from graphsched.schedulers.searching.identical import Identical, find_identical
from graphsched.workload import Workload
from tests.schedulers.graphs import FREE

STG = Path(__file__).parents[1] / "data" / "stg"


def processors(count: int) -> Platform:
    """So many workers of one lane; dispatch is free."""
    devices = tuple(Device(f"worker:{k}", "worker", lanes=1) for k in range(count))
    return Platform(f"{count} processors", devices, dispatch=FREE, cores=count)


def best_known() -> dict[tuple[str, int], float]:
    """The shortest makespan of each graph of the test data on so many processors; all are proven."""
    rows = csv.DictReader((STG / "best.csv").read_text().splitlines())
    return {(row["graph"], int(row["processors"])): float(row["best"]) for row in rows}


def random_dag(tasks: int, seed: int, *, most_s: int = 10) -> nx.DiGraph:
    """Whole seconds; each task after up to three of the ten before it."""
    choice = random.Random(seed)
    graph = nx.DiGraph()
    for i in range(tasks):
        graph.add_node(f"t{i}", duration_s=float(choice.randint(1, most_s)))
        near = range(max(0, i - 10), i)
        graph.add_edges_from((f"t{j}", f"t{i}") for j in choice.sample(near, min(len(near), choice.randint(0, 3))))
    return graph


def identical(graph: nx.DiGraph, count: int) -> Identical:
    """The problem of a graph on so many processors."""
    work, platform = Workload.from_graph(graph), processors(count)
    found = find_identical(work, platform, Costs(), lane_counts(platform, find_candidates(work, platform).used(), 1))
    assert found is not None
    return found


def assert_starts(tasks: Identical, start_s: list[float]) -> None:
    """Each task after those before it, and never more at once than there are processors."""
    ends = [start + seconds for start, seconds in zip(start_s, tasks.seconds, strict=True)]
    for i, before in enumerate(tasks.before):
        assert all(ends[j] <= start_s[i] + 1e-9 for j in before)
    for moment in start_s:
        busy = sum(start <= moment + 1e-9 < end - 1e-9 for start, end in zip(start_s, ends, strict=True))
        assert busy <= len(tasks.lanes)


@st.composite
def small_dags(draw: st.DrawFn, most: int = 9) -> nx.DiGraph:
    """Random DAGs of whole and other seconds, some 0."""
    graph = nx.DiGraph()
    for i in range(draw(st.integers(1, most))):
        graph.add_node(f"t{i}", duration_s=draw(st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, 7.0])))
        for j in draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else ():
            graph.add_edge(f"t{j}", f"t{i}")
    return graph

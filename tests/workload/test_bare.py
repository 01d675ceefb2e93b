"""Workloads from networkx graphs."""

from __future__ import annotations

import math
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsched.errors import CostError, CycleError, DuplicateNameError, WorkloadError
from graphsched.workload import Workload, ancestors_first


def _graph(edges: list[tuple[Any, Any, int]], duration: Any = 1.0) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(edges, weight="nbytes")
    for node in graph:
        graph.nodes[node]["duration_s"] = duration
    return graph


def test_a_diamond() -> None:
    """
    a ─10─▶ b ─0──▶ d
    └──20─▶ c ─30─▶ d
    """
    work = Workload.from_graph(_graph([("a", "b", 10), ("a", "c", 20), ("b", "d", 0), ("c", "d", 30)]), name="diamond")
    assert {(u, v): n for u, v, n in work.graph.edges(data="nbytes")} == {
        ("a", "b"): 10, ("a", "c"): 20, ("b", "d"): 0, ("c", "d"): 30,
    }  # fmt: skip
    assert [v.name for v in work["a"].outputs] == ["a.0", "a.1"]
    assert [v.name for v in work["c"].outputs] == ["c"]
    assert work["d"].after == ("b",)
    assert [r.source for r in work["d"].reads] == ["c"]
    assert (work.name, work["a"].duration_s, work["a"].operation) == ("diamond", 1.0, None)


def test_other_attribute_names() -> None:
    graph = nx.DiGraph()
    graph.add_node("a", weight=2)
    graph.add_node("b", weight=3)
    graph.add_edge("a", "b", data=7)
    work = Workload.from_graph(graph, duration="weight", nbytes="data")
    assert (work["a"].duration_s, work.graph.edges["a", "b"]["nbytes"]) == (2.0, 7)


def test_labels_of_any_kind() -> None:
    graph = _graph([(1, (2, 3), 5)])
    with pytest.raises(DuplicateNameError, match=r"'\(2, 3\)'"):
        Workload.from_graph(graph)
    assert list(Workload.from_graph(_graph([(1, 2, 5)])).graph.edges) == [("1", "2")]


def test_labels_that_look_the_same() -> None:
    with pytest.raises(DuplicateNameError, match="name '1' is taken"):
        Workload.from_graph(_graph([(1, "1", 0)]))


@pytest.mark.parametrize(
    ("edges", "path"),
    [
        ([("a", "a", 0)], "a -> a"),
        ([("a", "b", 0), ("b", "a", 0)], "a -> b -> a"),
        ([("s", "a", 0), ("a", "b", 0), ("b", "c", 0), ("c", "a", 0), ("c", "t", 0)], "a -> b -> c -> a"),
    ],
)
def test_a_cycle_is_printed_as_a_path(edges: list[tuple[str, str, int]], path: str) -> None:
    with pytest.raises(CycleError, match=f"the graph has a cycle: {path}: remove one of these edges"):
        Workload.from_graph(_graph(edges))


@pytest.mark.parametrize("duration", [None, -1.0, math.nan, math.inf, "fast", {"cuda": -1.0}, {"cuda": math.nan}])
def test_durations_that_make_no_sense(duration: Any) -> None:
    with pytest.raises(CostError, match="task 'a'"):
        Workload.from_graph(_graph([("a", "b", 0)], duration))


def test_a_duration_that_is_missing() -> None:
    with pytest.raises(CostError, match="task 'a' has no attribute 'weight': its duration"):
        Workload.from_graph(_graph([("a", "b", 0)]), duration="weight")


def test_durations_by_device() -> None:
    work = Workload.from_graph(_graph([("a", "b", 0)], {"cuda": np.float64(1), "cuda:1": 2, "cpu": 10}))
    assert work["a"].duration_s == {"cuda": 1.0, "cuda:1": 2.0, "cpu": 10.0}


@pytest.mark.parametrize("nbytes", [-1, math.nan, math.inf, "many", None])
def test_bytes_that_make_no_sense(nbytes: Any) -> None:
    with pytest.raises(WorkloadError, match=r"the edge a -> b passes .* bytes"):
        Workload.from_graph(_graph([("a", "b", nbytes)]))


@pytest.mark.parametrize("nbytes", [8, 8.0, np.int64(8), np.float32(8)])
def test_bytes_of_any_number_type(nbytes: Any) -> None:
    edge = Workload.from_graph(_graph([("a", "b", nbytes)])).graph.edges["a", "b"]
    assert (edge["nbytes"], type(edge["nbytes"])) == (8, int)


@pytest.mark.parametrize("kind", [nx.Graph, nx.MultiDiGraph])
def test_other_kinds_of_graph(kind: type) -> None:
    with pytest.raises(WorkloadError, match=f"a networkx.DiGraph is needed, got a {kind.__name__}"):
        Workload.from_graph(kind([("a", "b")]))


def test_a_value_with_the_name_of_a_task() -> None:
    """
    a ─5─▶ a.1
    └──5─▶ b
    """
    graph = _graph([("a", "a.1", 5), ("a", "b", 5)])
    with pytest.raises(DuplicateNameError, match=r"name 'a\.1' is taken"):
        Workload.from_graph(graph)


def test_two_values_of_one_name() -> None:
    """
    a ─5─▶ b    a.0 ─5─▶ b    the values of a are a.0 and a.1, that of a.0 is a.0
    └──5─▶ c
    """
    with pytest.raises(DuplicateNameError, match=r"name 'a\.0' is taken"):
        Workload.from_graph(_graph([("a", "b", 5), ("a", "c", 5), ("a.0", "b", 5)]))


def test_no_tasks() -> None:
    assert len(Workload.from_graph(nx.DiGraph())) == 0


@given(st.integers(0, 12), st.randoms(use_true_random=False))
def test_any_dag_keeps_its_edges_and_bytes(n: int, rng: Any) -> None:
    labels = list(range(n))
    rng.shuffle(labels)  # edges go up in place, not in label
    graph = nx.DiGraph()
    graph.add_nodes_from(rng.sample(labels, n), duration_s=1.0)
    edges = [(labels[i], labels[j], rng.choice([0, 5])) for j in range(n) for i in range(j) if rng.random() < 0.4]
    graph.add_weighted_edges_from(edges, weight="nbytes")
    work = Workload.from_graph(graph)
    assert {(u, v, d) for u, v, d in work.graph.edges(data="nbytes")} == {(str(u), str(v), d) for u, v, d in edges}
    assert ancestors_first(work.graph, [t.name for t in work.tasks])
    assert [t.name for t in work.tasks] == [str(node) for node in nx.topological_sort(graph)]
    for node in graph:
        given = sorted(graph.pred[node], key=lambda before: graph.edges[before, node]["nbytes"] > 0)
        assert list(work.graph.pred[str(node)]) == [str(before) for before in given]
    for u, v, data in work.graph.edges(data=True):
        assert work.graph.pred[v][u] is data
        assert data["nbytes"] == sum(work.values[v].nbytes for v in data["values"])

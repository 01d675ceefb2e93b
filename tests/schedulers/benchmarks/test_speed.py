"""The speed table has its rows; its figures are this host's."""

from __future__ import annotations

import sys

import networkx as nx
import pytest

from graphsched.schedulers.benchmarks import peer as peer
from graphsched.schedulers.benchmarks import speed
from graphsched.schedulers.benchmarks.speed import bench_schedulers, bench_workloads, random_graph, random_tree


def test_rows() -> None:
    """One for each number of tasks and scheduler."""
    rows = bench_schedulers([5, 20])
    names = ["sequential", "one_stream", "round_robin", "wavefront", "heft", "heft, as published"]
    assert [(r["name"], r["tasks"], r["devices"]) for r in rows] == [(n, k, 8) for k in (5, 20) for n in names]
    assert all(r["seconds"] > 0 for r in rows)


def test_graph_is_the_same_every_time() -> None:
    """And has as many tasks as asked for."""
    one, two = random_graph(100), random_graph(100)
    assert nx.utils.graphs_equal(one, two)
    assert len(one) == 100
    assert nx.is_directed_acyclic_graph(one)


def test_rows_of_workloads() -> None:
    """Tasks and edges are those of the graph."""
    rows = bench_workloads([5, 20])
    found = [(r["graph"], r["tasks"], r["edges"]) for r in rows]
    random = {n: random_graph(n).number_of_edges() for n in (5, 20)}
    assert [row for row in found if row[0] != "calls"] == [
        ("tree", 5, 4), ("random", 5, random[5]), ("tree", 20, 19), ("random", 20, random[20]),
    ]  # fmt: skip
    assert [(name, n) for name, n, _ in found if name == "calls"] == [("calls", 5), ("calls", 20)]
    assert all(r["seconds"] > 0 for r in rows)
    assert all(r["bare_s"] > 0 for r in rows if r["graph"] == "calls")


def test_a_bare_loop_makes_the_graph_that_calls_make() -> None:
    read = speed._read_by(200)
    assert nx.utils.edges_equal(speed._called(read).graph.edges(), speed._bare(read).edges(), directed=True)
    assert all(place <= i for i, places in enumerate(read) for place in places)


def test_tree() -> None:
    """Each task but the first has one parent, and one duration."""
    graph = random_tree(60)
    assert nx.is_arborescence(graph)
    assert all(isinstance(seconds, float) for _, seconds in graph.nodes(data="duration_s"))
    assert nx.utils.graphs_equal(graph, random_tree(60))


def test_a_peer_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its figures are left out, and the row says why."""
    monkeypatch.setitem(sys.modules, "saga", None)
    row = peer.bench_peer(20, 3)
    assert row["peer"] == "anrg-saga (not installed)"
    assert row["peer_s"] is row["faster"] is row["makespan_s"] is None
    assert row["own_s"] > 0


def test_graph_of_the_peer() -> None:
    """One source and one sink; every output of a task takes half as long to travel as the task."""
    graph = peer.proportional_graph(60)
    assert [[n for n, k in degree if not k] for degree in (graph.in_degree, graph.out_degree)] == [["t0"], ["t59"]]
    for source, _, nbytes in graph.edges(data="weight"):
        assert nbytes / peer.BYTES_PER_S == pytest.approx(graph.nodes[source]["weight"] / 2)


def test_peer_finds_the_same_makespan() -> None:
    """To rounding, where it is installed."""
    pytest.importorskip("saga")
    row = peer.bench_peer(60, 4)
    assert row["makespan_s"] == pytest.approx(row["own_makespan_s"], rel=1e-12)
    assert row["faster"] == row["peer_s"] / row["own_s"]

"""The speed table has its rows; its figures are this host's."""

from __future__ import annotations

import networkx as nx

from graphsched.schedulers.bench import bench_schedulers, random_graph


def test_rows() -> None:
    """One for each number of tasks and scheduler."""
    rows = bench_schedulers([5, 20])
    names = ["sequential", "one_stream", "round_robin", "wavefront", "heft"]
    assert [(r["name"], r["tasks"], r["devices"]) for r in rows] == [(n, k, 8) for k in (5, 20) for n in names]
    assert all(r["seconds"] > 0 for r in rows)


def test_graph_is_the_same_every_time() -> None:
    """And has as many tasks as asked for."""
    one, two = random_graph(100), random_graph(100)
    assert nx.utils.graphs_equal(one, two)
    assert len(one) == 100
    assert nx.is_directed_acyclic_graph(one)

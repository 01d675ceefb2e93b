"""networkx's node-link data."""

from __future__ import annotations

import json
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings

from graphsched.errors import GraphschedError
from graphsched.formats.graph_checks import check_graph
from graphsched.formats.node_link import node_link_graph, node_link_text
from graphsched.formats.plain_graphs import workload_of
from tests.formats.plain import diamond, figures, plain_graphs


@pytest.mark.parametrize("key", ["edges", "links"])
def test_what_networkx_writes_is_read(key: str) -> None:
    data = json.loads(json.dumps(nx.node_link_data(diamond(), edges=key)))
    assert nx.utils.graphs_equal(node_link_graph(data), diamond())


@given(plain_graphs())
@settings(max_examples=40)
def test_what_is_written_networkx_reads_too(graph: nx.DiGraph) -> None:
    data = json.loads(node_link_text(workload_of(graph)))
    mine, theirs = node_link_graph(data), nx.node_link_graph(data, edges="edges")
    assert nx.utils.nodes_equal(mine.nodes(data=True), theirs.nodes(data=True))
    assert nx.utils.edges_equal(mine.edges(data=True), theirs.edges(data=True), directed=True)
    assert figures(mine) == figures(graph)


def test_durations_by_device_and_where_tasks_may_run_are_kept() -> None:
    graph = diamond()
    graph.nodes["a"].update(duration_s={"cpu": 2.0, "cuda": 1.0}, devices=("cuda",))
    back = node_link_graph(json.loads(node_link_text(workload_of(graph))))
    work = workload_of(back)
    assert (work["a"].duration_s, work["a"].devices) == ({"cpu": 2.0, "cuda": 1.0}, ("cuda",))


def data(**more: Any) -> dict[str, Any]:
    """Two nodes, 1 ─▶ 2, and entries in place of these."""
    nodes = [{"id": 1, "duration_s": 1.0}, {"id": 2, "duration_s": 1.0}]
    return {"directed": True, "multigraph": False, "nodes": nodes, "edges": [{"source": 1, "target": 2}]} | more


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"directed": False}, "undirected"),
        ({"nodes": 3}, "'nodes' of the file is 3"),
        ({"nodes": [1]}, r"nodes\[0\]"),
        ({"nodes": [{"id": 1.5}]}, r"'id' of nodes\[0\] is 1.5"),
        ({"nodes": [{"id": 1}, {"id": 1}]}, "two nodes of id 1"),
        ({"nodes": [{"id": 1}], "edges": []}, "duration of task 1 is None"),
        ({"nodes": [{"id": 1, "duration_s": "5"}], "edges": []}, "duration of task 1 is '5': a finite number"),
        ({"nodes": [{"id": 1, "duration_s": {"cpu": True}}], "edges": []}, "duration of task 1 on cpu is True"),
        ({"nodes": [], "edges": []}, "0 tasks"),
        ({"edges": [{"source": 1, "target": 3}]}, r"edges\[0\] names 3"),
        ({"edges": [{"source": 1}]}, r"'target' of edges\[0\] is None"),
        ({"edges": [{"source": 1, "target": 2}] * 2}, "two edges 1 -> 2"),
        ({"edges": [{"source": 1, "target": 2, "values": 3}]}, "'values' of edge 1 -> 2"),
        ({"edges": [{"source": 1, "target": 2, "nbytes": -3}]}, "1 -> 2 is -3"),
        ({"nodes": [{"id": 1, "duration_s": 1, "devices": "cpu"}], "edges": []}, "'devices' of node 1"),
        ({"edges": [{"source": 1, "target": 2}, {"source": 2, "target": 1}]}, "circle: 1 -> 2 -> 1"),
    ],
)
def test_what_is_wrong_is_named(more: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphschedError, match=message):
        check_graph(node_link_graph(data(**more)))


@pytest.mark.parametrize("thing", [None, 3, [], "x", {"nodes": []}])
def test_what_is_none_is_refused(thing: object) -> None:
    with pytest.raises(GraphschedError):
        node_link_graph(thing)

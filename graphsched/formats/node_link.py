"""networkx's node-link data as JSON: nodes and edges with their attributes.

Attributes are those of `plain_graphs`: ``duration_s`` of nodes (a number, or one by device name or kind), ``devices``,
``inputs``; ``nbytes`` and ``values`` of edges. Others are left out. Edges stand under ``edges``, or ``links`` as
networkx wrote them before 3.4.

Source: networkx.org/documentation/stable/reference/readwrite/json_graph.html
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping
from typing import Any

import networkx as nx

from graphsched.errors import FileFormatError
from graphsched.formats.entries import listed
from graphsched.formats.plain_graphs import graph_of
from graphsched.workload import Workload

_OF_NODES = ("duration_s", "devices", "inputs")
_OF_EDGES = ("nbytes", "values")


def node_link_graph(data: Any) -> nx.DiGraph:
    """The graph of node-link data.

    Raises:
        FileFormatError: It is none: undirected, with several edges between two nodes, or an edge names a node that is
            not there.

    Example:
        >>> nodes = [{"id": "a", "duration_s": 1.0}, {"id": "b", "duration_s": {"cpu": 3.0, "cuda": 2.0}}]
        >>> graph = node_link_graph({"directed": True, "nodes": nodes, "edges": [{"source": "a", "target": "b"}]})
        >>> list(graph.edges), graph.nodes["b"]["duration_s"]["cuda"]
        ([('a', 'b')], 2.0)
    """
    if isinstance(data, Mapping) and not data.get("directed", True):
        raise FileFormatError("the graph is undirected: its edges say in no way what comes first")
    graph = nx.DiGraph()
    for i, row in enumerate(listed(data, "nodes", "the file")):
        node = _node(row, "id", f"nodes[{i}]")
        if node in graph:
            raise FileFormatError(f"there are two nodes of id {node!r}: rename one")
        graph.add_node(node, **_chosen(row, _OF_NODES, f"node {node!r}"))
    key = "edges" if "edges" in data else "links"
    for i, row in enumerate(listed(data, key, "the file")):
        source, target = (_node(row, end, f"{key}[{i}]") for end in ("source", "target"))
        for end in (source, target):
            if end not in graph:
                raise FileFormatError(f"{key}[{i}] names {end!r}, and there is no such node")
        if graph.has_edge(source, target):
            raise FileFormatError(f"there are two edges {source!r} -> {target!r}: make one of them")
        graph.add_edge(source, target, **_chosen(row, _OF_EDGES, f"edge {source!r} -> {target!r}"))
    return graph


def _node(row: Mapping[str, Any], key: str, where: str) -> Any:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise FileFormatError(f"{key!r} of {where} is {reprlib.repr(value)}: text or a whole number is needed")
    return value


def _chosen(row: Mapping[str, Any], keys: tuple[str, ...], where: str) -> dict[str, Any]:
    found = {key: row[key] for key in keys if row.get(key) is not None}
    for key in ("inputs", "values"):
        if key in found and not isinstance(found[key], Mapping):
            raise FileFormatError(f"{key!r} of {where} is {reprlib.repr(found[key])}: bytes by name are needed")
    devices = found.get("devices", [])
    if not isinstance(devices, list) or not all(isinstance(device, str) for device in devices):
        raise FileFormatError(f"'devices' of {where} is {reprlib.repr(devices)}: a list of names is needed")
    return found


def node_link_text(work: Workload) -> str:
    """`work` as node-link data, which ``networkx.node_link_graph(data, edges="edges")`` reads too.

    Raises:
        CostError: A task has no duration.
    """
    graph = graph_of(work)
    data = {
        "directed": True,
        "multigraph": False,
        "graph": {"name": work.name},
        "nodes": [{"id": node} | attributes for node, attributes in graph.nodes(data=True)],
        "edges": [{"source": a, "target": b} | attributes for a, b, attributes in graph.edges(data=True)],
    }
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"

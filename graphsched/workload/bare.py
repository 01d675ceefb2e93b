"""Workloads from bare networkx graphs with durations: predicted, not run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import networkx as nx
import numpy as np

from graphsched.costs import check_seconds
from graphsched.errors import CycleError, WorkloadError
from graphsched.garbage import collector_off
from graphsched.workload.builder import Workload, checked_duration
from graphsched.workload.tasks import Read, Task, Value, check_name


@collector_off()
def from_graph(graph: nx.DiGraph, duration: str, nbytes: str, name: str) -> Workload:
    """The workload of `Workload.from_graph`: a value for every edge that passes bytes."""
    work = Workload(name)
    ordered = _topological(graph)
    nodes, adjacency = dict(graph.nodes(data=True)), dict(graph.adjacency())
    made: dict[Any, dict[Any, Value]] = {}  # node -> successor -> what is passed to it
    tasks = []
    for node in ordered:
        task = check_name(str(node))
        given = _duration(task, nodes[node], duration)
        made[node] = _passed(task, adjacency[node], nbytes)
        reads, after = [], []
        for before in graph.predecessors(node):
            value = made[before].get(node)
            if value is None:
                after.append(str(before))
            else:
                reads.append(Read(value, 0, value.producer))
        outputs = tuple(made[node].values())
        tasks.append(
            Task(task, "run", tuple(reads), outputs, (), tuple(after), None, f"given {task}", duration_s=given)
        )
    work._add_bare(tasks)
    return work


def _topological(graph: nx.DiGraph) -> list[Any]:
    if not isinstance(graph, nx.Graph) or not graph.is_directed() or graph.is_multigraph():
        raise WorkloadError(f"a networkx.DiGraph is needed, got a {type(graph).__name__}")
    try:
        return list(nx.topological_sort(graph))
    except nx.NetworkXUnfeasible:
        path = [str(u) for u, *_ in nx.find_cycle(graph)]
        circle = " -> ".join([*path, path[0]])
        raise CycleError(f"the graph has a cycle: {circle}: remove one of these edges") from None


def _duration(task: str, attributes: dict[str, Any], key: str) -> Any:
    if attributes.get(key) is None:
        check_seconds(None, f"task {task!r} has no attribute {key!r}: its duration")
    return checked_duration(task, attributes[key])


def _passed(task: str, successors: Mapping[Any, Mapping[str, Any]], key: str) -> dict[Any, Value]:
    """What `task` passes to each successor; edges of no bytes only order."""
    heavy = []
    for node, attributes in successors.items():
        size = attributes.get(key, 0)
        if type(size) is not int or size < 0:
            size = _bytes(task, node, size)
        if size:
            heavy.append((node, size))
    if len(heavy) == 1:
        return {heavy[0][0]: Value(task, "output", heavy[0][1], None, task, task)}
    named = [(node, f"{task}.{i}", size) for i, (node, size) in enumerate(heavy)]
    return {node: Value(name, "output", size, None, task, name) for node, name, size in named}


def _bytes(task: str, target: Any, given: Any) -> int:
    number = given if isinstance(given, (int, float, np.integer, np.floating)) else math.nan
    if not math.isfinite(number) or number < 0:
        raise WorkloadError(f"the edge {task} -> {target} passes {given!r} bytes: a number, 0 or more, is needed")
    return int(number)

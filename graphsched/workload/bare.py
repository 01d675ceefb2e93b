"""Workloads from bare networkx graphs with durations: predicted, not run."""

from __future__ import annotations

import math
from typing import Any

import networkx as nx
import numpy as np

from graphsched.costs import check_seconds
from graphsched.errors import CycleError, WorkloadError
from graphsched.workload.builder import Workload, checked_duration
from graphsched.workload.tasks import Read, Task, Value


def from_graph(graph: nx.DiGraph, duration: str, nbytes: str, name: str) -> Workload:
    """The workload of `Workload.from_graph`: a value for every edge that passes bytes."""
    work = Workload(name)
    made: dict[Any, dict[Any, Value]] = {}  # node -> successor -> what is passed to it
    for node in _topological(graph):
        task = work._free_name(str(node))
        given = _duration(task, graph.nodes[node], duration)
        made[node] = _passed(task, graph.adj[node], nbytes)
        before = {u: made[u].get(node) for u in graph.pred[node]}
        work._add(
            Task(
                name=task,
                reads=tuple(Read(v, source=v.producer) for v in before.values() if v),
                outputs=tuple(made[node].values()),
                after=tuple(str(u) for u, v in before.items() if v is None),
                signature=f"given {task}",
                duration_s=given,
            )
        )
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


def _passed(task: str, successors: Any, key: str) -> dict[Any, Value]:
    """What `task` passes to each successor; edges of no bytes only order."""
    sizes = {v: _bytes(task, v, attributes.get(key, 0)) for v, attributes in successors.items()}
    heavy = {v: size for v, size in sizes.items() if size}
    names = [task] if len(heavy) == 1 else [f"{task}.{i}" for i in range(len(heavy))]
    return {v: Value(name, "output", size, producer=task) for name, (v, size) in zip(names, heavy.items(), strict=True)}


def _bytes(task: str, target: Any, given: Any) -> int:
    number = given if isinstance(given, (int, float, np.integer, np.floating)) else math.nan
    if not math.isfinite(number) or number < 0:
        raise WorkloadError(f"the edge {task} -> {target} passes {given!r} bytes: a number, 0 or more, is needed")
    return int(number)

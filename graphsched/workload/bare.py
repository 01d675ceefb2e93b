"""Workloads from bare networkx graphs with durations: predicted, not run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import networkx as nx
import numpy as np

from graphsched.costs import check_seconds
from graphsched.errors import CycleError, WorkloadError
from graphsched.garbage import collector_off
from graphsched.workload.builder import Workload
from graphsched.workload.durations import checked_duration
from graphsched.workload.making import first_read, passed_value
from graphsched.workload.names import taken
from graphsched.workload.tasks import Read, Task, Value, check_name

Joined = dict[Any, dict[str, Any]]
Adjacency = dict[Any, Joined]


@collector_off()
def from_graph(graph: nx.DiGraph, duration: str, nbytes: str, name: str) -> Workload:
    """The workload of `Workload.from_graph`: a value for every edge that passes bytes."""
    check_kind(graph)
    nodes, successors, predecessors = dict(graph.nodes(data=True)), _successors(graph), _predecessors(graph)
    names = {node: check_name(str(node)) for node in _topological(graph, successors, predecessors)}
    work = _named(name, list(names.values()))
    made: dict[Any, dict[Any, Value]] = {}  # node -> successor -> what is passed to it
    joined, into = _successors(work.graph), _predecessors(work.graph)
    for (node, task), attributes in zip(names.items(), dict(work.graph.nodes(data=True)).values(), strict=True):
        given = _duration(task, nodes[node], duration)
        passed = made[node] = _passed(task, successors[node], nbytes)
        reads, after = [], []
        for before in predecessors[node]:
            value = made[before].get(node)
            if value is None:
                after.append(names[before])
            else:
                reads.append(first_read(value))
        outputs = tuple(passed.values())
        attributes["task"] = Task(
            task, "run", tuple(reads), outputs, (), tuple(after), None, f"given {task}", duration_s=given
        )
        _join(task, reads, after, joined, into[task])
        _keep(outputs, task, work)
    return work


def _named(name: str, tasks: Sequence[str]) -> Workload:
    """A workload with a node for each of these names."""
    work = Workload(name)
    work.graph.add_nodes_from(tasks)
    if len(work.graph) < len(tasks):
        raise taken(Counter(tasks).most_common(1)[0][0])
    work._order.since_barrier = dict.fromkeys(tasks)
    return work


def _join(task: str, reads: Sequence[Read], after: Sequence[str], joined: Adjacency, into: Joined) -> None:
    """The edges to `task`: those that only order first.

    They are written where networkx keeps them, in `joined`, by source and target, and `into`, by source: its
    `add_edges_from` would look for both ends of each, and copy its attributes.
    """
    for source in after:
        joined[source][task] = into[source] = {"values": (), "nbytes": 0}
    for read in reads:
        value, maker = read.value, read.source
        joined[maker][task] = into[maker] = {"values": (value.name,), "nbytes": value.nbytes}


def _keep(outputs: Sequence[Value], task: str, work: Workload) -> None:
    """Enter what `task` passes into the values of `work`."""
    values, tasks = work.values, work._order.since_barrier
    for value in outputs:
        name = value.name
        if name in values or (name != task and name in tasks):
            raise taken(name)
        values[name] = value


def _successors(graph: nx.DiGraph) -> Adjacency:
    return dict(graph.adjacency())


def _predecessors(graph: nx.DiGraph) -> Adjacency:
    return dict(nx.reverse_view(graph).adjacency())


def check_kind(graph: Any) -> None:
    """Make sure that a plain graph is directed, with one edge at most between two nodes.

    Raises:
        WorkloadError: It is not, or no graph at all.
    """
    if not isinstance(graph, nx.Graph) or not graph.is_directed() or graph.is_multigraph():
        raise WorkloadError(f"a networkx.DiGraph is needed, got a {type(graph).__name__}")


def _topological(graph: nx.DiGraph, successors: Adjacency, predecessors: Adjacency) -> list[Any]:
    """The nodes in the order of `networkx.topological_sort`, found in the dictionaries alone."""
    left = {node: len(before) for node, before in predecessors.items()}
    ordered = [node for node, count in left.items() if not count]
    for node in ordered:  # grows
        for after in successors[node]:
            count = left[after] - 1
            left[after] = count
            if not count:
                ordered.append(after)
    if len(ordered) < len(left):
        path = [str(u) for u, *_ in nx.find_cycle(graph)]
        circle = " -> ".join([*path, path[0]])
        raise CycleError(f"the graph has a cycle: {circle}: remove one of these edges")
    return ordered


def _duration(task: str, attributes: dict[str, Any], key: str) -> Any:
    if attributes.get(key) is None:
        check_seconds(None, f"task {task!r} has no attribute {key!r}: its duration")
    return checked_duration(task, attributes[key])


def _passed(task: str, successors: Mapping[Any, Mapping[str, Any]], key: str) -> dict[Any, Value]:
    """What `task` passes to each successor; edges of no bytes only order."""
    sizes = {}
    for node, attributes in successors.items():
        size = attributes.get(key, 0)
        if type(size) is not int or size < 0:
            size = _bytes(task, node, size)
        if size:
            sizes[node] = size
    if len(sizes) == 1:
        return {node: passed_value(task, size, task) for node, size in sizes.items()}
    return {node: passed_value(f"{task}.{i}", size, task) for i, (node, size) in enumerate(sizes.items())}


def _bytes(task: str, target: Any, given: Any) -> int:
    number = given if isinstance(given, (int, float, np.integer, np.floating)) else math.nan
    if not math.isfinite(number) or number < 0:
        raise WorkloadError(f"the edge {task} -> {target} passes {given!r} bytes: a number, 0 or more, is needed")
    return int(number)

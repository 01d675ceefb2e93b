"""Plain `networkx` graphs of durations and bytes, to workloads and back: what the graph formats have in common.

A node's attributes are ``duration_s`` (a number, or one by device name or kind), where it is bound to some devices
``devices`` (names or kinds), and where it reads data that is there before time 0 ``inputs`` (bytes by name, in the
host's memory). An edge's are ``nbytes`` and, where what is passed has a name, ``values`` (bytes by name): a value that
several successors read is one value. Edges of no bytes only order.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, count
from typing import Any

import networkx as nx

from graphsched.errors import CostError, WorkloadError
from graphsched.formats.graph_checks import check_graph
from graphsched.formats.plain_names import plain_names
from graphsched.workload import Task, Workload


def identical(graph: nx.DiGraph) -> nx.DiGraph:
    """The tasks and the order of `graph` alone, as on processors that are alike and pass data for nothing.

    Example:
        >>> graph = nx.DiGraph()
        >>> graph.add_node("a", duration_s=1.0, devices=("cuda",))
        >>> graph.add_edge("a", "b", nbytes=8)
        >>> list(identical(graph).nodes(data=True)), list(identical(graph).edges(data=True))
        ([('a', {'duration_s': 1.0}), ('b', {})], [('a', 'b', {})])
    """
    bare = nx.DiGraph()
    for node, data in graph.nodes(data=True):
        bare.add_node(node, **({"duration_s": data["duration_s"]} if "duration_s" in data else {}))
    bare.add_edges_from(graph.edges)
    return bare


# -- to a workload ---------------------------------------------------------------------------


def workload_of(graph: nx.DiGraph, name: str = "graph") -> Workload:
    """The workload of a plain graph: it can be scheduled and predicted, not run.

    Tasks are named after the nodes; what a plan's text reserves becomes ``_``.

    Raises:
        GraphschedError: See `check_graph`.
        WorkloadError: A value has two sizes.

    Example:
        >>> graph = nx.DiGraph()
        >>> graph.add_node("make it", duration_s=1.0)
        >>> graph.add_node("use", duration_s=2.0)
        >>> graph.add_edge("make it", "use", nbytes=8)
        >>> work = workload_of(graph)
        >>> [task.name for task in work.tasks], list(work.graph.edges(data="nbytes"))
        (['make_it', 'use'], [('make_it', 'use', 8)])
    """
    check_graph(graph)
    return Workload.from_dict(_Entries(graph).to_dict(name))


class _Entries:
    """A graph's tasks and values as the entries of `Workload.from_dict`."""

    def __init__(self, graph: nx.DiGraph) -> None:
        self._graph = graph
        self._tasks = plain_names(graph)
        self._taken = set(self._tasks.values())
        self._made: dict[Any, dict[Any, str]] = {}  # node -> what it passes on -> value
        self._given: dict[str, tuple[str, int]] = {}  # input -> value and bytes

    def to_dict(self, name: str) -> dict[str, Any]:
        place = {node: k for k, node in enumerate(self._graph)}  # where there is a choice, the graph's order stays
        order = nx.lexicographical_topological_sort(self._graph, key=place.__getitem__)
        tasks = [self._task(node) for node in order]
        given = [
            {"name": value, "kind": "input", "nbytes": nbytes, "device": "cpu"}
            for value, nbytes in self._given.values()
        ]
        return {"name": name, "given": given, "tasks": tasks, "kept": []}

    def _task(self, node: Any) -> dict[str, Any]:
        name, data = self._tasks[node], self._graph.nodes[node]
        reads, after = self._reads(node)
        return {
            "name": name,
            "kind": "run",
            "reads": reads,
            "outputs": self._outputs(node),
            "after": after,
            "signature": f"given {name}",
            "devices": list(data.get("devices", ())),
            "duration_s": data["duration_s"],
        }

    def _reads(self, node: Any) -> tuple[list[Any], list[str]]:
        """Values that a task reads, and tasks that it only comes after."""
        given = self._graph.nodes[node].get("inputs", {})
        reads: list[Any] = [[self._input(key, int(nbytes)), 0, None] for key, nbytes in given.items() if nbytes]
        after = []
        for before in self._graph.pred[node]:
            passed = [self._made[before][key] for key in passes(self._graph, before, node)]
            reads += [[value, 0, self._tasks[before]] for value in passed]
            after += [] if passed else [self._tasks[before]]
        return reads, after

    def _input(self, key: str, nbytes: int) -> str:
        if key not in self._given:
            self._given[key] = self._free(key, "input"), nbytes
        _check_same(f"input {key!r}", self._given[key][1], nbytes)
        return self._given[key][0]

    def _outputs(self, node: Any) -> list[dict[str, Any]]:
        """What a task passes to any successor, each value once."""
        sizes: dict[Any, int] = {}
        for after in self._graph.succ[node]:
            for key, nbytes in passes(self._graph, node, after).items():
                _check_same(f"value {key!r} of task {node!r}", sizes.setdefault(key, nbytes), nbytes)
        alone = len(sizes) == 1
        self._made[node] = {}
        for key in sizes:
            named = isinstance(key, str)
            stem = key if named else self._tasks[node] if alone else f"{self._tasks[node]}.{len(self._made[node])}"
            free = stem == self._tasks[node]  # a task's only value may bear its name
            self._made[node][key] = stem if free and alone else self._free(stem, self._tasks[node])
        return [{"name": self._made[node][key], "nbytes": nbytes} for key, nbytes in sizes.items()]

    def _free(self, stem: str, beside: str) -> str:
        """A name like `stem` that no task and no value has yet."""
        (plain,) = plain_names([stem]).values()
        names = chain((plain, f"{plain}.{beside}"), (f"{plain}.{n}" for n in count(2)))  # made as far as needed
        found = next(name for name in names if name not in self._taken)
        self._taken.add(found)
        return found


def _check_same(what: str, first: int, other: int) -> None:
    if first != other:
        raise WorkloadError(
            f"{what} has {first} bytes for one task and {other} for another: give it one size, or two names"
        )


def passes(graph: nx.DiGraph, source: Any, target: Any) -> dict[Any, int]:
    """Bytes that an edge passes, by the value's name, or by the edge where it has none; empty: it only orders."""
    data = graph.edges[source, target]
    values = data.get("values") or {(source, target): data.get("nbytes", 0)}
    return {key: int(nbytes) for key, nbytes in values.items() if nbytes}


# -- from a workload -------------------------------------------------------------------------


def graph_of(work: Workload) -> nx.DiGraph:
    """The plain graph of a workload: what `workload_of` makes workloads of.

    Copies and barriers become tasks that take no time, unless a duration is given; states are lost, the order that
    they ask for is kept.

    Raises:
        CostError: A task has no duration.

    Example:
        >>> work = Workload()
        >>> work.task(lambda: None, name="a", outputs=0, duration_s=2.0)
        >>> work.barrier("wait")
        >>> graph = graph_of(work)
        >>> list(graph.nodes(data=True)), list(graph.edges(data=True))
        ([('a', {'duration_s': 2.0}), ('wait', {'duration_s': 0.0})], [('a', 'wait', {})])
    """
    graph = nx.DiGraph()
    for task in work.tasks:
        graph.add_node(task.name, duration_s=_duration(task))
        given = {read.value.name: read.value.nbytes for read in task.reads if read.source is None}
        for key, value in (("devices", task.devices), ("inputs", given)):
            if value:
                graph.nodes[task.name][key] = value
    for source, target, data in work.graph.edges(data=True):
        values = {name: work.values[name].nbytes for name in data["values"]}
        graph.add_edge(source, target, **({"nbytes": data["nbytes"], "values": values} if data["nbytes"] else {}))
    return graph


def _duration(task: Task) -> Any:
    if task.duration_s is not None:
        return dict(task.duration_s) if isinstance(task.duration_s, Mapping) else task.duration_s
    if task.kind in ("run", "collective"):
        raise CostError(
            f"task {task.name!r} has no duration: give it one (duration_s=), or export a recorded run, which has "
            "measured ones"
        )
    return 0.0

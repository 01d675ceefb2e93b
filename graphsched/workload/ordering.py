"""The order of tasks: what each must come after, from what it reads and changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import networkx as nx

from graphsched.workload.making import first_read
from graphsched.workload.tasks import Read, Task, Value


class Ordering:
    """Who wrote and read what so far, as far as later tasks must come after it.

    A task comes after the one that made what it reads (read after write), after those that read or wrote the state that
    it changes (write after read, write after write), and after the last barrier.

    Attributes:
        barrier: The last barrier, if there is one.
        since_barrier: The tasks behind it, in order.
    """

    def __init__(self, values: Mapping[str, Value]) -> None:
        """`values` are those of the workload, by name; it grows."""
        self._values = values
        self._writers: dict[str, list[str]] = {}  # root -> tasks that updated it, in order
        self._readers: dict[str, dict[str, None]] = {}  # root -> tasks that read its present version
        self._firsts: dict[str, Read] = {}  # value -> the read of it as its producer made it, for all who do
        self.barrier: str | None = None
        self.since_barrier: dict[str, None] = {}

    def versions(self, root: str) -> int:
        """How often the storage of `root` has been changed in place."""
        return len(self._writers.get(root, ()))

    def read(self, value: Value) -> Read:
        """A read of the present version of `value`."""
        writers = self._writers.get(value.root)
        if not writers:
            found = self._firsts.get(value.name)
            if found is None:
                found = self._firsts[value.name] = first_read(value)
            return found
        return Read(value, len(writers), writers[-1] if len(writers) > value.born else value.producer)

    def before(self, task: Task) -> dict[str, dict[str, int]]:
        """The tasks that `task` comes after, each with the bytes of the values that it passes; none: it only orders."""
        before: dict[str, dict[str, int]] = {other: {} for other in task.after}
        for read in task.reads:
            value, source = read.value, read.source
            if source in before:
                before[source][value.name] = value.nbytes
            elif source is not None:
                before[source] = {value.name: value.nbytes}
        for root in _updated(task):
            for other in [*self._writers.get(root, ())[-1:], *self._readers.get(root, ())]:
                before.setdefault(other, {})
        if self.barrier and self.since_barrier.keys().isdisjoint(before):
            before.setdefault(self.barrier, {})
        return before

    def remember(self, task: Task) -> None:
        """Let later tasks come after `task`."""
        for read in task.reads:
            root = read.value.root
            if self._values[root].kind == "state":  # nothing else is ever updated
                self._readers.setdefault(root, {})[task.name] = None
        for root in _updated(task):
            self._writers.setdefault(root, []).append(task.name)
            self._readers[root] = {}
        if task.kind == "barrier":
            self.barrier, self.since_barrier = task.name, {}
        else:
            self.since_barrier[task.name] = None


def add_ordered(graph: nx.DiGraph, task: Task, before: Mapping[str, Mapping[str, int]]) -> None:
    """Put `task` into `graph`, with an edge from each task `before` it."""
    after = tuple([other for other, values in before.items() if not values])
    graph.add_node(task.name, task=task if after == task.after else replace(task, after=after))
    graph.add_edges_from(
        [
            (other, task.name, {"values": tuple(values), "nbytes": sum(values.values())})
            for other, values in before.items()
        ]
    )


def _updated(task: Task) -> list[str]:
    """Owners of the storage that `task` changes in place, each once."""
    return list(dict.fromkeys([v.root for v in task.updates])) if task.updates else []


def ancestors_first(graph: nx.DiGraph, names: Iterable[str]) -> bool:
    """Whether `names` is a topological order of all nodes of `graph`.

    Example:
        >>> ancestors_first(nx.DiGraph([("a", "b")]), ["b", "a"])
        False
    """
    ordered = list(names)
    position = {name: i for i, name in enumerate(ordered)}
    if len(ordered) != len(graph) or position.keys() != graph.nodes.keys():
        return False
    return all(position[u] < position[v] for u, v in graph.edges)

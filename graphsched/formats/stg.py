"""Files of the Standard Task Graph Set: tasks with processing times and predecessors, with communication or without.

A file is text. Its first line holds the number of tasks without the two dummies, each further line a task: its number,
its processing time, the number of its predecessors, and these. The first and the last task are dummies of time 0,
before and after all others. Lines that begin with ``#`` are comments. A file without dummies is read too: its first
task takes time, and its count is that of all lines.

In graphs with communication each predecessor stands on a line of its own below its task, with the units of time that
what it passes takes between processors; the first line may hold a number of processors too, and may count the dummies.

Source: T. Tobita, H. Kasahara: A standard task graph set for fair evaluation of multiprocessor scheduling algorithms.
Journal of Scheduling 5 (5), 2002.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import networkx as nx

from graphsched.costs import check_seconds
from graphsched.errors import CycleError, FileFormatError, WorkloadError
from graphsched.files import write_text
from graphsched.formats.contents import read_contents
from graphsched.formats.entries import number_of

SHOWN = 40  # characters of a wrong entry that an error quotes


@dataclass(frozen=True, slots=True)
class _Row:
    """A line: where it stands, and the task that it describes; `passed` from each predecessor, if that is told."""

    where: str
    task: int
    time: float
    before: tuple[int, ...]
    passed: tuple[int, ...] = ()


def read_stg(path: str | Path) -> nx.DiGraph:
    """The graph of an STG file.

    Returns:
        Nodes are task numbers in the order of the file, the dummies included, with the processing time as attribute
        ``duration_s``, in the file's own unit. Edges of graphs with communication have ``nbytes``, a byte a unit of
        time (so links of 1 byte a second take as long as the file says); others have no attributes.

    Raises:
        FileFormatError: The file cannot be read, is truncated, holds no task, or a line is wrong: names the line.
        CycleError: Tasks depend on each other in a circle.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w", suffix=".stg") as file:
        ...     print("2", "0 0 0", "1 4 1 0", "2 3 1 1", "3 0 1 2", sep="\\n", file=file, flush=True)
        ...     graph = read_stg(file.name)
        >>> dict(graph.nodes(data="duration_s")), list(graph.edges)
        ({0: 0.0, 1: 4.0, 2: 3.0, 3: 0.0}, [(0, 1), (1, 2), (2, 3)])
    """
    lines = _lines(Path(path))
    first = next(lines, None)
    if first is None:
        raise FileFormatError(f"{path} is empty: an STG file begins with the number of its tasks")
    where, text = first
    fields = text.split()
    count = _whole(fields[0] if len(fields) == 2 else text, f"{where}: the number of tasks")
    if count == 0:
        raise FileFormatError(f"{where}: the graph has 0 tasks: there is nothing to schedule")
    rows = [_row(where, text, lines) for where, text in lines]
    _check_count(path, count, rows)
    return _graph(path, rows)


def write_stg(graph: nx.DiGraph, path: str | Path) -> None:
    """Write `graph` as an STG file, whole or not at all.

    Tasks are numbered from 0 in topological order, that of the graph where there is a choice. Dummies are added unless
    the graph has them: one first and one last task that take no time. Names are lost.

    Raises:
        WorkloadError: It is no `networkx.DiGraph`, or has no task.
        CostError: A node's ``duration_s`` is missing, negative or not finite.
        CycleError: Tasks depend on each other in a circle.
        OutputError: The file cannot be written.
    """
    if not isinstance(graph, nx.DiGraph) or graph.is_multigraph():
        raise WorkloadError(f"an STG file holds a networkx.DiGraph, got a {type(graph).__name__}: make one of it")
    if not graph:
        raise WorkloadError("the graph has 0 tasks and an STG file holds 1 or more: take another format")
    _check_acyclic(graph, "the graph")
    times = {n: check_seconds(data.get("duration_s"), f"duration_s of {n!r}") for n, data in graph.nodes(data=True)}
    order = _with_dummies(graph, times)
    number = {node: i for i, node in enumerate(order)}
    last = len(order) - 1
    lines = [f"{last - 1:>11}"]
    for i, node in enumerate(order):
        before = sorted(number[each] for each in graph.pred[node]) if node in graph else []
        if not before and i:
            before = [0] if i < last else [number[n] for n in order[1:last] if not graph.succ[n]]
        fields = " ".join(f"{each:>10}" for each in (_time_text(times.get(node, 0.0)), len(before), *before))
        lines.append(f"{i:>11} {fields}")
    write_text(path, "\n".join(lines) + "\n")


# -- reading ---------------------------------------------------------------------------------


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Lines that are neither empty nor comments, each with where it stands."""
    text: str = read_contents(path, "text")
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield f"{path}, line {number}", line


def _row(where: str, line: str, more: Iterator[tuple[str, str]]) -> _Row:
    """The task of a line; with communication its predecessors stand on the next ones (`more`)."""
    fields = line.split()
    if len(fields) < 3:
        raise FileFormatError(
            f"{where}: {_shown(line)} is no task: its number, its time, its number of predecessors and these are "
            "needed; the file may be truncated"
        )
    task = _whole(fields[0], f"{where}: the task's number")
    count = _whole(fields[2], f"{where}: task {task}'s number of predecessors")
    time = _time(fields[1], f"{where}: the time of task {task}")
    if len(fields) == 3 and count:
        pairs = [_passed(task, count, where, next(more, None)) for _ in range(count)]
        return _Row(where, task, time, tuple(n for n, _ in pairs), tuple(n for _, n in pairs))
    if len(fields) != 3 + count:
        raise FileFormatError(
            f"{where}: task {task} is said to have {count} predecessors, and {len(fields) - 3} are listed: "
            "correct the number, or the line is truncated or holds several tasks"
        )
    before = tuple(_whole(each, f"{where}: a predecessor of task {task}") for each in fields[3:])
    return _Row(where, task, time, before)


def _passed(task: int, count: int, where: str, line: tuple[str, str] | None) -> tuple[int, int]:
    """A predecessor of `task` on a line of its own, and the time that what it passes takes."""
    fields = line[1].split() if line is not None else []
    if line is None or len(fields) != 2:
        raise FileFormatError(
            f"{where}: task {task} is said to have {count} predecessors, and fewer are listed, there or on lines below "
            "with what they pass: correct the number, or the file is truncated"
        )
    before = _whole(fields[0], f"{line[0]}: a predecessor of task {task}")
    return before, _whole(fields[1], f"{line[0]}: the time of what task {task} is passed")


def _whole(text: str, what: str) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= SHOWN):
        raise FileFormatError(f"{what} is {_shown(text)}: a whole number, 0 or more, is needed")
    return int(text)


def _time(text: str, what: str) -> float:
    time = number_of(text)
    if not math.isfinite(time) or time < 0:
        raise FileFormatError(f"{what} is {_shown(text)}: a finite number, 0 or more, is needed")
    return time


def _shown(text: str) -> str:
    """`text` in quotes, cut where it is long."""
    return repr(text) if len(text) <= SHOWN else f"{text[:SHOWN]!r}… ({len(text)} characters)"


def _check_count(path: str | Path, count: int, rows: Sequence[_Row]) -> None:
    """Make sure that there are as many tasks as announced; dummies are not counted."""
    dummies = 2 if rows and rows[0].time == 0 and not rows[0].before else 0
    all_count = any(row.passed for row in rows) and len(rows) == count
    if len(rows) != count + dummies and not all_count:
        beside = " and the 2 dummies" if dummies else ""
        raise FileFormatError(
            f"{path}: {count} tasks{beside} are announced, {len(rows)} lines of tasks follow: the file is truncated, "
            "or its first line is wrong"
        )


def _graph(path: str | Path, rows: Iterable[_Row]) -> nx.DiGraph:
    graph = nx.DiGraph()
    kept = list(rows)
    for row in kept:
        if row.task in graph:
            raise FileFormatError(f"{row.where}: there are two tasks {row.task}: number them differently")
        graph.add_node(row.task, duration_s=row.time)
    for row in kept:
        for before in row.before:
            if before not in graph:
                raise FileFormatError(f"{row.where}: task {row.task} comes after {before}, and there is no such task")
            if graph.has_edge(before, row.task):
                raise FileFormatError(f"{row.where}: task {row.task} lists its predecessor {before} twice")
            graph.add_edge(before, row.task)
        for before, passed in zip(row.before, row.passed, strict=False):
            graph.edges[before, row.task]["nbytes"] = passed
    _check_acyclic(graph, str(path))
    return graph


def _check_acyclic(graph: nx.DiGraph, what: str) -> None:
    if nx.is_directed_acyclic_graph(graph):
        return
    circle = [str(u) for u, _ in nx.find_cycle(graph)]
    shown = circle if len(circle) <= SHOWN else [*circle[:SHOWN], "…"]
    path = " -> ".join([*shown, circle[0]])
    raise CycleError(f"{what}: tasks depend on each other in a circle: {path}: remove one of these dependencies")


# -- writing ---------------------------------------------------------------------------------


def _with_dummies(graph: nx.DiGraph, times: dict[object, float]) -> list[object]:
    """Nodes in topological order, with a dummy first and last: new objects where the graph has none."""
    position = {node: i for i, node in enumerate(graph)}
    order = list(nx.lexicographical_topological_sort(graph, key=position.__getitem__))
    sources = [node for node in order if not graph.pred[node]]
    sinks = [node for node in order if not graph.succ[node]]
    if len(order) > 2 and len(sources) == len(sinks) == 1 and times[sources[0]] == times[sinks[0]] == 0:
        return order
    return [object(), *order, object()]


def _time_text(time: float) -> str:
    """Without a fraction where there is none."""
    return str(int(time)) if time.is_integer() else repr(time)

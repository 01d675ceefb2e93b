"""Lengths of paths through a workload, by which list schedulers put tasks in order."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from graphsched.schedulers.heft import ROUNDING
from graphsched.schedulers.placing.candidates import Devices
from graphsched.schedulers.placing.timetable import Timetable
from graphsched.workload import Task, Workload

Average = Callable[[Sequence[float]], float]


def typical_seconds(table: Timetable, average: Average = statistics.fmean) -> dict[str, float]:
    """Seconds of each task: the `average` over the lanes where it may run.

    A copy that the workload asks for takes the mean over the devices where its value may be; a barrier takes nothing.
    """
    return {task.name: _typical_s(task, table, average) for task in table.work.tasks}


def _typical_s(task: Task, table: Timetable, average: Average) -> float:
    if task.kind == "barrier":
        return 0.0
    if task.kind == "copy":
        read, target = task.reads[0], str(task.outputs[0].device)
        sources = homes_of(table.work[read.source], table) if read.source else (read.value.device or "cpu",)
        return table.transfers.mean_asked_s(sources, target, task.memory, read.value.nbytes)
    devices = table.candidates.devices[task.name]
    row = zip(devices, table.durations.row(task, devices), strict=True)
    return average([seconds for device, seconds in row for _ in range(table.counts[device])])


def homes_of(task: Task, table: Timetable) -> Devices:
    """Devices where the outputs of `task` may be made."""
    if task.kind == "copy":
        return (str(task.outputs[0].device),)
    return table.candidates.devices.get(task.name, ())


def transfer_seconds(table: Timetable) -> dict[tuple[str, str], float]:
    """Mean seconds of what each edge passes, over pairs of distinct lanes where its ends may run.

    Edges that only order, those to copies (which are tasks), and those inside a group of one device take nothing.
    """
    candidates = table.candidates
    found = {}
    for name, after, edge in table.work.graph.edges(data=True):
        group = candidates.group_of.get(name, -1)
        crosses = edge["values"] and after in candidates.devices
        if crosses and (group < 0 or candidates.group_of.get(after) != group):
            sources = homes_of(table.work[name], table)
            found[name, after] = table.transfers.mean_s(sources, candidates.devices[after], edge["nbytes"])
    return found


def levels_below(
    work: Workload, seconds: Mapping[str, float], transfers: Mapping[tuple[str, str], float] | None = None
) -> dict[str, float]:
    """Seconds of the longest path from the start of each task to the end of the workload.

    Args:
        work: The workload.
        seconds: Of each task.
        transfers: Of each edge; none takes time by default (static levels).

    Example:
        >>> import networkx as nx
        >>> graph = nx.DiGraph([("a", "b"), ("a", "c")])
        >>> nx.set_node_attributes(graph, {"a": 1.0, "b": 2.0, "c": 5.0}, "duration_s")
        >>> work = Workload.from_graph(graph)
        >>> levels_below(work, {"a": 1.0, "b": 2.0, "c": 5.0}, {("a", "b"): 4.0})
        {'c': 5.0, 'b': 2.0, 'a': 7.0}
    """
    between = transfers or {}
    below: dict[str, float] = {}
    for name in reversed(list(work.graph)):
        after = work.graph.succ[name]
        below[name] = seconds[name] + max((between.get((name, n), 0.0) + below[n] for n in after), default=0.0)
    return below


def levels_above(
    work: Workload, seconds: Mapping[str, float], transfers: Mapping[tuple[str, str], float]
) -> dict[str, float]:
    """Seconds of the longest path from the beginning of the workload to the start of each task."""
    above: dict[str, float] = {}
    for name in work.graph:
        before = work.graph.pred[name]
        above[name] = max((above[n] + seconds[n] + transfers.get((n, name), 0.0) for n in before), default=0.0)
    return above


def in_grains(levels: Mapping[str, float]) -> dict[str, int]:
    """Whole numbers in the order of `levels`; those that differ by rounding alone are equal.

    Example:
        >>> in_grains({"a": 0.1 + 0.2, "b": 0.3})["a"] == in_grains({"a": 0.1 + 0.2, "b": 0.3})["b"]
        True
    """
    grain = max(levels.values(), default=0.0) * ROUNDING or 1.0
    return {name: round(seconds / grain) for name, seconds in levels.items()}

"""Predict earliest finish time: each task to where it and, at best, all that follows are over first."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from graphsched.costs import Costs
from graphsched.plan import Placement
from graphsched.platform import Platform
from graphsched.schedulers.cpop import by_priority
from graphsched.schedulers.placing.lanes import Copies
from graphsched.schedulers.placing.levels import in_grains
from graphsched.schedulers.placing.timetable import Chance, Timetable
from graphsched.schedulers.registry import register
from graphsched.workload import Task, Workload

Floats = NDArray[np.float64]


@register("peft")
def peft(
    work: Workload,
    platform: Platform,
    costs: Costs,
    *,
    lanes: int = 1,
    copies: Copies = "own",
    contention: bool = True,
) -> Placement:
    """Ready tasks by their mean optimistic cost, each to where its end plus that cost is least.

    The optimistic cost of a task on a device is the time from its end there to the end of the workload if each task
    after it takes the device that is best for the longest path below it, and no device is ever busy.
    A task may go into a gap between tasks placed before.

    Args:
        work: What to run.
        platform: What to run it on.
        costs: Costs of its tasks.
        lanes: Compute lanes on each device.
        copies: Lanes of the copies that the workload asks for.
        contention: Whether copies queue for lanes, engines and shared capacities; the paper's example has none of that.

    Source: H. Arabnejad, J. Barbosa: List scheduling algorithm for heterogeneous systems by an optimistic cost table.
    IEEE TPDS 25 (3), 2014. The table has the time of the very link where the paper has the mean over links.

    Not modelled: dispatch; lanes that share a device; in the table, tasks that must share a device.

    Raises:
        ScheduleError: More lanes than a device may have.
        PlatformError: No link brings a task's values to a device where it may run.
    """
    table = Timetable(work, platform, costs, lanes=lanes, copies=copies, contention=contention)
    left_s = optimistic_costs(table)
    number = {device.name: i for i, device in enumerate(platform.devices)}
    for name in by_priority(work, in_grains(_means(table, left_s))):
        task, costs_s = work[name], left_s[name]
        if task.kind == "run":
            table.place_best(task, partial(_end_of_all_s, costs_s, number))
        else:
            table.pass_by(task)
    return table.placement()


def _end_of_all_s(costs_s: Floats, number: Mapping[str, int], chance: Chance) -> float:
    return chance.end_s + float(costs_s[number[chance.device]])


def optimistic_costs(table: Timetable) -> dict[str, Floats]:
    """For each task and device of the platform, the seconds from its end there to the end of the workload at best."""
    tasks = _Costs(table)
    left_s: dict[str, Floats] = {}
    with_task: dict[str, Floats] = {}  # the same from the task's start
    for task in reversed(table.work.tasks):
        left_s[task.name] = np.zeros(len(table.platform.devices))
        for after, edge in table.work.graph.succ[task.name].items():
            between = tasks.between_s(table.work[after], edge["nbytes"] if edge["values"] else 0)
            np.maximum(left_s[task.name], (between + with_task[after]).min(axis=1), out=left_s[task.name])
        with_task[task.name] = left_s[task.name] + tasks.row(task)
    return left_s


class _Costs:
    """Seconds of tasks on all devices of the platform, and of what they read between all of them."""

    def __init__(self, table: Timetable) -> None:
        self._table = table
        self._names = [device.name for device in table.platform.devices]
        self._known: dict[object, Floats] = {}

    def row(self, task: Task) -> Floats:
        """Seconds on each device, infinite where the task may not run; a barrier and a copy take nothing there."""
        if task.kind == "barrier":
            return np.zeros(len(self._names))
        allowed = self._table.candidates.devices.get(task.name, (str(task.outputs[0].device),) if task.outputs else ())
        seconds = self._table.durations.row(task, allowed) if task.kind == "run" else [0.0]
        there = dict(zip(allowed, seconds, strict=True))
        return np.array([there.get(name, np.inf) for name in self._names])

    def between_s(self, task: Task, nbytes: int) -> Floats:
        """Seconds of what `task` reads, from where it was made (rows) to where it is needed (columns)."""
        key = (task.kind, task.memory if task.kind == "copy" else "", nbytes)
        if key not in self._known:
            if task.kind == "copy":
                copied = [
                    [self._table.transfers.asked_s(a, b, task.memory, nbytes) for b in self._names] for a in self._names
                ]
            else:
                rows = [self._table.transfers.row(name, nbytes, "written") if nbytes else {} for name in self._names]
                copied = [[row.get(name, 0.0) for name in self._names] for row in rows]
            self._known[key] = np.array(copied)
        return self._known[key]


def _means(table: Timetable, left_s: dict[str, Floats]) -> dict[str, float]:
    """Mean of a task's costs over the lanes where it may run."""
    counts = np.array([table.counts.get(device.name, 0) for device in table.platform.devices])
    number = {device.name: i for i, device in enumerate(table.platform.devices)}
    means = {}
    for task in table.work.tasks:
        where = [number[device] for device in table.candidates.devices.get(task.name, ())]
        found, weights = left_s[task.name], counts
        if where:
            found, weights = found[where], counts[where]
        usable = np.isfinite(found) & (weights > 0)
        means[task.name] = float(np.average(found[usable], weights=weights[usable])) if usable.any() else 0.0
    return means

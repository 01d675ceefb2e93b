"""Critical path on a processor: the longest path goes to one device, the rest to where it is over first."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping

from graphsched.costs import Costs
from graphsched.plan import Placement
from graphsched.platform import Platform
from graphsched.schedulers.placing.lanes import Copies
from graphsched.schedulers.placing.levels import (
    in_grains,
    levels_above,
    levels_below,
    transfer_seconds,
    typical_seconds,
)
from graphsched.schedulers.placing.timetable import Timetable
from graphsched.schedulers.registry import register
from graphsched.workload import Workload


@register("cpop")
def cpop(
    work: Workload,
    platform: Platform,
    costs: Costs,
    *,
    lanes: int = 1,
    copies: Copies = "own",
    contention: bool = True,
) -> Placement:
    """Ready tasks by the longest path through them; those of the critical path to the device that is fastest at it.

    A task may go into a gap between tasks placed before. Tasks of the critical path that may not run on that device go,
    like all others, to where they are over first.

    Args:
        work: What to run.
        platform: What to run it on.
        costs: Costs of its tasks.
        lanes: Compute lanes on each device.
        copies: Lanes of the copies that the workload asks for.
        contention: Whether copies queue for lanes, engines and shared capacities; the paper's example has none of that.

    Source: H. Topcuoglu, S. Hariri, M.-Y. Wu: Performance-effective and low-complexity task scheduling
    for heterogeneous computing. IEEE TPDS 13 (3), 2002, section 4.2.

    Not modelled: dispatch; lanes that share a device.

    Raises:
        ScheduleError: More lanes than a device may have.
        PlatformError: No link brings a task's values to a device where it may run.
    """
    table = Timetable(work, platform, costs, lanes=lanes, copies=copies, contention=contention)
    through = paths_through(table)
    path = critical_path_of(work, through)
    device = _fastest(table, path)
    for name in by_priority(work, through):
        task = work[name]
        if task.kind != "run":
            table.pass_by(task)
        elif name in path and device in table.devices(task) and table.ready_s(task, device) < math.inf:
            table.place(task, device)
        else:
            table.place_best(task)
    return table.placement()


def paths_through(table: Timetable) -> dict[str, int]:
    """Length of the longest path through each task, transfers included, in grains (`in_grains`)."""
    seconds, transfers = typical_seconds(table), transfer_seconds(table)
    above = levels_above(table.work, seconds, transfers)
    below = levels_below(table.work, seconds, transfers)
    return in_grains({name: above[name] + below[name] for name in table.work.graph})


def critical_path_of(work: Workload, through: Mapping[str, int]) -> list[str]:
    """The first longest path: from the first such task without predecessors always on to the first such successor."""
    longest = max(through.values(), default=0)
    path: list[str] = []
    after: Iterable[str] = (name for name in work.graph if not work.graph.pred[name])
    while (name := next((n for n in after if through[n] == longest), None)) is not None:
        path.append(name)
        after = work.graph.succ[name]
    return path


def _fastest(table: Timetable, path: Iterable[str]) -> str | None:
    """The device that may run most tasks of `path`; of those that may run the same number the fastest at them."""
    tasks = [task for name in path if (task := table.work[name]).kind == "run"]

    def total(device: str) -> tuple[int, float]:
        there = [task for task in tasks if device in table.candidates.devices[task.name]]
        return -len(there), sum(table.seconds(task, device) for task in there)

    return min(table.counts, key=total, default=None)


def by_priority(work: Workload, priority: Mapping[str, float]) -> Iterator[str]:
    """All tasks in a topological order: of those that are ready always the first of highest priority.

    Example:
        >>> import networkx as nx
        >>> graph = nx.DiGraph([("a", "b"), ("c", "d")])
        >>> nx.set_node_attributes(graph, 1.0, "duration_s")
        >>> list(by_priority(Workload.from_graph(graph), {"a": 1, "b": 9, "c": 2, "d": 0}))
        ['c', 'a', 'b', 'd']
    """
    number = {name: i for i, name in enumerate(work.graph)}
    names = list(number)
    missing = dict(work.graph.in_degree())
    ready = [(-priority[name], number[name]) for name in names if not missing[name]]
    heapq.heapify(ready)
    while ready:
        name = names[heapq.heappop(ready)[1]]
        yield name
        for after in work.graph.succ[name]:
            missing[after] -= 1
            if not missing[after]:
                heapq.heappush(ready, (-priority[after], number[after]))

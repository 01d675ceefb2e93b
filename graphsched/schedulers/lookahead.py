"""HEFT that looks ahead: each task to where the last of its successors would be over first."""

from __future__ import annotations

import math
from collections.abc import Mapping

from graphsched.costs import Costs
from graphsched.errors import PlatformError
from graphsched.plan import Placement
from graphsched.platform import Platform
from graphsched.schedulers.placing.lanes import Copies
from graphsched.schedulers.placing.levels import in_grains, levels_below, transfer_seconds, typical_seconds
from graphsched.schedulers.placing.timetable import Chance, Timetable
from graphsched.schedulers.registry import register
from graphsched.workload import Task, Workload

LOOKAHEAD_TASKS, LOOKAHEAD_READS = 2_000, 100_000
"""Tasks, and reads of successors that are tried behind each task before them, up to which ``auto`` and ``search`` ask
``lookahead``; of more it takes longer than all others together."""


def is_quick(work: Workload) -> bool:
    """Whether ``lookahead`` places `work` in seconds: it is small, and no task reads very many others.

    Example:
        >>> import networkx as nx
        >>> out = nx.DiGraph([("hub", k, {"nbytes": 4}) for k in range(400)])
        >>> nx.set_node_attributes(out, 1.0, "duration_s")
        >>> is_quick(Workload.from_graph(out)), is_quick(Workload.from_graph(out.reverse()))
        (True, False)
    """
    tried = sum(work.graph.in_degree(task.name) * len(task.reads) for task in work.tasks)
    return len(work.graph) <= LOOKAHEAD_TASKS and tried <= LOOKAHEAD_READS


@register("lookahead")
def lookahead(
    work: Workload,
    platform: Platform,
    costs: Costs,
    *,
    lanes: int = 1,
    copies: Copies = "own",
    contention: bool = True,
) -> Placement:
    """Tasks by upward rank, as `heft` has them, each to where its successors, placed by `heft` behind it, end first.

    Of several devices where the last successor ends at the same time, that where the task itself ends first. The price
    is a trial of each task's successors for each device: some ten times the work of `heft` per successor and device.

    Args:
        work: What to run.
        platform: What to run it on.
        costs: Costs of its tasks.
        lanes: Compute lanes on each device.
        copies: Lanes of the copies that the workload asks for.
        contention: Whether copies queue for lanes, engines and shared capacities; the paper's examples have none of
            that.

    Source: L. Bittencourt, R. Sakellariou, E. Madeira: DAG scheduling using a lookahead variant of the heterogeneous
    earliest finish time algorithm. PDP 2010.

    Not modelled: dispatch; lanes that share a device; predecessors of a successor that have no place yet.

    Raises:
        ScheduleError: More lanes than a device may have.
        PlatformError: No link brings a task's values to a device where it may run.
    """
    table = Timetable(work, platform, costs, lanes=lanes, copies=copies, contention=contention)
    ranks = in_grains(levels_below(work, typical_seconds(table), transfer_seconds(table)))
    for name in sorted(work.graph, key=lambda name: -ranks[name]):
        if work[name].kind == "run":
            _place(table, work[name], ranks)
        else:
            table.pass_by(work[name])
    return table.placement()


def _place(table: Timetable, task: Task, ranks: Mapping[str, int]) -> None:
    after = sorted(table.work.graph.succ[task.name], key=lambda name: -ranks[name])
    successors = [follower for name in after if (follower := table.work[name]).kind != "barrier"]

    def last_end_s(chance: Chance) -> tuple[float, float]:
        with table.tried():
            table.place(task, chance.device)
            ends = [_end_s(table, follower) for follower in successors]
        return max(ends, default=chance.end_s), chance.end_s

    table.place_best(task, last_end_s)


def _end_s(table: Timetable, task: Task) -> float:
    """End of a successor, placed where it is over first; infinite where its values can be nowhere that it may run."""
    try:
        if task.kind == "copy":
            table.pass_by(task)
        else:
            table.place_best(task)
    except PlatformError:
        return math.inf
    return table.end_s[task.name]

"""Critical-path list scheduling: of the tasks that are ready the one with the longest way to the end."""

from __future__ import annotations

import numpy as np

from graphsched.costs import Costs
from graphsched.plan import Placement
from graphsched.platform import Platform
from graphsched.schedulers.etf import SAME
from graphsched.schedulers.placing.lanes import Copies
from graphsched.schedulers.placing.levels import in_grains, levels_below, typical_seconds
from graphsched.schedulers.placing.priority_list import place_by_priority
from graphsched.schedulers.placing.ready_list import Ready, place_ready
from graphsched.schedulers.placing.timetable import Timetable
from graphsched.schedulers.registry import register
from graphsched.schedulers.searching.identical import Identical, find_identical
from graphsched.schedulers.searching.list_decoding import by_time
from graphsched.workload import Workload


@register("critical_path")
def critical_path(
    work: Workload,
    platform: Platform,
    costs: Costs,
    *,
    lanes: int = 1,
    copies: Copies = "own",
    contention: bool = True,
) -> Placement:
    """Whenever a lane could start a task: the one with the longest way to the end, where it is over first.

    That way is the sum of the tasks' times, at best over devices, without communication. Of equals the one with the
    most direct successors goes first. No lane waits while it could start a task, and no gap is filled.

    Where all lanes are alike and nothing is copied the same is done from the end backwards too. A schedule that is made
    so gives another list, in the order of its starts; of the two list schedules the shorter one is taken.

    Args:
        work: What to run.
        platform: What to run it on.
        costs: Costs of its tasks.
        lanes: Compute lanes on each device.
        copies: Lanes of the copies that the workload asks for.
        contention: Whether copies queue for lanes, engines and shared capacities.

    Source: H. Kasahara, S. Narita: Practical multiprocessor scheduling algorithms for efficient parallel processing.
    IEEE Trans. Computers C-33 (11), 1984 (CP/MISF); of the list from the end, K. Li, R. Willis: An iterative scheduling
    technique for resource-constrained project scheduling. European J. of Operational Research 56 (3), 1992.

    Not modelled: dispatch; lanes that share a device.

    Raises:
        ScheduleError: More lanes than a device may have.
        PlatformError: No link brings a task's values to a device where it may run.
    """
    table = Timetable(work, platform, costs, lanes=lanes, copies=copies, contention=contention)
    priorities = _priorities(table)

    def choose(ready: Ready) -> tuple[int, int]:
        now = ready.start_s.min(axis=1) <= ready.start_s.min() * SAME
        row = int(np.argmax(np.where(now, priorities[ready.tasks], -1)))
        return row, int((ready.start_s[row] + ready.seconds[row]).argmin())

    alike = find_identical(work, platform, costs, table.counts)
    if alike is None:
        place_ready(table, choose)
        return table.placement()
    place_by_priority(table, priorities.tolist(), SAME)
    if len(alike):
        start_s = _from_the_end(alike)
        if alike.makespan_s(start_s) * SAME < table.makespan_s:
            return alike.placement(start_s, copies)
    return table.placement()


def _from_the_end(tasks: Identical) -> list[float]:
    """Starts by the list that a critical-path schedule with time running backwards gives."""
    turned = tasks.backwards()
    way = list(in_grains(dict(zip(turned.names, turned.tails_s(), strict=True))).values())
    listed = sorted(range(len(turned)), key=lambda i: (-way[i], -len(turned.after[i])))
    ranks = [0] * len(turned)
    for rank, i in enumerate(listed):
        ranks[i] = rank
    late_s = by_time(turned, ranks)
    return by_time(tasks, [-(start + seconds) for start, seconds in zip(reversed(late_s), tasks.seconds, strict=True)])


def _priorities(table: Timetable) -> np.ndarray:
    """Places in the list, highest first."""
    work = table.work
    below = in_grains(levels_below(work, typical_seconds(table, min)))
    names = list(work.graph)
    listed = sorted(range(len(names)), key=lambda i: (-below[names[i]], -work.graph.out_degree(names[i])))
    priorities = np.empty(len(names))
    priorities[listed] = np.arange(len(names), 0, -1)
    return priorities

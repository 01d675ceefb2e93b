"""Critical-path list scheduling: of the tasks that are ready the one with the longest way to the end."""

from __future__ import annotations

import numpy as np

from graphsched.costs import Costs
from graphsched.plan import Placement
from graphsched.platform import Platform
from graphsched.schedulers.etf import SAME
from graphsched.schedulers.placing.lanes import Copies
from graphsched.schedulers.placing.levels import in_grains, levels_below, typical_seconds
from graphsched.schedulers.placing.ready_list import Ready, place_ready
from graphsched.schedulers.placing.timetable import Timetable
from graphsched.schedulers.registry import register
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

    Args:
        work: What to run.
        platform: What to run it on.
        costs: Costs of its tasks.
        lanes: Compute lanes on each device.
        copies: Lanes of the copies that the workload asks for.
        contention: Whether copies queue for lanes, engines and shared capacities.

    Source: H. Kasahara, S. Narita: Practical multiprocessor scheduling algorithms for efficient parallel processing.
    IEEE Trans. Computers C-33 (11), 1984 (CP/MISF).

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

    place_ready(table, choose)
    return table.placement()


def _priorities(table: Timetable) -> np.ndarray:
    """Places in the list, highest first."""
    work = table.work
    below = in_grains(levels_below(work, typical_seconds(table, min)))
    names = list(work.graph)
    listed = sorted(range(len(names)), key=lambda i: (-below[names[i]], -work.graph.out_degree(names[i])))
    priorities = np.empty(len(names))
    priorities[listed] = np.arange(len(names), 0, -1)
    return priorities

"""Min-min: of all ready tasks the one that can be over first."""

from __future__ import annotations

import numpy as np

from graphsched.costs import Costs
from graphsched.plan import Placement
from graphsched.platform import Platform
from graphsched.schedulers.placing.lanes import Copies
from graphsched.schedulers.placing.ready_list import Ready, place_ready
from graphsched.schedulers.placing.timetable import Timetable
from graphsched.schedulers.registry import register
from graphsched.workload import Workload


@register("min_min")
def min_min(
    work: Workload,
    platform: Platform,
    costs: Costs,
    *,
    lanes: int = 1,
    copies: Copies = "own",
    contention: bool = True,
) -> Placement:
    """Again and again the ready task that is over first where it is over first: short tasks come early.

    Tasks stand behind each other on their lanes, and no gap is filled.

    Args:
        work: What to run.
        platform: What to run it on.
        costs: Costs of its tasks.
        lanes: Compute lanes on each device.
        copies: Lanes of the copies that the workload asks for.
        contention: Whether copies queue for lanes, engines and shared capacities.

    Source: O. Ibarra, C. Kim: Heuristic algorithms for scheduling independent tasks on nonidentical processors. J. ACM
    24 (2), 1977 (algorithm D); here over the tasks that are ready.

    Not modelled: dispatch; lanes that share a device.

    Raises:
        ScheduleError: More lanes than a device may have.
        PlatformError: No link brings a task's values to a device where it may run.
    """
    table = Timetable(work, platform, costs, lanes=lanes, copies=copies, contention=contention)
    place_ready(table, _first_over)
    return table.placement()


def _first_over(ready: Ready) -> tuple[int, int]:
    ends = ready.start_s + ready.seconds
    row, column = np.unravel_index(ends.argmin(), ends.shape)
    return int(row), int(column)

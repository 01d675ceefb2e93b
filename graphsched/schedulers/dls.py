"""Dynamic level scheduling: of all ready tasks and devices the pair of the highest dynamic level."""

from __future__ import annotations

import statistics

import numpy as np

from graphsched.costs import Costs
from graphsched.plan import Placement
from graphsched.platform import Platform
from graphsched.schedulers.placing.lanes import Copies
from graphsched.schedulers.placing.levels import levels_below, typical_seconds
from graphsched.schedulers.placing.ready_list import Ready, place_ready
from graphsched.schedulers.placing.timetable import Timetable
from graphsched.schedulers.registry import register
from graphsched.workload import Workload


@register("dls")
def dls(
    work: Workload,
    platform: Platform,
    costs: Costs,
    *,
    lanes: int = 1,
    copies: Copies = "own",
    contention: bool = True,
) -> Placement:
    """Again and again the ready task and the device of the highest dynamic level.

    That is the task's way to the end without communication (with the median of its times over lanes), less when it
    could start on the device, plus how much faster the device is at it than that median. Tasks stand behind each other
    on their lanes, and no gap is filled.

    Args:
        work: What to run.
        platform: What to run it on.
        costs: Costs of its tasks.
        lanes: Compute lanes on each device.
        copies: Lanes of the copies that the workload asks for.
        contention: Whether copies queue for lanes, engines and shared capacities.

    Source: G. Sih, E. Lee: A compile-time scheduling heuristic for interconnection-constrained heterogeneous processor
    architectures. IEEE TPDS 4 (2), 1993.

    Not modelled: dispatch; lanes that share a device; the paper's terms for what a task's children and for what a
    device that others need more would have of it.

    Raises:
        ScheduleError: More lanes than a device may have.
        PlatformError: No link brings a task's values to a device where it may run.
    """
    table = Timetable(work, platform, costs, lanes=lanes, copies=copies, contention=contention)
    typical = typical_seconds(table, statistics.median)
    below = levels_below(work, typical)
    levels = np.array([below[name] + typical[name] for name in work.graph])

    def choose(ready: Ready) -> tuple[int, int]:
        dynamic = levels[ready.tasks, None] - ready.start_s - ready.seconds
        row, column = np.unravel_index(dynamic.argmax(), dynamic.shape)
        return int(row), int(column)

    place_ready(table, choose)
    return table.placement()

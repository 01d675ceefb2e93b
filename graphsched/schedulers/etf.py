"""Earliest task first: of all ready tasks and devices the pair that can start first."""

from __future__ import annotations

import numpy as np

from graphsched.costs import Costs
from graphsched.plan import Placement
from graphsched.platform import Platform
from graphsched.schedulers.placing.lanes import Copies
from graphsched.schedulers.placing.levels import in_grains, levels_below, typical_seconds
from graphsched.schedulers.placing.ready_list import Ready, place_ready
from graphsched.schedulers.placing.timetable import Timetable
from graphsched.schedulers.registry import register
from graphsched.workload import Workload

SAME = 1.0 + 1e-12  # starts that differ by less are equal


@register("etf")
def etf(
    work: Workload,
    platform: Platform,
    costs: Costs,
    *,
    lanes: int = 1,
    copies: Copies = "own",
    contention: bool = True,
) -> Placement:
    """Again and again the ready task that can start first, on the device where it can.

    Of those that can start at the same time the one with the longest way to the end, without communication; of devices
    the one where it is over first. Tasks stand behind each other on their lanes, and no gap is filled.

    Args:
        work: What to run.
        platform: What to run it on.
        costs: Costs of its tasks.
        lanes: Compute lanes on each device.
        copies: Lanes of the copies that the workload asks for.
        contention: Whether copies queue for lanes, engines and shared capacities; the paper's example has none of that.

    Source: J.-J. Hwang, Y.-C. Chow, F. Anger, C.-Y. Lee: Scheduling precedence graphs in systems with interprocessor
    communication times. SIAM J. Comput. 18 (2), 1989.

    Not modelled: dispatch; lanes that share a device.

    Raises:
        ScheduleError: More lanes than a device may have.
        PlatformError: No link brings a task's values to a device where it may run.
    """
    table = Timetable(work, platform, costs, lanes=lanes, copies=copies, contention=contention)
    below = in_grains(levels_below(work, typical_seconds(table)))
    levels = np.array([below[name] for name in work.graph])

    def choose(ready: Ready) -> tuple[int, int]:
        first = ready.start_s <= ready.start_s.min() * SAME
        row = int(np.argmax(np.where(first.any(axis=1), levels[ready.tasks], -1)))
        ends = np.where(first[row], ready.seconds[row], np.inf)
        return row, int(ends.argmin())

    place_ready(table, choose)
    return table.placement()

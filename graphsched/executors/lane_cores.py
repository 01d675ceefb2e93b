"""Which core each CPU lane of one thread stays on, and that the thread which dispatches begins on none of them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from graphsched.plan import Plan

if TYPE_CHECKING:
    from graphsched.executors.lanes import CpuLane


def lane_cores(plan: Plan) -> dict[int, int]:
    """A hardware thread for each lane that computes on a worker, by lane number.

    Left to itself the system may put two lanes that wake together on one core and leave another idle.
    Lanes of several threads, those that copy, and all where there are fewer cores than lanes go where the system puts
    them: bound to one core, a lane would wait for another while the next core is idle.
    """
    if not hasattr(os, "sched_setaffinity"):
        return {}
    cores = sorted(os.sched_getaffinity(0))
    workers = [
        number
        for number, lane in enumerate(plan.lanes)
        if lane.kind == "compute"
        and plan.platform.device(lane.device).kind == "worker"
        and plan.platform.device(lane.device).threads == 1
    ]
    return dict(zip(workers, cores, strict=False)) if len(workers) <= len(cores) else {}


def step_aside(lanes: Iterable[CpuLane]) -> None:
    """Move the calling thread to a core that none of `lanes` is bound to, where it may use one; it stays bound to none.

    A thread that then waits awake would share such a core with the lane, until the system moves it some milliseconds
    later. Not modelled: that the system moves it back.
    """
    bound = {lane.core for lane in lanes if lane.core is not None}
    usable = os.sched_getaffinity(0) if bound else set()
    if not bound & usable or not usable - bound:
        return
    try:
        os.sched_setaffinity(0, usable - bound)
    finally:
        os.sched_setaffinity(0, usable)

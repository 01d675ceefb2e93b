"""The plainest clock for plans: lanes in order, waits, links one transfer a lane; dispatch and sharing cost nothing."""

from __future__ import annotations

from graphsched.estimates import task_cost
from graphsched.plan import Plan


def durations(plan: Plan) -> list[float]:
    """Seconds of each action alone."""
    seconds = []
    for i, kind in enumerate(plan.kinds):
        copy, task = plan.copies.get(i), plan.task(i)
        if copy is not None:
            link = plan.platform.link(copy.source, copy.target, copy.memory)
            seconds.append(link.duration_s(copy.read.value.nbytes))
        elif kind == "run" and task is not None:
            device = plan.platform.device(plan.lanes[plan.lane_of[i]].device)
            seconds.append(task_cost(task, device, plan.costs).device_s)
        else:
            seconds.append(0.0)
    return seconds


def spans(plan: Plan) -> dict[str, tuple[float, float]]:
    """Start and end of each action by name."""
    ends: list[float] = []
    free = [0.0] * len(plan.lanes)
    thread = 0.0
    found = {}
    for i, seconds in enumerate(durations(plan)):
        start = max([thread, free[plan.lane_of[i]], *(ends[j] for j in plan.waits[i])])
        ends.append(start + seconds)
        free[plan.lane_of[i]] = ends[-1]
        if plan.kinds[i] == "wait":
            thread = ends[-1]
        found[plan.names[i]] = (start, ends[-1])
    return found


def makespan(plan: Plan) -> float:
    """End of the last action."""
    return max((end for _, end in spans(plan).values()), default=0.0)

"""Proof that a run obeyed its plan: the order of lanes and every wait, on the measured spans."""

from __future__ import annotations

from graphsched.errors import ObedienceError
from graphsched.timeline import Timeline, predecessors

RESOLUTION_S = 2e-6  # of CUDA timing events


def check_obedience(timeline: Timeline) -> None:
    """Make sure that spans keep the plan's order on each lane and its waits, within the clocks' uncertainty.

    After a wait of the dispatching thread nothing starts before that wait is over; in graph mode too, where lanes may
    wait in its stead.

    Raises:
        ObedienceError: An action started before what it had to wait for was over.
    """
    plan = timeline.plan
    for i, before in enumerate(predecessors(plan)):
        for j in before:
            same = plan.lanes[plan.lane_of[j]].device == plan.lanes[plan.lane_of[i]].device
            slack = RESOLUTION_S + (0.0 if same else 2 * timeline.clock_uncertainty_s)
            started = timeline.end_s[i] if plan.kinds[i] == "wait" else timeline.start_s[i]
            if started < timeline.end_s[j] - slack:
                raise ObedienceError(
                    f"{plan.names[i]!r} started {(timeline.end_s[j] - started) * 1e6:.1f} µs before "
                    f"{plan.names[j]!r} was over, which it waits for"
                )

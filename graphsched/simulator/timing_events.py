"""A run with timing events: while a copy from the host's pinned memory goes into a GPU, an event there takes longer.

An event writes the time into host memory, and that waits behind what the copy reads from there; kernels, and events
that take no time, do not. Which events are beside such copies follows from the spans, and the spans from that: the run
is simulated again until both agree.

Not modelled: events around copies; events beside copies between GPUs, or from pageable memory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from graphsched.plan import Plan
from graphsched.simulator.columns import Columns
from graphsched.simulator.engine import Engine
from graphsched.simulator.host_calls import with_events
from graphsched.simulator.lane_costs import CUDA
from graphsched.simulator.locked_engine import engine_of
from graphsched.simulator.repeated import first_cold_s, with_cold_launch

MOST_RUNS = 5  # simulations of one run; two plans that keep changing each other's events end somewhere

Times = Sequence[float]


def run_with_events(columns: Columns, plan: Plan) -> tuple[Columns, Engine, float]:
    """The columns of a run with timing events, the engine that ran it, and its makespan in seconds.

    Raises:
        DeadlockError: Actions wait for each other, so that not all can start.
    """
    columns = with_events(columns, plan)
    engine, makespan_s = _run(columns)
    if columns.graphs is not None and (cold_s := first_cold_s(columns, engine)):
        columns = with_cold_launch(columns, cold_s)
        engine, makespan_s = _run(columns)
    late = columns.dispatch.timed_beside_s and not (columns.graphs and columns.dispatch.graph_stamp_s)
    copies = incoming(columns, plan) if late else {}
    for _ in range(MOST_RUNS - 1 if copies else 0):
        late_s = late_events_s(columns, plan, copies, engine.start_s, engine.end_s)
        if late_s == columns.late_events_s:
            break
        columns = replace(columns, late_events_s=late_s)
        engine, makespan_s = _run(columns)
    return columns, engine, makespan_s


def _run(columns: Columns) -> tuple[Engine, float]:
    engine = engine_of(columns, timed=True)
    return engine, engine.run()


def incoming(columns: Columns, plan: Plan) -> dict[str, list[int]]:
    """Copies by pinned memory of the host, by the device that they go into; of all runs that `columns` hold."""
    found: dict[str, list[int]] = {}
    for i in range(len(columns)):
        copy = plan.copies.get(i % len(plan))
        if copy is not None and columns.kind[i] == CUDA and copy.memory == "pinned":
            found.setdefault(copy.target, []).append(i)
    return found


def late_events_s(
    columns: Columns, plan: Plan, copies: Mapping[str, Sequence[int]], start_s: Times, end_s: Times
) -> dict[int, float]:
    """What the two events around each task take longer, by action, where that is anything.

    Args:
        columns: As simulated for these times: the event behind a task comes when its work is over, so before its end.
        copies: Of each GPU, the copies into it.
        start_s, end_s: By action.
    """
    each_s, found = columns.dispatch.timed_beside_s, {}
    spans = {device: spans_of(into, start_s, end_s) for device, into in copies.items()}
    for i, kind in enumerate(columns.kind):
        place = i % len(plan)
        into = spans.get(plan.lanes[plan.lane_of[place]].device) if kind == CUDA else None
        if into and place not in plan.copies:
            over_s = end_s[i] - columns.late_events_s.get(i, 0.0)
            events = sum(is_in_one(time, into) for time in (start_s[i], over_s))
            if events:
                found[i] = events * each_s
    return found


def spans_of(copies: Sequence[int], start_s: Times, end_s: Times) -> tuple[Times, Times]:
    """Starts of `copies`, ascending, and the latest end of those up to each."""
    starts, ends = zip(*sorted((start_s[i], end_s[i]) for i in copies), strict=True)
    return starts, list(accumulate(ends, max))


def is_in_one(time: float, spans: tuple[Times, Times]) -> bool:
    """Whether a copy began before `time` and ends after it."""
    starts, latest = spans
    begun = bisect_left(starts, time)
    return begun > 0 and time < latest[begun - 1]

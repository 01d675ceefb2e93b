"""How the GPU that a CUDA graph over several is launched on learns that the others are done: it looks now and then.

Its last lane waits for the other GPUs at the end. It comes to that wait as soon as the graph is launched, for GPUs read
far ahead of what they carry out; only what waits for another lane, or what another lane waits for, holds it up. Where
another GPU is not done then, it looks again after a fixed time, and again. So a graph over several GPUs is over at one
of few moments, whenever its last task ends.

On an H100 a graph whose second GPU spins longer and longer was over 22.2, 31.5, 41.3 or 50.5 µs after its launch and at
no other time (`calibration.graph_looks` measures the period on each host).

Not modelled: the same inside a graph, where one GPU waits for a copy of another. There some GPUs look as rarely, others
see the end at once, and what decides is not known (docs/graph-mode.md); all wait as long as on average. Graphs that
follow one another, or tasks of the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphsched.plan import OUTSIDE
from graphsched.simulator.lane_costs import CUDA

if TYPE_CHECKING:
    from graphsched.simulator.columns import Columns
    from graphsched.simulator.engine import Engine


def look_s(columns: Columns, engine: Engine, last: int) -> float:
    """How much later the end of `last`, which ends last, is seen than if each GPU's end were seen alike; or sooner.

    0 where it is not known how often a GPU looks, and for all but a single graph over several GPUs.
    """
    costs, graphs = columns.dispatch, columns.graphs
    if not costs.graph_look_s or graphs is None or len(graphs.first) != 1 or last < 0 or not columns.far_lanes:
        return 0.0
    if OUTSIDE in graphs.of:
        return 0.0
    ends_s = _others_end_s(columns, engine.end_s)
    first = columns.lane.index(columns.launching) if columns.launching in columns.lane else -1
    if first < 0 or not ends_s:
        return 0.0
    begun_s = max(engine.thread.ready_s[first] - costs.graph_look_ahead_s, _held_up_s(columns, engine))
    seen_s = seen_at_s(begun_s, ends_s, costs.graph_look_s)
    own_s = engine.end_s[last] + costs.graph_other_device_s * (columns.lane[last] in columns.far_lanes)
    if seen_s <= begun_s:
        return engine.end_s[last] - own_s
    return max(engine.end_s[last], seen_s + costs.graph_seen_s) - own_s


def seen_at_s(begun_s: float, ends_s: Sequence[float], period_s: float) -> float:
    """When one that begins to look at `begun_s`, and then once a period, has seen all of these ends, one by one.

    Example:
        >>> seen_at_s(1.0, [0.5], 4.0), seen_at_s(1.0, [2.0], 4.0), seen_at_s(1.0, [6.0, 2.0], 4.0)
        (1.0, 5.0, 9.0)
    """
    now_s = begun_s
    for end_s in sorted(ends_s):
        if end_s > now_s:
            now_s += math.ceil((end_s - now_s) / period_s) * period_s
    return now_s


def _others_end_s(columns: Columns, end_s: Sequence[float]) -> list[float]:
    """When each other GPU is done."""
    found: dict[int, float] = {}
    for i, seconds in enumerate(end_s):
        if columns.lane[i] in columns.far_lanes:
            queue = columns.lanes.queue[columns.lane[i]]
            found[queue] = max(found.get(queue, 0.0), seconds)
    return list(found.values())


def _held_up_s(columns: Columns, engine: Engine) -> float:
    """Until when the launching lane is held up: starts of what waits for other lanes, ends of what these wait for."""
    lane, here, found = columns.lane, columns.launching, 0.0
    for i, before in enumerate(columns.waits):
        if columns.kind[i] != CUDA:
            continue
        for j in before:
            if lane[i] == here != lane[j]:
                found = max(found, engine.start_s[i])
            elif lane[j] == here != lane[i]:
                found = max(found, engine.end_s[j])
    return found

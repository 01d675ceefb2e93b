"""How the GPU that a CUDA graph over several is launched on learns that the others are done: it looks now and then.

Its last lane waits for the other GPUs at the end. It comes to that wait as soon as the graph is launched, for GPUs read
far ahead of what they carry out; only what waits for another lane, or what another lane waits for, holds it up. Where
another GPU is not done then, it looks again after a fixed time, and again. So a graph over several GPUs is over at one
of few moments, whenever its last task ends.

On an H100 a graph whose second GPU spins longer and longer was over 22.2, 31.5, 41.3 or 50.5 µs after its launch,
hardly ever at another time (`calibration.graph_looks` measures the period on each host).

Not modelled: the same inside a graph, where one GPU waits for a copy of another. There some GPUs look as rarely, others
see the end at once, and what decides is not known (docs/graph-mode.md); all wait as long as on average. Graphs that
follow one another, or tasks of the CPU.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from graphsched.plan import OUTSIDE
from graphsched.simulator.graph_mode import PASSED
from graphsched.simulator.lane_costs import CUDA

if TYPE_CHECKING:
    from graphsched.simulator.columns import Columns
    from graphsched.simulator.engine import Engine

EXACT = 1e-9  # of a period: what ends right at a look is seen by it


def over_s(columns: Columns, engine: Engine) -> float | None:
    """When the GPU that the graph was launched on knows that all is over.

    None where it is not known how often it looks, and for all but a single graph over several GPUs.
    """
    costs, graphs, end_s = columns.dispatch, columns.graphs, engine.end_s
    if not costs.graph_look_s or graphs is None or len(graphs.first) != 1 or OUTSIDE in graphs.of:
        return None
    nodes = [i for i in range(len(columns)) if columns.kind[i] == CUDA and not columns.flags[i] & PASSED]
    others_s = max((end_s[i] for i in nodes if columns.lane[i] in columns.far_lanes), default=0.0)
    first = next((i for i in nodes if columns.lane[i] == columns.launching), -1)
    if not others_s or first < 0:
        return None
    begun_s = max(engine.thread.ready_s[first] - costs.graph_look_ahead_s, _held_up_s(columns, engine, nodes))
    look_s = look_at_s(begun_s, others_s, costs.graph_look_s)
    return max(max(end_s), look_s + costs.graph_seen_s if look_s > begun_s else 0.0)


def look_at_s(begun_s: float, end_s: float, period_s: float) -> float:
    """The first look that finds what ends at `end_s`, of one who begins to look at `begun_s` and does so once a period.

    Example:
        >>> look_at_s(1.0, 0.5, 4.0), look_at_s(1.0, 5.0, 4.0), look_at_s(1.0, 6.0, 4.0)
        (1.0, 5.0, 9.0)
    """
    return begun_s + max(0, math.ceil((end_s - begun_s) / period_s - EXACT)) * period_s


def _held_up_s(columns: Columns, engine: Engine, nodes: list[int]) -> float:
    """Until when the launching lane is held up: starts of what waits for other lanes, ends of what these wait for."""
    lane, here, found = columns.lane, columns.launching, 0.0
    for i in nodes:
        for j in columns.waits[i]:
            if lane[i] == here != lane[j]:
                found = max(found, engine.start_s[i])
            elif lane[j] == here != lane[i]:
                found = max(found, engine.end_s[j])
    return found

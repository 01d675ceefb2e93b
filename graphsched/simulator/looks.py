"""How the GPU that a CUDA graph over several is launched on learns that the others are done: it looks now and then.

Its last lane waits for the other GPUs at the end. It comes to that wait as soon as the graph is launched, for GPUs read
far ahead of what they carry out; only what waits for another lane, or what another lane waits for, holds it up. Where
another GPU is not done then, it looks again after a fixed time, and again. So a graph over several GPUs is over at one
of few moments, whenever its last task ends.

On an H100 a graph whose second GPU spins longer and longer was over 22.2, 31.5, 41.3 or 50.5 µs after its launch,
hardly ever at another time (`calibration.graph_looks` measures these moments on each host). A look finds what has ended
`FOUND_S` before the moment that it leads to.

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
FOUND_S = 2.25e-6
"""What is found at once lets the next thing begin 2.0 to 2.5 µs after its end, on two hosts with H100s."""
UNSURE = 0.01
"""By how much of itself a predicted time is off as a rule: how near a look is to what ends later is chance."""


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
    if others_s <= begun_s:
        return max(end_s)
    look_s = expected_look_s(begun_s, begun_s + costs.graph_seen_s - FOUND_S, others_s, costs.graph_look_s)
    return max(max(end_s), look_s + FOUND_S)


def expected_look_s(begun_s: float, first_s: float, end_s: float, period_s: float) -> float:
    """When what ends at `end_s` is expected to be found by looks of which one is at `first_s`.

    At the first look behind it, or half a period after its end, on average: the less sure it is which look that will
    be, the longer it takes from `begun_s` on, the last thing that both times follow.

    Example:
        >>> expected_look_s(0.0, 3.0, 4.0, 10.0), round(expected_look_s(0.0, 3.0, 4004.0, 10.0), 3)
        (12.998..., 4009.0)
    """
    on_average_s = end_s + period_s / 2
    sure = math.exp(-2 * (math.pi * UNSURE * (end_s - begun_s) / period_s) ** 2)  # of a wave, at times that scatter so
    return on_average_s + sure * (look_at_s(first_s, end_s, period_s) - on_average_s)


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

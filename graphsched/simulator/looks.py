"""How the GPU that a CUDA graph over several is launched on learns that the others are done: it looks now and then.

Its last lane waits for the other GPUs at the end. It comes to that wait as soon as the thread has launched the graph,
for GPUs read far ahead of what they carry out; only what waits for another lane, or what another lane waits for, holds
it up. What is over by then is known at once (`Dispatch.graph_known_s`). Else it looks for a moment, and again and again
after a fixed time. So a graph over several GPUs is over at one of few moments, whenever its last task ends.

On two H200s a graph whose second GPU spins longer and longer was over 6.4 to 9.2, 16.1 to 19.1, 24.6 to 27.1 or 34.9 µs
after the thread had launched it, and never in between, whether that took it 11 or 20 µs: the looks follow the end of
the launch, not the start of its nodes (docs/graph-mode.md; `calibration.graph_looks` measures the moments on each
host). A look lasts `LOOK_S`, and finds what has ended `FOUND_S` before the moment that it leads to.

Not modelled: the same inside a graph, where one GPU waits for a copy of another. There some GPUs look as rarely, others
see the end at once, and what decides is not known (docs/graph-mode.md); all wait as long as on average. That each lane
of another GPU that branches off late takes a wait of its own, 0.95 µs. Graphs that follow one another, or tasks of the
CPU.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from graphsched.plan import OUTSIDE
from graphsched.simulator.graph_mode import PASSED
from graphsched.simulator.lane_costs import CUDA

if TYPE_CHECKING:
    from graphsched.platform import Dispatch
    from graphsched.simulator.columns import Columns
    from graphsched.simulator.engine import Engine

EXACT = 1e-9  # of a period: what ends right at a look is seen by it
LOOK_S = 1.75e-6
"""How long a look lasts: ends 1.5 to 1.9 µs behind its beginning were seen at once, on two H200s."""
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
    soonest_s = engine.thread.issue_end_s[first] + known_after_s(costs)
    begun_s = max(soonest_s - FOUND_S, _held_up_s(columns, engine, nodes))
    if others_s <= begun_s:
        return max(max(end_s), soonest_s)
    again_s = begun_s + FOUND_S + (costs.graph_look_again_s or costs.graph_look_s)
    return max(max(end_s), expected_s(begun_s + FOUND_S, again_s, others_s + FOUND_S, costs.graph_look_s))


def known_after_s(costs: Dispatch) -> float:
    """From the end of a launch to when the GPU knows what was over when it came to its last wait.

    Where that was not measured, as long as the first node begins after a launch on one GPU, and a wait that is over.
    """
    return costs.graph_known_s or max(0.0, costs.graph_start_s(1) - costs.graph_launch_s) + FOUND_S


def expected_s(first_s: float, again_s: float, seen_s: float, period_s: float) -> float:
    """When what could be known at `seen_s` is expected to be.

    Looks let things be known from `first_s` and from `again_s` on, and once a `period_s` from there. What comes between
    two is known by the second; on average, by looks that come whenever they like. The less sure it is which look that
    will be, the longer it takes from `first_s` on, the last thing that both times follow.

    Example:
        >>> us = 1e-6
        >>> [round(expected_s(0.0, 10 * us, seen * us, 9 * us) / us, 2) for seen in (1.0, 5.0, 11.0, 4004.0)]
        [1.0, 10.0, 11.01, 4006.92]
    """
    on_average_s = seen_s + (period_s - LOOK_S) ** 2 / (2 * period_s) if period_s > LOOK_S else seen_s
    sure = math.exp(-2 * (math.pi * UNSURE * (seen_s - first_s) / period_s) ** 2)  # of a wave, at times that scatter so
    return on_average_s + sure * (known_at_s(first_s, again_s, seen_s, period_s) - on_average_s)


def known_at_s(first_s: float, again_s: float, seen_s: float, period_s: float) -> float:
    """`expected_s` of times that are sure.

    Example:
        >>> us = 1e-6
        >>> [round(known_at_s(0.0, 10 * us, seen * us, 9 * us) / us, 2) for seen in (1.7, 1.8, 11.7, 11.8, 19.0)]
        [1.7, 10.0, 11.7, 19.0, 19.0]
    """
    looks = math.floor((seen_s - again_s) / period_s + EXACT)
    look_s = again_s + looks * period_s if looks >= 0 else first_s
    if seen_s - look_s <= LOOK_S:
        return max(seen_s, look_s)
    return again_s + (looks + 1) * period_s if looks >= 0 else again_s


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

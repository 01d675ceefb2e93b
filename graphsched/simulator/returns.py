"""The thread's return from waiting: later or sooner, by what it was that ended last.

A GPU's lanes are asked again and again whether they are done. Where a plan leaves the thread no core beside those of
its CPU lanes, it lets one at work run between two questions, and so goes on half of that late on average, or what is
left of the last time where lanes have just ended (`Dispatch.look_s`; on older platforms half of it always, `yield_s`).
The end of a CPU lane's work is an event of its own, for which the thread sleeps (`result_s`) or, with a core of its
own, stays awake (`spun_s`, `Dispatch.awake`). What is over when the thread comes to ask for it, as after a copy that
blocks, takes a question and no wait. A CUDA graph is over on the GPU that it is launched on: what ends last on another
one has an edge to there, and is seen when that GPU looks (`simulator.looks`).

Not modelled: a CPU lane that ends while the thread lets others run for a GPU's sake, which sees it later.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphsched.simulator import looks
from graphsched.simulator.columns import Columns
from graphsched.simulator.lane_costs import CPU

if TYPE_CHECKING:
    from graphsched.simulator.engine import Engine

NOTHING = -1  # all was over before the thread asked


def finished_s(columns: Columns, engine: Engine) -> tuple[float, float]:
    """When all that a run waits for is over, no sooner than the thread waits, and what the thread takes to go on."""
    issued_s, known_s = engine.thread.time, looks.over_s(columns, engine)
    if known_s is None:
        last = last_over(engine.end_s, issued_s)
        over_s = issued_s if last == NOTHING else engine.end_s[last]
        return over_s, return_s(columns, last, given_way_s(columns, engine.end_s, over_s))
    if known_s <= issued_s:
        return issued_s, return_s(columns, NOTHING)
    return known_s, columns.dispatch.sync_s + given_way_s(columns, engine.end_s, known_s)


def return_s(columns: Columns, last: int, given_s: float = 0.0) -> float:
    """From the end of action `last` to the thread's going on, if it waited for that; of `NOTHING`, for a question.

    In distributed mode all ranks wait, and meet then. `given_s`: for how long it then still lets CPU lanes run, see
    `given_way_s`.
    """
    costs = columns.dispatch
    meeting_s = costs.meeting_s if columns.orders else 0.0
    if last == NOTHING:
        return meeting_s + (min(costs.asked_s, costs.sync_s) if costs.asked_s else costs.sync_s)
    if columns.kind[last] == CPU:
        return meeting_s + (costs.result_s or costs.sync_s)
    across_s = costs.graph_other_device_s if columns.lane[last] in columns.far_lanes else 0.0
    return meeting_s + costs.sync_s + given_s + across_s


def given_way_s(columns: Columns, end_s: Sequence[float], over_s: float, before: int | None = None) -> float:
    """For how long the thread lets CPU lanes run, on average, when what it waits for on a GPU is over at `over_s`.

    `end_s`: by action, when it is over; not yet: less than 0. `before`: those from here on have not been handed over.
    """
    costs = columns.dispatch
    if not costs.look_s:
        return costs.yield_s / 2
    return left_s(costs.look_s, _rested_s(columns, end_s, over_s, before))


def left_s(look_s: float, rested_s: float) -> float:
    """What is left, on average, of a time of `look_s` that had begun when lanes came to rest, so long ago.

    Example:
        >>> left_s(2.0, 0.0), left_s(2.0, 1.0), left_s(2.0, 5.0)
        (1.0, 0.25, 0.0)
    """
    return max(0.0, look_s - rested_s) ** 2 / (2 * look_s)


def _rested_s(columns: Columns, end_s: Sequence[float], over_s: float, before: int | None) -> float:
    """For how long no CPU lane has been at work, by the last that each was given; 0 while one is."""
    stop = len(end_s) if before is None else before
    ends = [end_s[actions[k - 1]] for actions in columns.on_cpu if (k := bisect_left(actions, stop))]
    if any(not 0.0 <= end <= over_s for end in ends):
        return 0.0
    return over_s - max(ends, default=-math.inf)


def last_over(end_s: Sequence[float], issued_s: float) -> int:
    """The action that ends last, if that is after `issued_s`, from which on the thread waits; else `NOTHING`.

    Example:
        >>> last_over([1.0, 3.0, 2.0], 2.5), last_over([1.0, 3.0, 2.0], 3.0), last_over([], 0.0)
        (1, -1, -1)
    """
    over_s = max(end_s, default=0.0)
    return end_s.index(over_s) if over_s > issued_s else NOTHING

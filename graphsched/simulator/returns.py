"""The thread's return from waiting: later or sooner, by what it was that ended last.

A GPU's lanes are asked again and again whether they are done; where a plan has CPU lanes too, the thread lets these run
between two questions, and so goes on half of that late on average. The end of a CPU lane's work is an event of its own.
What is over when the thread comes to ask for it, as after a copy that blocks, takes a question and no wait. A CUDA
graph is over on the GPU that it is launched on: what ends last on another one has an edge to there, and is seen when
that GPU looks (`simulator.looks`).

Not modelled: a CPU lane that ends while the thread lets others run for a GPU's sake, which sees it later.
"""

from __future__ import annotations

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
        return issued_s if last == NOTHING else engine.end_s[last], return_s(columns, last)
    waited_s = columns.dispatch.sync_s + columns.dispatch.yield_s / 2
    return max(known_s, issued_s), waited_s if known_s > issued_s else return_s(columns, NOTHING)


def return_s(columns: Columns, last: int) -> float:
    """From the end of action `last` to the thread's going on, if it waited for that; of `NOTHING`, for a question.

    In distributed mode all ranks wait, and meet then.
    """
    costs = columns.dispatch
    meeting_s = costs.meeting_s if columns.orders else 0.0
    if last == NOTHING:
        return meeting_s + (min(costs.asked_s, costs.sync_s) if costs.asked_s else costs.sync_s)
    if columns.kind[last] == CPU:
        return meeting_s + (costs.result_s or costs.sync_s)
    across_s = costs.graph_other_device_s if columns.lane[last] in columns.far_lanes else 0.0
    return meeting_s + costs.sync_s + costs.yield_s / 2 + across_s


def last_over(end_s: Sequence[float], issued_s: float) -> int:
    """The action that ends last, if that is after `issued_s`, from which on the thread waits; else `NOTHING`.

    Example:
        >>> last_over([1.0, 3.0, 2.0], 2.5), last_over([1.0, 3.0, 2.0], 3.0), last_over([], 0.0)
        (1, -1, -1)
    """
    over_s = max(end_s, default=0.0)
    return end_s.index(over_s) if over_s > issued_s else NOTHING

"""CPU lanes that sleep until they are given a task: the longer they have slept, the later they are awake.

A lane sleeps until the thread hands it something. If all that the task reads is there by then, it starts as soon as the
lane is awake, which takes the longer the deeper its core sleeps (`Dispatch.wakes`); if not, the lane waits for the rest
awake, and starts `Dispatch.wake_s` behind it. On a host of an H200 tasks of the former kind started 29 to 67 µs behind
what they hang on, the latter 4 to 19 (docs/readings.md).

Not modelled: the rest before a lane's first task of a run, which is taken to be the time since the beginning of the
run, as in `simulator.rested_lanes`; lanes that sleep until another lane's task is over.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphsched.simulator.columns import Columns
from graphsched.simulator.lane_costs import CPU


def awake_s(columns: Columns, i: int, handed_s: float, caused_s: float, end_s: Sequence[float]) -> float:
    """When action `i` starts on a lane that is idle at `caused_s`.

    Args:
        columns: Of the plan.
        i: The action.
        handed_s: When the thread has issued it.
        caused_s: When all that it hangs on is over, its issue as well.
        end_s: By action.
    """
    start_s = caused_s + columns.lanes.wake_s[columns.lane[i]]
    if columns.kind[i] != CPU or not columns.dispatch.wakes:
        return start_s
    before = columns.previous[i]
    free_s = end_s[before] if before >= 0 else 0.0
    return start_s if free_s > handed_s else max(start_s, handed_s + columns.dispatch.woken_s(handed_s - free_s))

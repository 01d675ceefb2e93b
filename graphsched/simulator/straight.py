"""Actions that hang on nothing unknown: when they are issued and run, in one go.

Most actions of most plans are one launch to a stream where they share nothing, behind actions whose ends are known. For
these `Straight` does what `dispatch.Thread` and `engine.Engine` do for any action, to the last bit, in half the time:
in one loop, since calls for each action would take as long as the rest of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphsched.simulator.columns import ALONE, Columns
from graphsched.simulator.lane_costs import CUDA

if TYPE_CHECKING:
    from graphsched.simulator.dispatch import Thread


def goes_straight(columns: Columns) -> list[bool]:
    """Of each action whether it is of this kind if the ends before it are known."""
    return [
        kind == CUDA and resource == ALONE and not flags
        for kind, resource, flags in zip(columns.kind, columns.resource, columns.flags, strict=True)
    ]


class Straight:
    """Issues and runs actions of a plan as long as they are of this kind."""

    def __init__(self, columns: Columns, thread: Thread, start_s: list[float], end_s: list[float]) -> None:
        """`start_s` and `end_s` are the engine's columns."""
        self._columns, self._thread = columns, thread
        self._start_s, self._end_s = start_s, end_s
        self.takes, self._previous = goes_straight(columns), columns.previous

    def may_run(self, i: int) -> bool:
        """Whether `run` gets beyond action `i`, but for what else it waits for and its launch queue."""
        return self.takes[i] and (self._previous[i] < 0 or self._end_s[self._previous[i]] >= 0.0)

    def run(self, i: int, now: float, *, timed: bool) -> int:
        """Issue and run actions from `i` on; the first that it could not. Ends not known are `now` or later."""
        c, thread, takes = self._columns, self._thread, self.takes
        lane_of, waits, previous = c.lane, c.waits, c.previous
        own_s, before_s, call_s, after_s, work_s = c.own_s, c.before_s, c.call_s, c.after_s, c.work_s
        issue_start_s, issue_end_s, ready_s = thread.issue_start_s, thread.issue_end_s, thread.ready_s
        start_s, end_s, queue_of = self._start_s, self._end_s, thread.queue_of
        switch_s, latency_s, launch_s = c.lanes.switch_s, c.lanes.latency_s, c.dispatch.launch_s
        timed_s, gap_s = (c.dispatch.timed_record_s, c.dispatch.timed_gap_s) if timed else (0.0, 0.0)
        time, stream, first, count = thread.time, thread.stream, i, len(takes)
        cold_s = thread.cold_s
        if thread.waited_s:
            cold_s += c.dispatch.cold_call_s(thread.waited_s, c.row_s[i], thread.slept_s)
        while i < count and takes[i]:
            lane, before = lane_of[i], previous[i]
            free = end_s[before] if before >= 0 else 0.0
            arrived = _arrived_s(waits[i], end_s, latency_s[lane], lane_of) if waits[i] else 0.0
            if free < 0.0 or arrived < 0.0:
                break
            issued = time + own_s[i] + cold_s
            if lane != stream:
                issued += switch_s[lane][stream]
            issued += before_s[i]
            queue = queue_of[lane]
            if queue is not None:  # `admit` and, below, `over`, in their usual cases without a call
                if queue.held < queue.depth:
                    queue.held += 1
                elif queue.held == queue.depth and queue.ends and not queue.unknown:
                    over_s, launches = queue.ends.popleft()
                    queue.held += 1 - launches
                    if over_s > issued:
                        issued = over_s
                else:
                    issued = queue.admit(1, issued, now)
                    if issued < 0.0:
                        break
                    queue.unknown -= 1  # its end is known in a moment
            stream, cold_s, call = lane, 0.0, call_s[i]
            issue_start_s[i] = time
            issued += timed_s
            ready_s[i] = ready = issued + launch_s if timed else issued + launch_s + call
            time = issue_end_s[i] = issued + call + timed_s + after_s[i]
            start = ready if ready > arrived else arrived
            start_s[i] = start = free if free > start else start
            if timed and ready + call > start:
                start = ready + call
            end_s[i] = end = start + work_s[i] + gap_s
            if queue is not None:
                ends = queue.ends
                if ends and end <= ends[-1][0]:
                    queue.unknown += 1
                    queue.over(1, end)
                else:
                    ends.append((end, 1))
            i += 1
        thread.time, thread.stream = time, stream
        if i > first:
            thread.cold_s = thread.waited_s = thread.slept_s = 0.0
        return i


def _arrived_s(
    waits: Sequence[int], end_s: Sequence[float], latency_s: Sequence[float], lane_of: Sequence[int]
) -> float:
    """When the last of these ends is known on a lane; negative: one of them is not known yet."""
    arrived = 0.0
    for j in waits:
        end = end_s[j]
        if end < 0.0:
            return -1.0
        end += latency_s[lane_of[j]]
        if end > arrived:
            arrived = end
    return arrived

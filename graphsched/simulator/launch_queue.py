"""Launches that a device has been given and that are not over: it holds so many, and the thread waits for room.

Not modelled: a task of several launches that is larger than what is left of the queue (it waits until all of it fits,
or the queue is empty).
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, deque

from graphsched.simulator.columns import Columns
from graphsched.simulator.lane_costs import CUDA

UNKNOWN = -1.0  # the end of an action that has not been found yet


class LaunchQueue:
    """Launches that a device has been given and that are not over.

    Attributes:
        depth: How many it holds.
        held: Launches in it, those that ended before the thread's time perhaps included.
        unknown: Actions in it whose end is not known.
        ends: Ends that are, each with its launches, ascending.
    """

    __slots__ = ("depth", "ends", "held", "unknown")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.held = 0
        self.unknown = 0
        self.ends: deque[tuple[float, int]] = deque()  # most come in this order

    def admit(self, launches: int, at: float, now: float) -> float:
        """Time, `at` or later, when so many launches fit in.

        `UNKNOWN` if that hangs on ends that are not known; these are `now` or later.
        """
        held = self.held + launches
        if held > self.depth:
            ends = self.ends
            while held > self.depth and held > launches:
                if not ends or (self.unknown and ends[0][0] > max(at, now)):
                    self.held = held - launches
                    return UNKNOWN
                end, over = ends.popleft()
                held -= over
                if end > at:
                    at = end
        self.held = held
        self.unknown += 1
        return at

    def over(self, launches: int, end: float) -> None:
        """An action's launches are over at `end`."""
        self.unknown -= 1
        ends, entry = self.ends, (end, launches)
        if ends and end <= ends[-1][0] and entry < ends[-1]:
            insort(ends, entry)
        else:
            ends.append(entry)

    def next_end_s(self, now: float) -> float:
        """First end in the queue that can make room, as known at `now`; `UNKNOWN` if none is."""
        if not self.ends or self.ends[0][0] <= now:
            return UNKNOWN
        return self.ends[0][0]

    def moves(self, now: float) -> bool:
        """Whether `admit` may succeed where it did not before."""
        return bool(self.ends) and (not self.unknown or self.ends[0][0] <= now)


def launch_queues(columns: Columns) -> list[LaunchQueue | None]:
    """The launch queue of each lane's device, where the plan has more launches than it holds."""
    depth, queue_of = columns.queue_depth, columns.lanes.queue
    if depth is None:
        return [None] * len(queue_of)
    total = [0] * columns.lanes.queues
    for lane, actions in Counter(columns.lane).items():
        if queue_of[lane] >= 0:
            total[queue_of[lane]] += actions
    for i in [i for i, launches in enumerate(columns.launches) if launches > 1]:
        if columns.kind[i] == CUDA:
            total[queue_of[columns.lane[i]]] += columns.launches[i] - 1
    queues = [LaunchQueue(depth) if launches > depth else None for launches in total]
    return [queues[k] if k >= 0 else None for k in queue_of]

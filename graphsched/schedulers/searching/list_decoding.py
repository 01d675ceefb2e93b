"""From priorities to starts on identical processors: two ways to make a list schedule."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush

from graphsched.schedulers.searching.identical import Identical

Decoder = Callable[[Identical, Sequence[float]], list[float]]
"""Starts in seconds, of tasks with these keys; the least key goes first."""


def by_time(tasks: Identical, keys: Sequence[float]) -> list[float]:
    """Starts in seconds: whenever a processor is free it takes the task of the least key that is ready.

    No processor is idle while a task is ready.

    Source: R. L. Graham: Bounds on multiprocessing timing anomalies. SIAM J. Applied Mathematics 17 (2), 1969.
    """
    seconds, after = tasks.seconds, tasks.after
    order, rank = _ranked(keys)
    missing = [len(before) for before in tasks.before]
    ready = [rank[i] for i, count in enumerate(missing) if not count]
    heapify(ready)
    running: list[tuple[float, int]] = []
    free, now, start_s = len(tasks.lanes), 0.0, [0.0] * len(tasks)
    while ready or running:
        while ready and free:
            i = order[heappop(ready)]
            start_s[i] = now
            heappush(running, (now + seconds[i], i))
            free -= 1
        now = running[0][0]
        while running and running[0][0] == now:
            _, i = heappop(running)
            free += 1
            for j in after[i]:
                missing[j] -= 1
                if not missing[j]:
                    heappush(ready, rank[j])
    return start_s


def by_task(tasks: Identical, keys: Sequence[float]) -> list[float]:
    """Starts in seconds: one task after another, in the order of keys, goes where it is first possible, gaps included.

    With the starts of a schedule as keys no task starts later than there. A processor may be idle while a task is
    ready, which the best schedule may need.

    Source: R. Kolisch: Serial and parallel resource-constrained project scheduling methods revisited. European J. of
    Operational Research 90 (2), 1996.
    """
    order, rank = _ranked(keys)
    missing = [len(before) for before in tasks.before]
    ready = [rank[i] for i, count in enumerate(missing) if not count]
    heapify(ready)
    profile = _Profile(len(tasks.lanes))
    start_s, end_s = [0.0] * len(tasks), [0.0] * len(tasks)
    while ready:
        i = order[heappop(ready)]
        earliest = max((end_s[j] for j in tasks.before[i]), default=0.0)
        start_s[i] = profile.take(earliest, tasks.seconds[i])
        end_s[i] = start_s[i] + tasks.seconds[i]
        for j in tasks.after[i]:
            missing[j] -= 1
            if not missing[j]:
                heappush(ready, rank[j])
    return start_s


def _ranked(keys: Sequence[float]) -> tuple[list[int], list[int]]:
    """Numbers in the order of `keys`, and the place of each there."""
    order = sorted(range(len(keys)), key=keys.__getitem__)
    rank = [0] * len(order)
    for place, i in enumerate(order):
        rank[i] = place
    return order, rank


class _Profile:
    """How many processors are busy from each moment to the next; the last interval never ends."""

    def __init__(self, processors: int) -> None:
        self._processors = processors
        self._moments = [0.0]
        self._busy = [0]

    def take(self, earliest: float, seconds: float) -> float:
        """Occupy a processor for `seconds` as soon as one is free for so long; when that is.

        What takes no time fits between two tasks of a processor.
        """
        moments, busy, full = self._moments, self._busy, self._processors
        first = bisect_right(moments, earliest) - 1
        start = earliest
        if not seconds:
            return start if busy[first] < full or moments[first] == start else moments[first + 1]
        last = first
        while last < len(moments) and (last == first or moments[last] < start + seconds):
            if busy[last] >= full:
                first = last + 1
                start = moments[first]
            last += 1
        first = self._split(first, start)
        for k in range(first, self._split(bisect_right(moments, start + seconds) - 1, start + seconds)):
            busy[k] += 1
        return start

    def _split(self, k: int, moment: float) -> int:
        """Number of the interval that begins at `moment`, which lies in interval `k`."""
        if self._moments[k] == moment:
            return k
        self._moments.insert(k + 1, moment)
        self._busy.insert(k + 1, self._busy[k])
        return k + 1

"""What a placement takes, in numbers and at once: lanes in order, one transfer a lane at a time.

A copy engine that serves several lanes makes one copy at a time, as soon as it has time for it.

Not modelled: dispatch; lanes that share a device; copies on different lanes that share a capacity; engines that make
several copies at a time; pageable copies that block the thread; the way of the CPU's results into pinned memory. The
simulator knows all of these; this clock is for trying thousands of placements.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

from graphsched.schedulers.searching.instance import Instance, Need

FREE = -1
"""Place of a task that goes where it is over first."""


class FastClock:
    """One run through a dispatch order; starts and ends in seconds by task number.

    Tasks whose place is `FREE` get one: where they are over first, of equals the first.

    Args:
        tasks: The problem.
        order: All tasks in dispatch order, which is topological.
        place: Of each task; filled in where it is `FREE`. Tasks that give a state its home need a place.
    """

    def __init__(self, tasks: Instance, order: Sequence[int], place: list[int]) -> None:
        self.start_s = [0.0] * len(tasks)
        self.end_s = [0.0] * len(tasks)
        self.place = place
        self._tasks = tasks
        self._idle_s = [0.0] * len(tasks.lanes)
        self._queue_s: dict[int, float] = {}
        self._there_s: dict[tuple[int, int], float] = {}  # when (key, device) has been copied
        self._copied_s: dict[int, float] = {}  # root -> end of the last copy of its present version
        self._thread_s = 0.0
        self._engines: dict[int, Busy] = {}
        steps = {"run": self._run, "copy": self._copy, "barrier": self._wait}
        for i in order:
            steps[tasks.kinds[i]](i)

    @property
    def makespan_s(self) -> float:
        """End of the last task; infinite where a value has no link to a task that needs it."""
        return max(self.end_s, default=0.0)

    def _run(self, i: int) -> None:
        place = self.place[i]
        if place == FREE:
            place = self.place[i] = self._best_place(i)
        device = self._tasks.device_of[place]
        ready = self._arrived_s(i, device)
        for root in self._tasks.updates[i]:
            ready = max(ready, self._copied_s.pop(root, 0.0))
        start = max(ready, self._idle_s[place])
        self.start_s[i] = start
        self.end_s[i] = self._idle_s[place] = start + self._tasks.seconds[i][place]

    def _wait(self, i: int) -> None:
        self._thread_s = max([self._thread_s, *self._idle_s, *self._queue_s.values()])
        self.start_s[i] = self.end_s[i] = self._thread_s

    def _copy(self, i: int) -> None:
        need, target = self._tasks.needs[i][0], self._tasks.targets[i]
        home = self._home(need)
        lane = self._compute_lane(need, home, target) if self._tasks.copies == "compute" else FREE
        seconds = need.rows[home][target]
        ready = max(self._thread_s, self.end_s[need.source] if need.source >= 0 else 0.0)
        if lane != FREE:
            self.start_s[i] = max(ready, self._idle_s[lane])
            self.end_s[i] = self._idle_s[lane] = self.start_s[i] + seconds
        else:
            self.start_s[i], self.end_s[i] = self._moved_s(home, target, ready, seconds)
        self._copied_s[need.root] = max(self._copied_s.get(need.root, 0.0), self.end_s[i])

    def _compute_lane(self, need: Need, home: int, target: int) -> int:
        """The compute lane of a copy that stays on that of its producer; `FREE` where that is on another device."""
        place = self.place[need.source] if need.source >= 0 and self._tasks.kinds[need.source] == "run" else FREE
        device = home if self._tasks.devices[home] != "cpu" else target
        return place if place != FREE and self._tasks.device_of[place] == device else FREE

    # -- when a task can start ---------------------------------------------------------------------

    def _home(self, need: Need) -> int:
        like = need.home.like
        return need.home.device if like < 0 else self._tasks.device_of[self.place[like]]

    def _ordered_s(self, i: int, device: int) -> float:
        """When all are over that task `i` follows without reading from them."""
        latest = self._thread_s
        for j, unless_elsewhere in self._tasks.follows[i]:
            if self.end_s[j] > latest and not (unless_elsewhere and self._tasks.device_of[self.place[j]] != device):
                latest = self.end_s[j]
        return latest

    def _arrived_s(self, i: int, device: int) -> float:
        """When task `i` can start on `device`: what it needs from elsewhere is copied there, once."""
        latest = self._ordered_s(i, device)
        for need in self._tasks.needs[i]:
            home = self._home(need)
            if home == device:
                end = self.end_s[need.source] if need.source >= 0 else 0.0
            else:
                end = self._there_s.get((need.key, device), -1.0)
                if end < 0.0:
                    end = self._sent_s(need, home, device)
            if end > latest:
                latest = end
        return latest

    def _sent_s(self, need: Need, home: int, device: int) -> float:
        written = max(self._thread_s, self.end_s[need.source] if need.source >= 0 else 0.0)
        _, end = self._moved_s(home, device, written, need.rows[home][device])
        self._there_s[need.key, device] = end
        self._copied_s[need.root] = max(self._copied_s.get(need.root, 0.0), end)
        return end

    def _moved_s(self, home: int, device: int, ready: float, seconds: float) -> tuple[float, float]:
        """Start and end of a copy that can begin at `ready`: behind others of its lane, when its engine has time."""
        queue, engine = self._tasks.copy_lanes[home][device], self._tasks.engines[home][device]
        start = max(ready, self._queue_s.get(queue, 0.0))
        if engine >= 0 and seconds < math.inf:
            busy = self._engines.setdefault(engine, Busy())
            start = busy.first_s(start, seconds)
            busy.take(start, seconds)
        end = self._queue_s[queue] = start + seconds
        return start, end

    # -- where a task is over first ----------------------------------------------------------------

    def _best_place(self, i: int) -> int:
        tasks = self._tasks
        best, best_end = tasks.choices[i][0], math.inf
        ready: dict[int, float] = {}
        for place in tasks.choices[i]:
            device = tasks.device_of[place]
            if device not in ready:
                ready[device] = self._could_arrive_s(i, device)
            end = max(ready[device], self._idle_s[place]) + tasks.seconds[i][place]
            if end < best_end:
                best, best_end = place, end
        return best

    def _could_arrive_s(self, i: int, device: int) -> float:
        """As `_arrived_s`, with no copy made."""
        latest = self._ordered_s(i, device)
        queued: dict[int, float] = {}
        for need in self._tasks.needs[i]:
            home = self._home(need)
            end = self.end_s[need.source] if need.source >= 0 else 0.0
            if home != device:
                known = self._there_s.get((need.key, device))
                if known is None:
                    queue = self._tasks.copy_lanes[home][device]
                    begin = max(end, self._thread_s, queued.get(queue, self._queue_s.get(queue, 0.0)))
                    seconds, engine = need.rows[home][device], self._tasks.engines[home][device]
                    if engine in self._engines:
                        begin = self._engines[engine].first_s(begin, seconds)
                    known = queued[queue] = begin + seconds
                end = known
            latest = max(latest, end)
        return latest


class Busy:
    """Intervals in which an engine is busy, in seconds, ascending.

    Example:
        >>> engine = Busy()
        >>> engine.take(2.0, 3.0)
        >>> engine.first_s(0.0, 2.0), engine.first_s(0.0, 2.5)
        (0.0, 5.0)
    """

    def __init__(self) -> None:
        self._begins: list[float] = []
        self._ends: list[float] = []

    def first_s(self, ready: float, seconds: float) -> float:
        """When it first has time for `seconds`, at `ready` or later."""
        start = ready
        for k in range(bisect_right(self._ends, ready), len(self._ends)):
            if start + seconds <= self._begins[k]:
                break
            start = max(start, self._ends[k])
        return start

    def take(self, start: float, seconds: float) -> None:
        """Occupy an interval that is free."""
        if seconds:
            k = bisect_right(self._begins, start)
            self._begins.insert(k, start)
            self._ends.insert(k, start + seconds)

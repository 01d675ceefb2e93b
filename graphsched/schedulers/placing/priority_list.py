"""Tasks placed by priorities that never change, on lanes that are alike: what `ready_list` does, in less time."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np

from graphsched.schedulers.placing.timetable import Timetable


def place_by_priority(table: Timetable, priorities: Sequence[float], same: float) -> None:
    """Place all tasks of a timetable: of those that can start first that of highest priority, where it is over first.

    Where all lanes are alike and nothing is copied (`find_identical`) a task that can start first once can do so until
    it is placed, as no start lies before an earlier one. So tasks wait in heaps, and no step looks at all of them.

    Args:
        table: An empty timetable.
        priorities: Of the tasks, in the order of the workload; no two are equal.
        same: Starts up to so many times the least are equal.
    """
    devices = list(table.counts)
    idle_s = np.zeros(len(devices))
    waiting = _Waiting(table)
    while waiting.left:
        number = waiting.take(float(idle_s.min()), priorities, same)
        ready_s, task = waiting.ready_s[number], waiting.tasks[number]
        seconds = table.seconds(task, devices[0])
        column = int((np.maximum(ready_s, idle_s) + seconds).argmin())
        table.append(task, devices[column])
        idle_s[column] = table.idle_s(devices[column])
        waiting.release(task.name)


class _Waiting:
    """Tasks that have no place: those that are ready, by when, and those that can start first, by priority."""

    def __init__(self, table: Timetable) -> None:
        self._table = table
        self.tasks = table.work.tasks
        self._number = {task.name: i for i, task in enumerate(self.tasks)}
        self._missing = [table.work.graph.in_degree(name) for name in self._number]
        self._by_time: list[tuple[float, int]] = []  # all that are ready, and some that are placed
        self._later: list[tuple[float, int]] = []  # those that could not start first so far
        self._first: list[tuple[float, int]] = []  # those that can, highest priority first
        self._is_placed = [False] * len(self._number)
        self.ready_s = [0.0] * len(self._number)
        self.left = len(self._number)
        for number, missing in enumerate(self._missing):
            if not missing:
                self._add(number)

    def take(self, idle_s: float, priorities: Sequence[float], same: float) -> int:
        """The number of the task to be placed next, where a lane is idle from `idle_s` on."""
        while self._is_placed[self._by_time[0][1]]:
            heappop(self._by_time)
        least_s = max(idle_s, self._by_time[0][0])
        while self._later and self._later[0][0] <= least_s * same:
            _, number = heappop(self._later)
            heappush(self._first, (-priorities[number], number))
        _, number = heappop(self._first)
        self._is_placed[number] = True
        self.left -= 1
        return number

    def release(self, name: str) -> None:
        """A task is placed: what waited for it alone is ready."""
        for after in self._table.work.graph.succ[name]:
            number = self._number[after]
            self._missing[number] -= 1
            if not self._missing[number]:
                self._add(number)

    def _add(self, number: int) -> None:
        task = self.tasks[number]
        self.ready_s[number] = self._table.ready_s(task, self._table.devices(task)[0])
        heappush(self._by_time, (self.ready_s[number], number))
        heappush(self._later, (self.ready_s[number], number))

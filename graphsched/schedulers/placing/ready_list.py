"""Schedulers that choose, again and again, a task and a device among all tasks that are ready."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphsched.schedulers.placing.timetable import Timetable
from graphsched.workload import Task

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Ready:
    """Tasks whose predecessors all have their place, in the order of the workload, and what each device offers them.

    Attributes:
        tasks: Numbers of these tasks in the workload.
        start_s: When each could start on each device behind all that is there (tasks × devices): infinite where it may
            not run.
        seconds: How long each takes there.
    """

    tasks: NDArray[np.intp]
    start_s: Floats
    seconds: Floats


LOOKS = 4  # tasks looked at again before one is placed

Choose = Callable[[Ready], tuple[int, int]]
"""Chooses by place in `Ready.tasks`, and number of the device."""


def place_ready(table: Timetable, choose: Choose) -> None:
    """Place all tasks of a timetable, each behind the others of its lane, where and when `choose` says.

    Copies and barriers take their place as soon as all before them have theirs. When values can be on each device is
    found out when a task becomes ready, and again when it is chosen: where other copies have come between, `choose` is
    asked anew, about `LOOKS` tasks at most, and then about these alone.

    Raises:
        PlatformError: No link brings a task's values to a device where it may run.
    """
    open_tasks = _Open(table)
    while open_tasks.any():
        open_tasks.place(*_chosen(open_tasks, choose))


def _chosen(open_tasks: _Open, choose: Choose) -> tuple[int, int]:
    """Numbers of the next task and its device."""
    looked: list[int] = []
    while True:
        ready = open_tasks.ready(looked if len(looked) == LOOKS else None)
        row, column = choose(ready)
        number = int(ready.tasks[row])
        if number in looked or open_tasks.is_current(number):
            return number, column
        looked.append(number)


class _Open:
    """Tasks that are ready, as rows of numbers."""

    def __init__(self, table: Timetable) -> None:
        self._table = table
        self._tasks = table.work.tasks
        self._number = {task.name: i for i, task in enumerate(self._tasks)}
        self._devices = list(table.counts)
        shape = (len(self._tasks), len(self._devices))
        self._ready_s, self._seconds = np.full(shape, math.inf), np.zeros(shape)
        self._idle_s = np.zeros(len(self._devices))
        self._is_ready = np.zeros(len(self._tasks), dtype=bool)
        self._missing = [table.work.graph.in_degree(task.name) for task in self._tasks]
        first = [number for number, missing in enumerate(self._missing) if not missing]
        self._release(*(task for number in first for task in self._begun(number)))

    def any(self) -> bool:
        """Whether tasks are left."""
        return bool(self._is_ready.any())

    def ready(self, of: Sequence[int] | None = None) -> Ready:
        """The tasks that are ready, or some `of` them."""
        tasks = np.flatnonzero(self._is_ready) if of is None else np.array(sorted(of))
        return Ready(tasks, np.maximum(self._ready_s[tasks], self._idle_s), self._seconds[tasks])

    def is_current(self, number: int) -> bool:
        """Whether a task can still start on each device when its row says; if not, the row is mended."""
        known = np.maximum(self._ready_s[number], self._idle_s)
        self._look(number)
        return bool((known == np.maximum(self._ready_s[number], self._idle_s)).all())

    def place(self, number: int, column: int) -> None:
        """Place a task, and what becomes ready by it."""
        task, device = self._tasks[number], self._devices[column]
        if math.isinf(self._ready_s[number, column]):
            device = self._table.devices(task)[0]  # no device can have its values: placing it says why
        self._table.append(task, device)
        self._is_ready[number] = False
        self._idle_s[column] = self._table.idle_s(device)
        self._release(task)

    def _release(self, *over: Task) -> None:
        """Tasks have their place: what waited for them alone is ready; copies and barriers take theirs."""
        placed = deque(over)
        while placed:
            for after in self._table.work.graph.succ[placed.popleft().name]:
                number = self._number[after]
                self._missing[number] -= 1
                if not self._missing[number]:
                    placed.extend(self._begun(number))

    def _begun(self, number: int) -> list[Task]:
        """A task is ready; itself, if it takes its place by itself."""
        task = self._tasks[number]
        if task.kind != "run":
            self._table.pass_by(task)
            return [task]
        self._is_ready[number] = True
        for column, device in self._columns(task):
            self._seconds[number, column] = self._table.seconds(task, device)
        self._look(number)
        return []

    def _look(self, number: int) -> None:
        """When a task can have all its values on each device, as things are."""
        self._ready_s[number] = math.inf
        for column, device in self._columns(self._tasks[number]):
            self._ready_s[number, column] = self._table.ready_s(self._tasks[number], device)

    def _columns(self, task: Task) -> Iterator[tuple[int, str]]:
        allowed = self._table.devices(task)
        return ((k, device) for k, device in enumerate(self._devices) if device in allowed)

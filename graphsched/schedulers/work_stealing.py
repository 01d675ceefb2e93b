"""What a run time that steals work would do, simulated: a deque of ready tasks for each lane."""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from itertools import cycle

from graphsched.costs import Costs
from graphsched.plan import Placement
from graphsched.platform import Platform
from graphsched.schedulers.placing.candidates import Devices, spread_over
from graphsched.schedulers.placing.lanes import Copies
from graphsched.schedulers.placing.timetable import Timetable
from graphsched.schedulers.registry import register
from graphsched.workload import Task, Workload

Worker = tuple[str, int]
"""A device and the number of its lane."""
NOBODY: Worker = ("", -1)
"""Whose the copies and barriers are where there is nothing else."""


@register("work_stealing")
def work_stealing(
    work: Workload,
    platform: Platform,
    costs: Costs,
    *,
    seed: int = 0,
    lanes: int = 1,
    copies: Copies = "own",
    contention: bool = True,
) -> Placement:
    """Each lane takes the newest task of its own deque; one that has none steals the oldest of another, at random.

    A task that becomes ready goes to the deque of the lane that made it ready; the first ones are dealt out in turn. It
    decides as a run time does, when a lane is idle, and knows neither times nor transfers beforehand: a yardstick for
    those that do. Tasks go to accelerators, unless their constraint names the cpu or there is nothing else.

    Args:
        work: What to run.
        platform: What to run it on.
        costs: Costs of its tasks.
        seed: Of the choice of the lane that is stolen from.
        lanes: Compute lanes on each device.
        copies: Lanes of the copies that the workload asks for.
        contention: Whether copies queue for lanes, engines and shared capacities.

    Source: R. Blumofe, C. Leiserson: Scheduling multithreaded computations by work stealing. J. ACM 46 (5), 1999.

    Not modelled: dispatch; lanes that share a device; what a theft costs but for the copies that it causes.

    Raises:
        ScheduleError: More lanes than a device may have.
        PlatformError: No link brings a task's values to a device where it may run.
    """
    table = Timetable(work, platform, costs, lanes=lanes, copies=copies, contention=contention)
    _Pool(table, seed).run()
    return table.placement()


class _Pool:
    """Lanes with their deques, and what happens when."""

    def __init__(self, table: Timetable, seed: int) -> None:
        self._table = table
        self._random = random.Random(seed)
        self._workers: list[Worker] = [(d, k) for d, n in table.counts.items() for k in range(n)]
        self._deques: dict[Worker, deque[Task]] = {worker: deque() for worker in self._workers}
        self._idle = dict.fromkeys(self._workers)
        self._missing = dict(table.work.graph.in_degree())
        self._ends: list[tuple[float, int, Task, Worker]] = []
        self._wanted, self._fixed = self._devices()

    def _devices(self) -> tuple[frozenset[str], dict[str, Devices]]:
        """Devices that some task may go to; those of each task, but of tasks whose state has its home yet to find."""
        candidates, platform = self._table.candidates, self._table.platform
        runs = {task.name: task for task in self._table.work.tasks if task.kind == "run"}
        fixed = {
            name: spread_over(task, candidates.devices[name], platform)
            for name, task in runs.items()
            if name not in candidates.group_of
        }
        return frozenset(d for name in runs for d in fixed.get(name, candidates.devices[name])), fixed

    def run(self) -> None:
        """Place all tasks."""
        first = [task for task in self._table.work.tasks if not self._missing[task.name]]
        for task, worker in zip(first, cycle(self._workers or [NOBODY]), strict=False):
            self._ready(task, worker)
        self._begin()
        while self._ends:
            now, _, task, worker = heapq.heappop(self._ends)
            self._over(task, worker)
            while self._ends and self._ends[0][0] == now:
                self._over(*heapq.heappop(self._ends)[2:])
            self._begin()
        for task in (task for tasks in self._deques.values() for task in tasks):
            self._table.place_best(task)  # no lane can have its values: placing it says why

    def _ready(self, task: Task, worker: Worker) -> None:
        """All before `task` is over: it goes to the deque of `worker`; a copy or a barrier begins by itself."""
        if task.kind == "run":
            self._deques[worker].append(task)
        else:
            self._table.pass_by(task)
            self._ends_at(task, worker)

    def _over(self, task: Task, worker: Worker) -> None:
        if task.kind == "run":
            self._idle[worker] = None
        for name in self._table.work.graph.succ[task.name]:
            self._missing[name] -= 1
            if not self._missing[name]:
                self._ready(self._table.work[name], worker)

    def _begin(self) -> None:
        """Each idle lane takes a task, if there is one for it."""
        for worker in [worker for worker in self._workers if worker in self._idle]:
            task = self._own(worker) or self._stolen(worker)
            if task is not None:
                del self._idle[worker]
                self._table.append(task, *worker)
                self._ends_at(task, worker)

    def _own(self, worker: Worker) -> Task | None:
        mine = self._deques[worker]
        return self._taken(mine, worker, range(len(mine) - 1, -1, -1))

    def _stolen(self, worker: Worker) -> Task | None:
        victims = [other for other in self._workers if other != worker and self._deques[other]]
        self._random.shuffle(victims)
        for victim in victims:
            task = self._taken(self._deques[victim], worker, range(len(self._deques[victim])))
            if task is not None:
                return task
        return None

    def _taken(self, tasks: deque[Task], worker: Worker, places: range) -> Task | None:
        """The first task at these places that may run on the worker's device, and whose values can be there."""
        device = worker[0]
        if device not in self._wanted:
            return None
        for i in places:
            task = tasks[i]
            if device in self._where(task) and self._table.ready_s(task, device) < math.inf:
                del tasks[i]
                return task
        return None

    def _where(self, task: Task) -> Devices:
        """Where `task` may go now."""
        fixed = self._fixed.get(task.name)
        return spread_over(task, self._table.devices(task), self._table.platform) if fixed is None else fixed

    def _ends_at(self, task: Task, worker: Worker) -> None:
        heapq.heappush(self._ends, (self._table.end_s[task.name], len(self._table.end_s), task, worker))

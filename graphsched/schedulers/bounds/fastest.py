"""What tasks take at least, whatever device a plan puts them on."""

from __future__ import annotations

from collections.abc import Mapping

from graphsched.costs import Costs, TaskCost
from graphsched.estimates import task_cost
from graphsched.platform import Platform
from graphsched.schedulers.bounds.gpu_share import RESOURCES, Company, Parts
from graphsched.schedulers.placing.candidates import Devices
from graphsched.schedulers.placing.durations import costs_in
from graphsched.workload import Task, Workload


def processors(platform: Platform, name: str) -> int:
    """How many tasks a device does at once with no loss: a GPU is one processor, each lane of the others one."""
    device = platform.device(name)
    return 1 if device.kind == "cuda" else device.lanes


def least_s(cost: TaskCost, mode: str) -> float:
    """Least seconds of an operation alone on a GPU: in a CUDA graph with the memory and the caches that suit it best.

    Example:
        >>> from graphsched.costs import CacheStates
        >>> cost = TaskCost(8.0, graph_s=5.0, graph_memory=((100, 5.0), (300, 6.0)), cache=CacheStates(-1.0, 2.0))
        >>> least_s(cost.in_graph(), "graph"), least_s(cost, "eager")
        (4.0, 8.0)
    """
    if mode != "graph":
        return cost.device_s
    shorter_s = 0.0 if cost.cache is None else min(0.0, cost.cache.written_s)
    return max(0.0, min([cost.device_s, *(seconds for _, seconds in cost.graph_memory)]) + shorter_s)


class Fastest:
    """Least seconds of the tasks of a workload over devices; each distinct operation or duration is looked up once.

    Args:
        work: Whose tasks.
        platform: Where they may run.
        costs: Of their operations; default those of the platform.
        mode: How a plan is meant to run.
    """

    def __init__(self, work: Workload, platform: Platform, costs: Costs | None, mode: str) -> None:
        self._platform = platform
        self._mode = mode
        self._costs = costs_in(mode, platform.costs if costs is None else costs)
        self._company = Company(self._costs, (task.signature for task in work.tasks if task.kind == "run"))
        self._measured = {key[0] for key in (*self._costs, *self._costs.pairs)}
        self._known: dict[tuple[object, Devices], tuple[float, Parts]] = {}
        self._first: dict[Devices, Devices] = {}

    def alone_s(self, task: Task, devices: Devices) -> float:
        """Least seconds of `task` alone."""
        return self._least(task, devices)[0]

    def shares_s(self, task: Task, devices: Devices) -> Parts:
        """Least seconds of each resource of a whole device (of one CPU or worker lane) that `task` takes up."""
        return self._least(task, devices)[1]

    def _least(self, task: Task, devices: Devices) -> tuple[float, Parts]:
        key = (self._kind(task), devices)
        if key not in self._known:
            self._known[key] = self._look_up(task, devices)
        return self._known[key]

    def _kind(self, task: Task) -> object:
        """What is equal for tasks that take the same everywhere."""
        if task.duration_s is None:
            return task.signature or task
        plain = isinstance(task.duration_s, (int, float)) and task.signature not in self._measured
        return task.duration_s if plain else task

    def _look_up(self, task: Task, devices: Devices) -> tuple[float, Parts]:
        unlike = devices if isinstance(task.duration_s, Mapping) else self._unlike(devices)
        found = [(d, task_cost(task, self._platform.device(d), self._costs)) for d in unlike]
        seconds = [self._seconds(*one) for one in found]
        alone = min(seconds)
        rows = [[s * part for part in self._parts(task, *one)] for s, one in zip(seconds, found, strict=True)]
        return alone, tuple(map(min, zip(*rows, strict=True)))

    def _seconds(self, device: str, cost: TaskCost) -> float:
        if self._platform.device(device).kind == "cuda":
            return least_s(cost, self._mode)
        yardsticks = self._platform.dispatch.product_s, self._platform.dispatch.sweep_s
        cost = cost.among(0.0)
        return min([cost.on_lane_at(*yardsticks), *(seconds for _, seconds in cost.rests_at(*yardsticks))])

    def _unlike(self, devices: Devices) -> Devices:
        """One device of each kind that costs tell apart."""
        if devices not in self._first:
            kinds: dict[tuple[object, ...], str] = {}
            for device in map(self._platform.device, devices):
                kinds.setdefault((device.kind, device.model, device.flop_per_s, device.bytes_per_s), device.name)
            self._first[devices] = tuple(kinds.values())
        return self._first[devices]

    def _parts(self, task: Task, device: str, cost: TaskCost) -> Parts:
        where = self._platform.device(device)
        if where.kind != "cuda":
            return (1.0,) * RESOURCES
        return self._company.parts(task.signature, where.model, cost, where.lanes)

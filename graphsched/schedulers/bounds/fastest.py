"""What tasks take at least, whatever device a plan puts them on."""

from __future__ import annotations

from collections.abc import Mapping

from graphsched.costs import Costs, TaskCost
from graphsched.estimates import task_cost
from graphsched.platform import Platform
from graphsched.schedulers.placing.candidates import Devices
from graphsched.schedulers.placing.durations import costs_in
from graphsched.workload import Task


def processors(platform: Platform, name: str) -> int:
    """How many tasks a device does at once with no loss: a GPU is one processor, each lane of the others one."""
    device = platform.device(name)
    return 1 if device.kind == "cuda" else device.lanes


class Fastest:
    """Least seconds of tasks over devices; each distinct operation is looked up once.

    Args:
        platform: Where they may run.
        costs: Of their operations; default those of the platform.
        mode: How a plan is meant to run.
    """

    def __init__(self, platform: Platform, costs: Costs | None, mode: str) -> None:
        self._platform = platform
        self._costs = costs_in(mode, platform.costs if costs is None else costs)
        self._known: dict[tuple[str, Devices], tuple[float, float]] = {}
        self._first: dict[Devices, Devices] = {}

    def alone_s(self, task: Task, devices: Devices) -> float:
        """Least seconds of `task` alone."""
        return self._least(task, devices)[0]

    def share_s(self, task: Task, devices: Devices) -> float:
        """Least seconds of a whole device (of one CPU or worker lane) that `task` takes up."""
        return self._least(task, devices)[1]

    def _least(self, task: Task, devices: Devices) -> tuple[float, float]:
        key = (task.signature, devices)
        known = self._known.get(key) if task.duration_s is None and task.signature else None
        if known is not None:
            return known
        unlike = devices if isinstance(task.duration_s, Mapping) else self._unlike(devices)
        found = [(d, task_cost(task, self._platform.device(d), self._costs)) for d in unlike]
        alone = min(cost.device_s for _, cost in found)
        share = min(cost.device_s * self._share(d, cost) for d, cost in found)
        self._known[key] = (alone, share)
        return alone, share

    def _unlike(self, devices: Devices) -> Devices:
        """One device of each kind that costs tell apart."""
        if devices not in self._first:
            kinds: dict[tuple[object, ...], str] = {}
            for device in map(self._platform.device, devices):
                kinds.setdefault((device.kind, device.model, device.flop_per_s, device.bytes_per_s), device.name)
            self._first[devices] = tuple(kinds.values())
        return self._first[devices]

    def _share(self, device: str, cost: TaskCost) -> float:
        if self._platform.device(device).kind != "cuda":
            return 1.0
        return min([1.0, *(slowdown / k for k, slowdown in cost.concurrency if k > 0)])

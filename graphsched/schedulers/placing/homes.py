"""Where values live and tasks may still run, while a scheduler places tasks one by one."""

from __future__ import annotations

from graphsched.plan import lies_pageable, made_by_task
from graphsched.schedulers.placing.candidates import Candidates, Devices
from graphsched.schedulers.placing.durations import HostMemory
from graphsched.workload import Task, Value, Workload


class Homes:
    """Homes of values so far; what a task's device decides is remembered, and can be forgotten again.

    Example:
        >>> from graphsched.platform import Device, Platform
        >>> from graphsched.schedulers.placing.candidates import find_candidates
        >>> from graphsched.workload import TensorSpec
        >>> work = Workload()
        >>> w = work.state("w", TensorSpec((4,)))
        >>> step = work.task(print, w, name="step", updates=w, outputs=[])
        >>> two = Platform("two", (Device("cuda:0", "cuda"), Device("cuda:1", "cuda")))
        >>> homes = Homes(work, find_candidates(work, two))
        >>> homes.devices(work["step"]), homes.of(w)
        (('cuda:0', 'cuda:1'), None)
        >>> undo = homes.settle(work["step"], "cuda:1")
        >>> homes.devices(work["step"]), homes.of(w)
        (('cuda:1',), 'cuda:1')
        >>> homes.forget(undo)
        >>> homes.of(w) is None
        True
    """

    def __init__(self, work: Workload, candidates: Candidates) -> None:
        self._candidates = candidates
        self._known: dict[str | int, str] = {v.name: v.device for v in work.values.values() if v.device is not None}

    def of(self, value: Value) -> str | None:
        """Device of a value; None for a state whose home is still open."""
        home = self._known.get(value.name)
        return self._known.get(self._candidates.group_of_state.get(value.name, -1)) if home is None else home

    def devices(self, task: Task) -> Devices:
        """Devices where `task` may still run: one, where its state has a home."""
        settled = self._known.get(self._candidates.group_of.get(task.name, -1))
        return self._candidates.devices[task.name] if settled is None else (settled,)

    def settle(self, task: Task, device: str) -> list[str | int]:
        """Remember what follows from `task` being on `device`; what `forget` needs to forget it."""
        new: list[str | int] = []
        for value in task.outputs:
            if value.device is None:
                self._keep(value.name, device, new)
        for read in task.reads:
            if self.of(read.value) is None:
                self.open(read.value, device, new)
        return new

    def open(self, value: Value, device: str, new: list[str | int]) -> str:
        """The home of a state that is used for the first time: `device`, if it may be; what is new goes to `new`."""
        group = self._candidates.group_of_state.get(value.name)
        if group is None:
            return self._keep(value.name, device, new)
        homes = self._candidates.group_devices[group]
        return self._keep(group, device if device in homes else homes[0], new)

    def forget(self, new: list[str | int]) -> None:
        """Undo what `settle` or `open` remembered."""
        for key in new:
            del self._known[key]

    def _keep(self, key: str | int, device: str, new: list[str | int]) -> str:
        if key not in self._known:
            self._known[key] = device
            new.append(key)
        return self._known[key]


def memory_of(work: Workload, value: Value, home: str, *, resting: bool = False) -> HostMemory:
    """Kind of host memory that a copy of `value` from `home` to a GPU takes.

    `resting`: no lane of the CPU computes after what made it, as far as is known.

    Not modelled: states that a task on the CPU has just updated.
    """
    if home != "cpu":
        return "pinned"
    if made_by_task(work, value):
        return "written" if resting else "made"
    return "pageable" if lies_pageable(work, value) else "pinned"

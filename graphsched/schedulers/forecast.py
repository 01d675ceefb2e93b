"""When tasks start and end on lanes with gaps, as a scheduler places them one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping

from graphsched.plan import copy_lane, lies_pageable
from graphsched.platform import Platform
from graphsched.schedulers.candidates import Candidates, Devices
from graphsched.schedulers.durations import Durations, Transfers
from graphsched.schedulers.lanes import Copies, lane_name
from graphsched.schedulers.slots import Slots
from graphsched.workload import Memory, Task, Value, Workload


class Forecast:
    """Predicted starts and ends in seconds, and lanes, of the tasks placed so far.

    Attributes:
        start_s, end_s: By task name.
    """

    def __init__(
        self,
        work: Workload,
        platform: Platform,
        candidates: Candidates,
        counts: Mapping[str, int],
        durations: Durations,
        transfers: Transfers,
        copies: Copies,
    ) -> None:
        self.start_s: dict[str, float] = {}
        self.end_s: dict[str, float] = {}
        self._work = work
        self._platform = platform
        self._candidates = candidates
        self._durations = durations
        self._transfers = transfers
        self._copies = copies
        self._slots = {name: [Slots() for _ in range(n)] for name, n in counts.items()}
        self._copy_slots: dict[str, Slots] = {}
        self._placed: dict[str, tuple[str, int]] = {}
        self._homes = {v.name: v.device for v in work.values.values() if v.device is not None}
        self._settled: dict[int, str] = {}

    @property
    def makespan_s(self) -> float:
        """End of the last task placed so far."""
        return max(self.end_s.values(), default=0.0)

    def lanes(self) -> dict[str, str]:
        """Compute lane of each run task placed so far."""
        devices = {d.name: d for d in self._platform.devices}
        return {name: lane_name(devices[device], k) for name, (device, k) in self._placed.items()}

    def place(self, task: Task) -> None:
        """Put `task` where it is over first; all its predecessors have been placed.

        Raises:
            PlatformError: No link brings its values to a device where it may run.
        """
        ready = max(map(self.end_s.__getitem__, self._work.graph.pred[task.name]), default=0.0)
        if task.kind == "run":
            self._place_run(task, ready)
        elif task.kind == "copy":
            self._place_copy(task, ready)
        else:
            self._record(task, ready, 0.0)

    def _record(self, task: Task, start_s: float, seconds: float) -> None:
        self.start_s[task.name] = start_s
        self.end_s[task.name] = start_s + seconds

    # -- runs --------------------------------------------------------------------------------

    def _place_run(self, task: Task, ready: float) -> None:
        devices = self._candidates.devices[task.name]
        seconds = self._durations.row(task, devices)
        group = self._candidates.group_of.get(task.name, -1)
        if group in self._settled:
            device = self._settled[group]
            devices, seconds = (device,), (seconds[devices.index(device)],)
        best_end, best = math.inf, -1
        for i, (at, took) in enumerate(zip(self._ready(task, devices, ready), seconds, strict=True)):
            if at + took < best_end:  # else no lane there can be better
                k, gap, start = self._earliest(devices[i], at, took)
                if start + took < best_end:
                    best_end, best = start + took, i
                    lane, interval, start_s = k, gap, start
        if best < 0:
            self._explain(task, devices[0])
        device, took = devices[best], seconds[best]
        self._slots[device][lane].take(interval, start_s, took)
        self._placed[task.name] = (device, lane)
        self._record(task, start_s, took)
        self._settle(task, device)

    def _earliest(self, device: str, ready: float, seconds: float) -> tuple[int, int, float]:
        """Lane of `device`, its interval and the start there: the first; of those the one idle for the shortest time.

        So a chain stays on its lane where others are idle too.
        """
        found, first, idle_since = (0, 0), math.inf, -1.0
        for k, slots in enumerate(self._slots[device]):
            gap = slots.find(ready, seconds)
            begin = slots.begins[gap]
            start = begin if begin > ready else ready
            if start < first or (start == first and begin > idle_since):
                found, first, idle_since = (k, gap), start, begin
        return *found, first

    def _ready(self, task: Task, devices: Devices, ready: float) -> list[float]:
        """When `task` could start on each of `devices`: all predecessors over, all values there."""
        arrivals: list[tuple[float, Mapping[str, float]]] = []
        for read in task.reads:
            written = 0.0 if read.source is None else self.end_s[read.source]
            home = self._home(read.value)
            if home is not None:
                arrivals.append((written, self._transfers.row(home, read.value.nbytes, self._memory(read.value, home))))
            elif (group := self._candidates.group_of_state.get(read.value.name)) is not None:
                homes = self._candidates.group_devices[group]
                row = self._transfers.row(homes[0], read.value.nbytes)
                arrivals.append((written, {**row, **dict.fromkeys(homes, 0.0)}))
        times = []
        for device in devices:
            latest = ready
            for written, row in arrivals:
                arrival = written + row[device]
                if arrival > latest:
                    latest = arrival
            times.append(latest)
        return times

    def _explain(self, task: Task, device: str) -> None:
        """Raise the error of the link that is missing for `task` to run on `device`."""
        for read in task.reads:
            self._platform.link(self._home(read.value) or device, device)

    # -- where values live ---------------------------------------------------------------------

    def _home(self, value: Value) -> str | None:
        """Device of a value; None for a state whose home is still open."""
        home = self._homes.get(value.name)
        if home is None:
            home = self._settled.get(self._candidates.group_of_state.get(value.name, -1))
        return home

    def _settle(self, task: Task, device: str) -> None:
        """Remember what follows from `task` being on `device`."""
        for value in task.outputs:
            self._homes[value.name] = device
        for read in task.reads:
            if self._home(read.value) is None:
                self._open(read.value, device)

    def _open(self, value: Value, device: str) -> str:
        """Choose the home of a state that is used for the first time: `device`, if it may be."""
        group = self._candidates.group_of_state.get(value.name)
        if group is None:
            return self._homes.setdefault(value.name, device)
        homes = self._candidates.group_devices[group]
        return self._settled.setdefault(group, device if device in homes else homes[0])

    def _memory(self, value: Value, home: str) -> Memory:
        """Kind of host memory that a copy of a value to a GPU takes."""
        return "pageable" if home == "cpu" and lies_pageable(self._work, value) else "pinned"

    # -- copies --------------------------------------------------------------------------------

    def _place_copy(self, task: Task, ready: float) -> None:
        read, target = task.reads[0], str(task.outputs[0].device)
        source = self._home(read.value) or self._open(read.value, "cpu")
        pageable = self._platform.device(target).kind == "cuda" and self._memory(read.value, source) == "pageable"
        memory: Memory = "pageable" if pageable else task.memory
        seconds = self._transfers.asked_s(source, target, memory, read.value.nbytes)
        slots = self._slots_of_copy(read.source, source, target)
        gap = slots.find(ready, seconds)
        start = max(ready, slots.begins[gap])
        slots.take(gap, start, seconds)
        self._record(task, start, seconds)

    def _slots_of_copy(self, producer: str | None, source: str, target: str) -> Slots:
        """The lane that a plan will put this copy on."""
        device = source if source != "cpu" else target
        if self._copies == "own" or device not in self._slots:
            return self._copy_slots.setdefault(copy_lane(source, target), Slots())
        made_on, lane = self._placed.get(producer or "", (device, 0))
        return self._slots[device][lane if made_on == device else 0]

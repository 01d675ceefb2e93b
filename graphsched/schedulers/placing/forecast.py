"""When tasks start and end on lanes with gaps, as a scheduler places them one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from graphsched.plan import copy_lane, lies_pageable
from graphsched.platform import Platform
from graphsched.schedulers.placing.candidates import Candidates, Devices
from graphsched.schedulers.placing.durations import Arrivals, Durations, Transfers, Ways
from graphsched.schedulers.placing.lanes import Copies, lane_name
from graphsched.schedulers.placing.slots import Gap, Slots
from graphsched.workload import Memory, Task, Value, Workload

Lanes = Sequence[tuple[int, int, Slots]]

NO_GAP: Gap = (0.0, 0, 0)


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
        self._before = work.graph.predecessors
        self._platform = platform
        self._candidates = candidates
        self._durations = durations
        self._transfers = transfers
        self._copies = copies
        self._slots = {name: [Slots() for _ in range(n)] for name, n in counts.items()}
        self._lanes_of: dict[Devices, tuple[Lanes, Ways]] = {}
        self._copy_slots: dict[str, Slots] = {}
        self._placed: dict[str, tuple[str, int]] = {}
        self._homes = {v.name: v.device for v in work.values.values() if v.device is not None}
        self._settled: dict[int, str] = {}
        self._free = {v.name for v in work.values.values() if v.device is None and v.producer is None}

    @property
    def makespan_s(self) -> float:
        """End of the last task placed so far."""
        return max(self.end_s.values(), default=0.0)

    def lanes(self) -> dict[str, str]:
        """Compute lane of each run task placed so far."""
        device = self._platform.device
        names = {place: lane_name(device(place[0]), place[1]) for place in dict.fromkeys(self._placed.values())}
        return {name: names[place] for name, place in self._placed.items()}

    def place(self, task: Task) -> None:
        """Put `task` where it is over first; all its predecessors have been placed.

        Raises:
            PlatformError: No link brings its values to a device where it may run.
        """
        ready = 0.0
        for before in self._before(task.name):
            if self.end_s[before] > ready:
                ready = self.end_s[before]
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
        """Of lanes of one device where it starts first that which was idle for the shortest time is taken.

        So a chain stays on its lane where others are idle too.
        """
        devices = self._candidates.devices[task.name]
        seconds = self._durations.row(task, devices)
        group = self._candidates.group_of.get(task.name, -1)
        if group in self._settled:
            device = self._settled[group]
            devices, seconds = (device,), (seconds[devices.index(device)],)
        lanes, ways = self._lanes(devices)
        first = self._ready(task, devices, ways, ready)
        best_end, best, start_s, interval = math.inf, -1, 0.0, NO_GAP
        for i, number, slots in lanes:
            at, took = first[i], seconds[i]
            over = at + took
            if over > best_end:
                continue  # no gap there can be better
            gap = slots.last if over > slots.gaps_over_s else slots.find(at, took)
            begin = gap[0]
            start = begin if begin > at else at
            end = start + took
            if end < best_end or (i == best and (start < start_s or (start == start_s and begin > interval[0]))):
                best_end, best, start_s, interval, lane, taken = end, i, start, gap, number, slots
        if best < 0:
            self._explain(task, devices[0])
        device = devices[best]
        taken.take(interval, start_s, seconds[best])
        self._placed[task.name] = (device, lane)
        self._record(task, start_s, seconds[best])
        self._settle(task, device)

    def _lanes(self, devices: Devices) -> tuple[Lanes, Ways]:
        """All lanes of `devices`: the place of the device among these, the lane's number there, its free time."""
        found = self._lanes_of.get(devices)
        if found is None:
            lanes = [(i, k, slots) for i, device in enumerate(devices) for k, slots in enumerate(self._slots[device])]
            found = self._lanes_of[devices] = lanes, self._transfers.ways_to(devices)
        return found

    def _ready(self, task: Task, devices: Devices, ways: Ways, ready: float) -> list[float]:
        """When `task` could start on each of `devices`: all predecessors over, all values there."""
        latest = [ready] * len(devices)
        for read in task.reads:
            value, source = read.value, read.source
            written = 0.0 if source is None else self.end_s[source]
            home = self._homes.get(value.name) or self._home(value)
            if home is None:
                arrivals = self._arrivals_of_free(value, written, devices, ways)
            else:
                memory = self._memory(value, home) if home == "cpu" else "pinned"
                arrivals = ways.arrivals(home, memory, value.nbytes, written)
            times, places = arrivals
            if max(times) > ready:  # else no device is held up
                latest = [times[k] if times[k] > late else late for k, late in zip(places, latest, strict=True)]
        return latest

    def _arrivals_of_free(self, value: Value, written: float, devices: Devices, ways: Ways) -> Arrivals:
        """When a state whose home is open can be on each of `devices`: at once where it may live."""
        group = self._candidates.group_of_state.get(value.name)
        homes = devices if group is None else self._candidates.group_devices[group]
        times, places = ways.arrivals(homes[0], "pinned", value.nbytes, written)
        return [written, *times], [0 if device in homes else 1 + k for device, k in zip(devices, places, strict=True)]

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
            self._homes[value.name] = value.device or device
        for read in task.reads if self._free else ():
            if read.value.name in self._free and self._home(read.value) is None:
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
        start = slots.start(gap, ready)
        slots.take(gap, start, seconds)
        self._record(task, start, seconds)

    def _slots_of_copy(self, producer: str | None, source: str, target: str) -> Slots:
        """The lane that a plan will put this copy on."""
        device = source if source != "cpu" else target
        if self._copies == "own" or device not in self._slots:
            return self._copy_slots.setdefault(copy_lane(source, target), Slots())
        made_on, lane = self._placed.get(producer or "", (device, 0))
        return self._slots[device][lane if made_on == device else 0]

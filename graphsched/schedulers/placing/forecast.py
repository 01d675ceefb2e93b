"""When tasks start and end on lanes with gaps, as a scheduler places them one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from graphsched.platform import Platform
from graphsched.schedulers.placing.candidates import Candidates, Devices
from graphsched.schedulers.placing.durations import MADE, Durations, Transfers
from graphsched.schedulers.placing.homes import memory_of
from graphsched.schedulers.placing.incoming import NO_GAP, Alone, AloneWays, Queued, QueuedWays, Wanted
from graphsched.schedulers.placing.lanes import Copies, lane_name, lane_of_copy
from graphsched.schedulers.placing.queues import first_ride, take
from graphsched.schedulers.placing.slots import Gap, Slots
from graphsched.workload import Memory, Task, Value, Workload

Lanes = Sequence[tuple[int, int, Slots]]


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
        incoming: Alone | Queued,
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
        self._incoming = incoming
        self._slots = {name: [Slots() for _ in range(n)] for name, n in counts.items()}
        self._lanes_of: dict[Devices, tuple[Lanes, AloneWays | QueuedWays]] = {}
        self._placed: dict[str, tuple[str, int]] = {}
        self._homes = {v.name: v.device for v in work.values.values() if v.device is not None}
        self._known: dict[str, Wanted] = {}
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
        """Put `task` where it is over first, with the copies that it needs there."""
        devices = self._candidates.devices[task.name]
        seconds = self._durations.row(task, devices)
        group = self._candidates.group_of.get(task.name, -1)
        if group in self._settled:
            device = self._settled[group]
            devices, seconds = (device,), (seconds[devices.index(device)],)
        lanes, ways = self._lanes_of.get(devices) or self._lanes(devices)
        first, asked = ways.latest_s(self._wanted(task, devices), ready) if task.reads else ([ready] * len(devices), ())
        best, lane, slots, gap, start_s = _first_over(lanes, first, seconds)
        if best < 0:
            self._explain(task, devices[0])
        device, took = devices[best], seconds[best]
        there_s = self._incoming.delivered_s(asked, device, ready) if asked else first[best]
        if there_s != first[best]:
            first[best] = there_s
            _, lane, slots, gap, start_s = _first_over([row for row in lanes if row[0] == best], first, seconds)
        slots.take(gap, start_s, took)
        self._placed[task.name] = (device, lane)
        self.start_s[task.name], self.end_s[task.name] = start_s, start_s + took
        self._settle(task, device)

    def _lanes(self, devices: Devices) -> tuple[Lanes, AloneWays | QueuedWays]:
        """All lanes of `devices`: the place of the device among these, the lane's number there, its free time."""
        lanes = [(i, k, slots) for i, device in enumerate(devices) for k, slots in enumerate(self._slots[device])]
        found = self._lanes_of[devices] = lanes, self._incoming.ways_to(devices)
        return found

    def _wanted(self, task: Task, devices: Devices) -> list[Wanted]:
        """What `task` reads."""
        known, homes, wanted = self._known, self._homes, []
        for read in task.reads:
            value, source = read.value, read.source
            name = str(read) if read.version else value.name
            want = known.get(name)
            if want is None:
                home = homes.get(value.name)
                written_s = 0.0 if source is None else self.end_s[source]
                if home is None or home == "cpu":
                    want = self._want(name, value, written_s, devices)
                else:
                    want = known[name] = name, home, value.nbytes, written_s, "pinned", ()
            wanted.append(want)
        return wanted

    def _want(self, name: str, value: Value, written_s: float, devices: Devices) -> Wanted:
        """A value that is in host memory, or whose home is open or that of a group."""
        home = self._home(value)
        if home is None:
            near = self._candidates.homes(value) or devices
            return name, near[0], value.nbytes, written_s, "pinned", near
        resting = home == "cpu" and all(slots.idle_s <= written_s for slots in self._slots.get(home, ()))
        memory = memory_of(self._work, value, home, resting=resting)
        found = name, home, value.nbytes, written_s, memory, ()
        if memory not in MADE:  # else what is placed there later changes it
            self._known[name] = found
        return found

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
        homes = self._homes
        for value in task.outputs:
            homes[value.name] = value.device or device
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

    # -- copies --------------------------------------------------------------------------------

    def _place_copy(self, task: Task, ready: float) -> None:
        read, target = task.reads[0], str(task.outputs[0].device)
        source = self._home(read.value) or self._open(read.value, "cpu")
        to_gpu = self._platform.device(target).kind == "cuda"
        pageable = to_gpu and memory_of(self._work, read.value, source) == "pageable"
        memory: Memory = "pageable" if pageable else task.memory
        seconds = self._transfers.asked_s(source, target, memory, read.value.nbytes)
        made_on = self._placed.get(read.source or "")
        lane = None if self._copies == "own" else lane_of_copy(self._slots, made_on, source, target)
        way = self._incoming.way(source, target, memory, lane)
        ride = first_ride(way, read.value.nbytes, seconds, ready)
        take(ride)
        self._record(task, ride.start_s, ride.end_s - ride.start_s)


def _first_over(lanes: Lanes, first: Sequence[float], seconds: Sequence[float]) -> tuple[int, int, Slots, Gap, float]:
    """Where a task is over first: place of the device (below 0: nowhere), lane, its free time, gap and start.

    Of lanes of one device where it starts first that which was idle for the shortest time is taken. So a chain stays
    on its lane where others are idle too.
    """
    best_end, best, start_s, interval, lane, taken = math.inf, -1, 0.0, NO_GAP, 0, lanes[0][2]
    for i, number, slots in lanes:
        at, took = first[i], seconds[i]
        end = at + took
        if end > best_end:
            continue  # no gap there can be better
        gap = slots.last if end > slots.gaps_over_s else slots.find(at, took)
        begin = gap[0]
        if begin > at:
            at, end = begin, begin + took
        if end < best_end or (i == best and (at < start_s or (at == start_s and begin > interval[0]))):
            best_end, best, start_s, interval, lane, taken = end, i, at, gap, number, slots
    return best, lane, taken, interval, start_s

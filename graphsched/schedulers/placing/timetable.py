"""When tasks start and end on lanes that a scheduler chooses for them, one by one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import NamedTuple

from graphsched.costs import Costs
from graphsched.plan import Placement
from graphsched.platform import Platform
from graphsched.schedulers.placing.candidates import Devices, find_candidates
from graphsched.schedulers.placing.deliveries import Deliveries, Parcel
from graphsched.schedulers.placing.durations import Durations, Transfers
from graphsched.schedulers.placing.homes import Homes, memory_of
from graphsched.schedulers.placing.lanes import Copies, lane_counts, lane_name, lane_of_copy
from graphsched.schedulers.placing.slots import Gap, Slots
from graphsched.schedulers.placing.trail import Trail
from graphsched.workload import Memory, Task, Workload


class Chance(NamedTuple):
    """Where and when a task could run.

    Attributes:
        device, lane: The device and the number of its lane.
        gap: Number of the lane's free interval.
        start_s, end_s: In seconds.
    """

    device: str
    lane: int
    gap: Gap
    start_s: float
    end_s: float


Cost = float | tuple[float, ...]


def _end_s(chance: Chance) -> Cost:
    return chance.end_s


class Timetable:
    """Tasks placed so far, in the order in which they were placed, with predicted starts and ends.

    Args:
        lanes: Compute lanes of each device, as schedulers have it.
        copies: Lanes of the copies that the workload asks for, as in a `Placement`.
        contention: Whether copies queue for lanes, engines and shared capacities (`Deliveries`).

    Attributes:
        start_s, end_s: In seconds, by task name.
        candidates, counts, durations, transfers: What the times rest on.

    Not modelled: dispatch; lanes that share a device.

    Raises:
        ScheduleError: More lanes than a device may have, or tasks that must share a device have none in common.
    """

    def __init__(
        self, work: Workload, platform: Platform, costs: Costs, *, lanes: int, copies: Copies, contention: bool
    ) -> None:
        self.work = work
        self.platform = platform
        self.candidates = find_candidates(work, platform)
        self.counts = lane_counts(platform, self.candidates.used(), lanes)
        self.durations, self.transfers = Durations(platform, costs), Transfers(platform, self.counts)
        self.start_s: dict[str, float] = {}
        self.end_s: dict[str, float] = {}
        self._copies: Copies = copies
        self._trail = Trail()
        self._homes = Homes(work, self.candidates)
        self._deliveries = Deliveries(platform, self.transfers, contention, self._trail)
        self._slots = {name: [Slots() for _ in range(n)] for name, n in self.counts.items()}
        self._placed: dict[str, tuple[str, int]] = {}

    # -- what could be ---------------------------------------------------------------------------

    def devices(self, task: Task) -> Devices:
        """Devices where `task` may still run."""
        return self._homes.devices(task)

    def seconds(self, task: Task, device: str) -> float:
        """How long `task` takes on `device`."""
        return self.durations.row(task, (device,))[0]

    def ready_s(self, task: Task, device: str) -> float:
        """When `task` could start on `device` if that were idle: all before it over, all values there.

        Tasks before it that have no place yet count as nothing. Infinite where a value has no link to `device`.
        """
        parcels = list(self._parcels(task, device))
        return max(self._over_s(task), self._deliveries.arrival_s(parcels, device))

    def idle_s(self, device: str) -> float:
        """When the first lane of `device` has done all its tasks."""
        return min(slots.idle_s for slots in self._slots[device])

    def chances(self, task: Task) -> Iterator[Chance]:
        """Of each device where `task` may run and its values can be the first start there, gaps included.

        Of lanes that are free in time the one that was idle for the shortest time, so that a chain stays on its lane.
        """
        for device in self.devices(task):
            ready = self.ready_s(task, device)
            if ready < math.inf:
                yield self._first(device, ready, self.seconds(task, device))

    def _first(self, device: str, ready: float, seconds: float) -> Chance:
        gaps = [(slots, slots.find(ready, seconds)) for slots in self._slots[device]]
        starts = [(slots.start(gap, ready), -gap[0]) for slots, gap in gaps]
        lane = starts.index(min(starts))
        return Chance(device, lane, gaps[lane][1], starts[lane][0], starts[lane][0] + seconds)

    def _over_s(self, task: Task) -> float:
        before = self.work.graph.pred[task.name]
        return max((self.end_s[name] for name in before if name in self.end_s), default=0.0)

    def _parcels(self, task: Task, device: str) -> Iterator[Parcel]:
        """Values that `task` needs from elsewhere, or that will be where it is."""
        for read in task.reads:
            value = read.value
            home = self._homes.of(value)
            if home is None:
                possible = self.candidates.homes(value)
                home = device if device in possible or not possible else possible[0]
            if home != device and (read.source is None or read.source in self.end_s):
                written = 0.0 if read.source is None else self.end_s[read.source]
                memory = memory_of(self.work, value, home, resting=self._rests_from(written))
                yield Parcel(str(read), home, value.nbytes, written, memory)

    def _rests_from(self, seconds: float) -> bool:
        """Whether no task that is placed on the CPU ends later."""
        return all(slots.idle_s <= seconds for slots in self._slots.get("cpu", ()))

    # -- what is ---------------------------------------------------------------------------------

    def place(self, task: Task, device: str) -> None:
        """Put `task` on the lane of `device` where it starts first, gaps included.

        Raises:
            PlatformError: No link brings its values there.
        """
        self._put(task, self._first(device, self._delivered_s(task, device), self.seconds(task, device)))

    def place_best(self, task: Task, cost_s: Callable[[Chance], Cost] | None = None) -> None:
        """Put `task` where `cost_s` is least, by default where it is over first; of equals on the first device.

        Raises:
            PlatformError: No link brings its values to a device where it may run.
        """
        best = min(self.chances(task), key=cost_s or _end_s, default=None)
        self.place(task, self.devices(task)[0] if best is None else best.device)

    def append(self, task: Task, device: str, lane: int | None = None) -> None:
        """Put `task` behind all others on `lane` of `device`, or on the lane there that lets it start first.

        Raises:
            PlatformError: No link brings its values there.
        """
        ready = self._delivered_s(task, device)
        idle = [slots.idle_s for slots in self._slots[device]]
        if lane is None:
            starts = [(max(ready, since), -since) for since in idle]
            lane = starts.index(min(starts))
        start = max(ready, idle[lane])
        gap = self._slots[device][lane].last
        self._put(task, Chance(device, lane, gap, start, start + self.seconds(task, device)))

    def pass_by(self, task: Task) -> None:
        """Put a copy on its lane as soon as it can be there, or a barrier where all before it are over."""
        if task.kind == "copy":
            self._copy(task, self._over_s(task))
        else:
            self._record(task, self._over_s(task), self._over_s(task))

    def tried(self) -> AbstractContextManager[None]:
        """What is placed inside is taken back at the end."""
        return self._trail.tried()

    def placement(self) -> Placement:
        """What was decided, in the order of predicted starts."""
        devices = {d.name: d for d in self.platform.devices}
        lanes = {name: lane_name(devices[device], lane) for name, (device, lane) in self._placed.items()}
        return Placement(sorted(self.start_s, key=self.start_s.__getitem__), lanes, copies=self._copies)

    @property
    def makespan_s(self) -> float:
        """End of the last task placed so far."""
        return max(self.end_s.values(), default=0.0)

    def _delivered_s(self, task: Task, device: str) -> float:
        """When `task` could start on `device`, with copies of its values agreed."""
        parcels = list(self._parcels(task, device))
        arrived = self._deliveries.deliver(parcels, device)
        if arrived == math.inf:
            for parcel in parcels:  # the error of the link that is missing
                self.platform.link(parcel.home, device, parcel.memory)
        return max(self._over_s(task), arrived)

    def _put(self, task: Task, chance: Chance) -> None:
        slots = self._slots[chance.device][chance.lane]
        self._trail.take(slots, chance.gap, chance.start_s, chance.end_s - chance.start_s)
        self._placed[task.name] = (chance.device, chance.lane)
        new = self._homes.settle(task, chance.device)
        self._trail.did(partial(self._placed.pop, task.name))
        self._trail.did(partial(self._homes.forget, new))
        self._record(task, chance.start_s, chance.end_s)

    def _copy(self, task: Task, ready: float) -> None:
        read, target = task.reads[0], str(task.outputs[0].device)
        new: list[str | int] = []
        source = self._homes.of(read.value) or self._homes.open(read.value, "cpu", new)
        self._trail.did(partial(self._homes.forget, new))
        to_gpu = self.platform.device(target).kind == "cuda"
        pageable = to_gpu and memory_of(self.work, read.value, source) == "pageable"
        memory: Memory = "pageable" if pageable else task.memory
        made_on = self._placed.get(read.source or "")
        lane = None if self._copies == "own" else lane_of_copy(self._slots, made_on, source, target)
        ride = self._deliveries.asked(source, target, memory, read.value.nbytes, ready, lane)
        self._record(task, ride.start_s, ride.end_s)

    def _record(self, task: Task, start_s: float, end_s: float) -> None:
        self.start_s[task.name], self.end_s[task.name] = start_s, end_s
        self._trail.did(partial(self.start_s.pop, task.name))
        self._trail.did(partial(self.end_s.pop, task.name))

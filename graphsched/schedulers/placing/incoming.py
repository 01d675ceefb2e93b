"""When values come to devices, for schedulers that ask about all devices at once: each alone, or all in queues.

`deliveries` does the same for those that ask about one device at a time and try things out. Here a device is one among
many, and most of them are alike, so that eight are asked about in the time of one or two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from graphsched.plan import copy_lane
from graphsched.schedulers.placing.candidates import Devices
from graphsched.schedulers.placing.durations import MADE, HostMemory, Transfers, Ways, never
from graphsched.schedulers.placing.queues import Queues, Way, first_ride, take
from graphsched.schedulers.placing.slots import Gap, Slots

Wanted = tuple[str, str, int, float, HostMemory, Devices]
"""A value that a task reads: its name and version, home, bytes, when it is written, kind of host memory of a copy to a
GPU, and, where its home is still open, the devices that it may be on."""

Came = dict[str, float]
"""When a value is on each device that it has reached, or will, by the copies that are agreed."""

Asked = tuple[Came, Wanted, Slots | None, Gap, float, float]
"""What was asked about a value: the queue of its copy, whatever the target is, the free interval there, start and
seconds. Without a queue it hangs on the target."""

Route = tuple[Callable[[int], float], Way]
"""Seconds by bytes, and where copies queue."""

Routes = tuple[list[Route], list[int] | None]
"""The kinds of routes from one device to others, and of each of these its place among them; None where all of them
share one queue, take as long, and share nothing else."""

NO_GAP: Gap = (0.0, 0, 0)


@dataclass(eq=False)
class Alone:
    """Every value takes its link's time alone; copies that the workload asks for queue for their lane."""

    transfers: Transfers
    _lanes: dict[str, Slots] = field(default_factory=dict)

    def ways_to(self, devices: Devices) -> AloneWays:
        """Ways to `devices`."""
        return AloneWays(devices, self.transfers.ways_to(devices))

    def delivered_s(self, asked: Sequence[Asked], device: str, ready_s: float) -> float:  # noqa: ARG002 - as in `Queued`
        """Nothing is asked about and agreed on."""
        return ready_s

    def way(self, source: str, target: str, memory: HostMemory, lane: Slots | None) -> Way:  # noqa: ARG002 - as in `Queued`
        """Of a copy that the workload asks for: on `lane`, or on one of its own where that is None."""
        return Way(self._lanes.setdefault(copy_lane(source, target), Slots()) if lane is None else lane)


class AloneWays:
    """How values come to some devices, each alone on its link."""

    def __init__(self, devices: Devices, ways: Ways) -> None:
        self._devices, self._ways = devices, ways

    def latest_s(self, wanted: Sequence[Wanted], ready_s: float) -> tuple[list[float], Sequence[Asked]]:
        """When all of `wanted` can be on each of the devices, at `ready_s` at the earliest; nothing is agreed on."""
        latest = [ready_s] * len(self._devices)
        for _, home, nbytes, written_s, memory, near in wanted:
            times, places = self._ways.arrivals(home, memory, nbytes, written_s)
            if near:
                times = [written_s, *times]
                places = [0 if d in near else 1 + k for d, k in zip(self._devices, places, strict=True)]
            if max(times) > ready_s:  # else no device is held up
                latest = [times[k] if times[k] > late else late for k, late in zip(places, latest, strict=True)]
        return latest, ()


@dataclass(eq=False)
class Queued:
    """Values go in queues (`Queues`), one copy of each to a device; several for one task in the order of its reads."""

    queues: Queues
    transfers: Transfers
    _came: dict[str, Came] = field(default_factory=dict)

    def ways_to(self, devices: Devices) -> QueuedWays:
        """Ways to `devices`."""
        return QueuedWays(devices, self.queues, self.transfers, self._came)

    def delivered_s(self, asked: Sequence[Asked], device: str, ready_s: float) -> float:
        """Agree on the copies to `device` that were `asked` about: when all are there, at `ready_s` at the earliest."""
        latest = ready_s
        taken: list[Slots] = []
        for came, wanted, queue, gap, start_s, seconds in asked:
            end = came.get(device)
            if end is None:
                if queue is None:
                    end = self._taken_s(wanted, device, start_s)
                else:
                    if queue in taken:
                        gap = queue.find(start_s, seconds)
                        start_s = queue.start(gap, start_s)
                    queue.take(gap, start_s, seconds)
                    taken.append(queue)
                    end = start_s + seconds
                came[device] = end
            if end > latest:
                latest = end
        return latest

    def _taken_s(self, wanted: Wanted, device: str, ready_s: float) -> float:
        name, home, nbytes, _, memory, near = wanted
        link = self.transfers.link(home, memory, device)
        assert link is not None  # else the task would not be put there
        way = self.queues.way(home, device, memory)
        end_s = take(first_ride(way, nbytes, link.duration_s(nbytes), ready_s))
        if near:
            self._came[name] = {home: ready_s, device: end_s}
        return end_s

    def way(self, source: str, target: str, memory: HostMemory, lane: Slots | None) -> Way:
        """Of a copy that the workload asks for: on `lane`, or in the queue of such copies where that is None."""
        return self.queues.way(source, target, memory, lane)


class QueuedWays:
    """How values come to some devices, behind the copies that are agreed; alike routes are asked about once.

    Several values that a task wants from one device queue for each other. Those that are on a target already count
    there too, so that what is said is late by them; what is agreed is not.
    """

    def __init__(self, devices: Devices, queues: Queues, transfers: Transfers, came: dict[str, Came]) -> None:
        self._devices, self._queues, self._transfers, self._came = devices, queues, transfers, came
        self._place = {device: i for i, device in enumerate(devices)}
        self._zeros = [0] * len(devices)
        self._routes: dict[HostMemory, dict[str, Routes]] = {"pinned": {}, "pageable": {}, "made": {}, "written": {}}

    def latest_s(self, wanted: Sequence[Wanted], ready_s: float) -> tuple[list[float], Sequence[Asked]]:
        """When all of `wanted` could be on each of the devices, at `ready_s` at the earliest; what was asked."""
        count = len(self._devices)
        at_once = latest = [ready_s] * count
        came_of, place, before_s = self._came, self._place, self._transfers.before_s
        asked: list[Asked] = []
        busy: dict[str, float] = {}
        behind: dict[str, list[float]] = {}
        for want in wanted:
            name, home, nbytes, written_s, memory, near = want
            came = came_of.get(name)
            if came is None:
                came = dict.fromkeys(near, written_s) if near else {home: written_s}
                if not near:
                    came_of[name] = came
            routes, places = self._routes[memory].get(home) or self._found(home, memory)
            if not routes:
                continue  # nowhere else to go
            before = latest
            ready_at = written_s + before_s(memory, nbytes) if memory in MADE else written_s
            if places is None and not near:
                duration_s, way = routes[0]
                queue, seconds = way.queue, duration_s(nbytes)
                at = busy.get(home, ready_at)
                if at < ready_at:
                    at = ready_at
                gap = queue.last if at + seconds > queue.gaps_over_s else queue.find(at, seconds)
                if gap[0] > at:
                    at = gap[0]
                end = busy[home] = at + seconds
                asked.append((came, want, queue, gap, at, seconds))
                if end <= ready_s:
                    continue  # no device is held up
                latest = [end] * count if before is at_once else [end if end > late else late for late in before]
            else:
                asked.append((came, want, None, NO_GAP, ready_at, 0.0))
                ends = behind[home] = _ends_s(routes, nbytes, ready_at, behind.get(home))
                latest = [
                    ends[k] if ends[k] > late else late for k, late in zip(places or self._zeros, before, strict=True)
                ]
            for device, there_s in came.items():
                i = place.get(device, -1)
                if i >= 0:
                    latest[i] = there_s if there_s > before[i] else before[i]
        return latest, asked

    def _found(self, home: str, memory: HostMemory) -> Routes:
        kinds: dict[object, Route] = {}
        places = []
        for device in self._devices:
            kind, route = self._route(home, memory, device) if device != home else (None, None)
            if route is not None:
                kinds.setdefault(kind, route)
            places.append(list(kinds).index(kind) if route is not None else 0)
        routes = list(kinds.values())
        found = self._routes[memory][home] = routes, None if len(routes) == 1 and not routes[0][1].shares else places
        return found

    def _route(self, home: str, memory: HostMemory, device: str) -> tuple[object, Route]:
        """The route to `device`, and what those that are alike have in common."""
        link = self._transfers.link(home, memory, device)
        if link is None:
            return device, (never, Way(Slots()))
        way = self._queues.way(home, device, memory)
        times = link.latency_s, link.bandwidth_bytes_per_s, link.sizes_bytes, link.seconds
        return (times, id(way.queue), *(id(slots) for slots, *_ in way.shares)), (link.duration_s, way)


def _ends_s(routes: Sequence[Route], nbytes: int, written_s: float, behind_s: Sequence[float] | None) -> list[float]:
    """When a copy would end on each of `routes`, each behind the one before it, which is over at `behind_s`."""
    ends = []
    for k, (duration_s, way) in enumerate(routes):
        seconds, at = duration_s(nbytes), max(written_s, behind_s[k]) if behind_s else written_s
        ends.append(first_ride(way, nbytes, seconds, at).end_s if seconds < math.inf else math.inf)
    return ends

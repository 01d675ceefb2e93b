"""When values reach devices: each copy alone on its link, or all of them in the queues that a plan has for them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from graphsched.errors import PlatformError
from graphsched.plan import copy_lane
from graphsched.platform import Link, Platform
from graphsched.schedulers.bounds.links import capacity_rates
from graphsched.schedulers.placing.durations import Transfers
from graphsched.schedulers.placing.slots import Gap, Slots
from graphsched.schedulers.placing.trail import Trail
from graphsched.workload import Memory


@dataclass(frozen=True, eq=False)
class Way:
    """How copies go from one device to another.

    Attributes:
        lane: The lane where they queue.
        shares: What they share with other lanes, and how many seconds of it a byte or a second of copying takes.
    """

    lane: Slots
    shares: tuple[tuple[Slots, float, float], ...] = ()


class Ride(NamedTuple):
    """One copy: its way, the interval of the lane, start and end in seconds, and what it holds of what is shared."""

    way: Way
    gap: Gap
    start_s: float
    end_s: float
    holds: tuple[tuple[Slots, float, float], ...]


class Parcel(NamedTuple):
    """A value that a task needs from another device.

    Attributes:
        name: Of the value and its version: it reaches a device once.
        home: Where it lies.
        nbytes: Its size.
        written_s: When it is there.
        memory: Kind of host memory of a copy to a GPU.
    """

    name: str
    home: str
    nbytes: int
    written_s: float
    memory: Memory


@dataclass(eq=False)
class Deliveries:
    """Copies that have been agreed so far, and when the next ones would end.

    With `contention` a copy queues for its lane; a copy engine that several lanes use and each capacity that it crosses
    serve copies one after another, in the order of arrival, for as long as their bytes need there at the full rate. So
    the last of several copies that meet ends when the shared capacity has done with all of them, as in the simulator,
    where they share it all along. Without it each takes its link's time alone.

    Source: O. Sinnen, L. Sousa: Communication contention in task scheduling. IEEE TPDS 16 (6), 2005 (edges are
    scheduled on links as tasks on processors).

    Not modelled: max-min shares while copies overlap; rates that fall with the number of busy links; the thread that
    pageable copies block.
    """

    platform: Platform
    transfers: Transfers
    contention: bool
    trail: Trail
    _delivered: dict[tuple[str, str], float] = field(default_factory=dict)
    _ways: dict[tuple[str, str, Memory], Way] = field(default_factory=dict)
    _lanes: dict[str, Slots] = field(default_factory=dict)
    _shared: dict[tuple[str, str], Slots] = field(default_factory=dict)

    def arrival_s(self, parcels: Iterable[Parcel], device: str) -> float:
        """When all of `parcels` would be on `device`: infinite where no link leads."""
        latest = 0.0
        busy: dict[int, float] = {}
        for parcel in parcels:
            end = self._delivered.get((parcel.name, device))
            if end is None:
                seconds = self.transfers.row(parcel.home, parcel.nbytes, parcel.memory)[device]
                if self.contention and 0.0 < seconds < math.inf:
                    end = self._next(parcel, device, seconds, busy).end_s
                else:
                    end = parcel.written_s + seconds
            if end > latest:
                latest = end
        return latest

    def deliver(self, parcels: Iterable[Parcel], device: str) -> float:
        """Agree on the copies of `parcels` to `device`: when all are there.

        On a lane they go in the order of `parcels`, as a plan has them.
        """
        latest = 0.0
        busy: dict[int, float] = {}
        for parcel in parcels:
            key = (parcel.name, device)
            if key not in self._delivered:
                seconds = self.transfers.row(parcel.home, parcel.nbytes, parcel.memory)[device]
                end = parcel.written_s + seconds
                if self.contention and 0.0 < seconds < math.inf:
                    end = self._taken(self._next(parcel, device, seconds, busy)).end_s
                self._delivered[key] = end
                self.trail.did(partial(self._delivered.pop, key))
            latest = max(latest, self._delivered[key])
        return latest

    def _next(self, parcel: Parcel, device: str, seconds: float, busy: dict[int, float]) -> Ride:
        """The copy of `parcel` behind those of the same task; `busy`: until when these keep their lanes."""
        way = self._way(parcel.home, device, parcel.memory)
        ready = max(parcel.written_s, busy.get(id(way.lane), 0.0))
        ride = _ride(way, parcel.nbytes, seconds, ready)
        busy[id(way.lane)] = ride.end_s
        return ride

    def asked(self, source: str, target: str, memory: Memory, nbytes: int, ready_s: float, lane: Slots | None) -> Ride:
        """Agree on a copy that the workload asks for; on `lane`, or on one of its own where that is None."""
        seconds = self.transfers.asked_s(source, target, memory, nbytes)
        way = self._way(source, target, memory)
        way = Way(way.lane if lane is None else lane, way.shares if self.contention else ())
        return self._taken(_ride(way, nbytes, seconds, ready_s))

    def _taken(self, ride: Ride) -> Ride:
        self.trail.take(ride.way.lane, ride.gap, ride.start_s, ride.end_s - ride.start_s)
        for slots, start_s, seconds in ride.holds:
            self.trail.take(slots, slots.find(start_s, seconds), start_s, seconds)
        return ride

    # -- ways ------------------------------------------------------------------------------------

    def _way(self, source: str, target: str, memory: Memory) -> Way:
        way = self._ways.get((source, target, memory))
        if way is None:
            lane = self._lanes.setdefault(copy_lane(source, target), Slots())
            way = self._ways[source, target, memory] = Way(lane, tuple(self._shares(source, target, memory)))
        return way

    def _shares(self, source: str, target: str, memory: Memory) -> Iterable[tuple[Slots, float, float]]:
        link = self._link(source, target, memory)
        engines = self.platform.device(source).peer_engines
        if link is not None and link.memory == "peer" and engines:
            yield self._shared.setdefault(("engine", source), Slots()), 0.0, 1.0 / engines
        rates = capacity_rates(self.platform)
        for name in link.crosses if link is not None else ():
            yield self._shared.setdefault(("capacity", name), Slots()), 1.0 / rates[name], 0.0

    def _link(self, source: str, target: str, memory: Memory) -> Link | None:
        try:
            return self.platform.link(source, target, memory)
        except PlatformError:
            return None


def _ride(way: Way, nbytes: int, seconds: float, ready_s: float) -> Ride:
    """The first interval of the lane that holds the copy, lengthened until what it shares has room for it."""
    took = seconds
    while True:
        gap = way.lane.find(ready_s, took)
        start = way.lane.start(gap, ready_s)
        end = start + seconds
        holds = []
        for slots, a_byte, a_second in way.shares:
            held = nbytes * a_byte + seconds * a_second
            begin = slots.start(slots.find(start, held), start)
            holds.append((slots, begin, held))
            end = max(end, begin + held)
        if end - start <= took:
            return Ride(way, gap, start, end, tuple(holds))
        took = end - start

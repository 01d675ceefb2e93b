"""When values reach devices: each copy alone on its link, or all of them in the queues that a plan has for them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from graphsched.plan import copy_lane
from graphsched.platform import Platform
from graphsched.schedulers.placing.durations import HostMemory, Transfers
from graphsched.schedulers.placing.queues import Queues, Ride, Way, first_ride
from graphsched.schedulers.placing.slots import Slots
from graphsched.schedulers.placing.trail import Trail
from graphsched.workload import Memory


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
    memory: HostMemory


@dataclass(eq=False)
class Deliveries:
    """Copies that have been agreed so far, and when the next ones would end.

    With `contention` a copy queues for its lane or for the one engine of its GPU (`Queues`); what several queues share,
    several engines or a capacity, serves copies one after another, in the order of arrival, for as long as their bytes
    need there at the full rate. So the last of several copies that meet ends when the shared capacity has done with all
    of them, as in the simulator, where they share it all along. Without it each takes its link's time alone.

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
    _lanes: dict[str, Slots] = field(default_factory=dict)
    _queues: Queues = field(init=False)

    def __post_init__(self) -> None:
        self._queues = Queues(self.platform)

    def arrival_s(self, parcels: Iterable[Parcel], device: str) -> float:
        """When all of `parcels` would be on `device`: infinite where no link leads."""
        latest = 0.0
        busy: dict[int, float] = {}
        for parcel in parcels:
            end = self._delivered.get((parcel.name, device))
            if end is None:
                seconds = self.transfers.row(parcel.home, parcel.nbytes, parcel.memory)[device]
                if self.contention and parcel.home != device and seconds < math.inf:
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
                if self.contention and parcel.home != device and seconds < math.inf:
                    end = self._taken(self._next(parcel, device, seconds, busy)).end_s
                self._delivered[key] = end
                self.trail.did(partial(self._delivered.pop, key))
            latest = max(latest, self._delivered[key])
        return latest

    def _next(self, parcel: Parcel, device: str, seconds: float, busy: dict[int, float]) -> Ride:
        """The copy of `parcel` behind those of the same task; `busy`: until when these keep their lanes."""
        way = self._queues.way(parcel.home, device, parcel.memory)
        before_s = self.transfers.before_s(parcel.memory, parcel.nbytes)
        ready = max(parcel.written_s + before_s, busy.get(id(way.queue), 0.0))
        ride = first_ride(way, parcel.nbytes, seconds - before_s, ready)
        busy[id(way.queue)] = ride.end_s
        return ride

    def asked(self, source: str, target: str, memory: Memory, nbytes: int, ready_s: float, lane: Slots | None) -> Ride:
        """Agree on a copy that the workload asks for; on `lane`, or on one of its own where that is None."""
        seconds = self.transfers.asked_s(source, target, memory, nbytes)
        if self.contention:
            way = self._queues.way(source, target, memory, lane)
        else:
            way = Way(self._lanes.setdefault(copy_lane(source, target), Slots()) if lane is None else lane)
        return self._taken(first_ride(way, nbytes, seconds, ready_s))

    def _taken(self, ride: Ride) -> Ride:
        self.trail.take(ride.way.queue, ride.gap, ride.start_s, ride.end_s - ride.start_s)
        for slots, start_s, seconds in ride.holds:
            self.trail.take(slots, slots.find(start_s, seconds), start_s, seconds)
        return ride

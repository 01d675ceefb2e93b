"""Where copies wait for each other: the queue of each way between two devices, and what several queues share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from graphsched.errors import PlatformError
from graphsched.plan import copy_lane
from graphsched.platform import Link, Platform
from graphsched.schedulers.bounds.links import capacity_rates
from graphsched.schedulers.placing.durations import MADE, HostMemory
from graphsched.schedulers.placing.slots import Gap, Slots

ENOUGH = 1.0 + 1e-9  # a capacity that is this much too small is enough: it was measured, and so were the links


@dataclass(frozen=True, eq=False)
class Way:
    """How copies go from one device to another.

    Attributes:
        queue: Where they go one after another: their lane, or the one engine that makes all copies of the GPU.
        shares: What they share with other queues, and how many seconds of it a byte or a second of copying takes.
    """

    queue: Slots
    shares: tuple[tuple[Slots, float, float], ...] = ()


class Ride(NamedTuple):
    """One copy: its way, the interval of the queue, start and end in seconds, and what it holds of what is shared."""

    way: Way
    gap: Gap
    start_s: float
    end_s: float
    holds: tuple[tuple[Slots, float, float], ...]


@dataclass(eq=False)
class Queues:
    """The ways of a platform.

    A GPU that makes one copy to others at a time (`Device.peer_engines`) is one queue for all of them; any other way
    is a lane with a queue of its own. Several queues share the engines of a GPU that has more of them, and each
    capacity that cannot serve all links that cross it at once.
    """

    platform: Platform
    _ways: dict[tuple[str, str, HostMemory], Way] = field(default_factory=dict)
    _queues: dict[str, Slots] = field(default_factory=dict)
    _shared: dict[tuple[str, str], Slots] = field(default_factory=dict)
    _scarce: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._scarce = _scarce(self.platform)

    def way(self, source: str, target: str, memory: HostMemory, lane: Slots | None = None) -> Way:
        """How copies go from `source` to `target`: on `lane`, or on their own where that is None.

        `memory` is the kind of host memory, if it takes part.
        """
        way = self._ways.get((source, target, memory))
        if way is None:
            link = _link(self.platform, source, target, memory)
            queue = self._queues.setdefault(_queue_name(self.platform, link, source, target), Slots())
            way = self._ways[source, target, memory] = Way(queue, tuple(self._shares(link)))
        if lane is None:
            return way
        engine = self._queues.get(source)
        return Way(lane, ((engine, 0.0, 1.0), *way.shares) if engine is way.queue else way.shares)

    def _shares(self, link: Link | None) -> Iterator[tuple[Slots, float, float]]:
        if link is None:
            return
        engines = self.platform.device(link.source).peer_engines
        if link.memory == "peer" and engines > 1:
            yield self._shared.setdefault(("engine", link.source), Slots()), 0.0, 1.0 / engines
        for name in link.crosses:
            if name in self._scarce:
                yield self._shared.setdefault(("capacity", name), Slots()), 1.0 / self._scarce[name], 0.0


def first_ride(way: Way, nbytes: int, seconds: float, ready_s: float) -> Ride:
    """The first interval of the queue that holds the copy, lengthened until what it shares has room for it.

    Example:
        >>> lane, port = Slots(), Slots()
        >>> way = Way(lane, ((port, 0.5, 0.0),))
        >>> port.take(port.last, 0.0, 3.0)
        >>> first_ride(way, nbytes=4, seconds=4.0, ready_s=0.0).end_s
        5.0
    """
    took = seconds
    while True:
        gap = way.queue.find(ready_s, took)
        start = way.queue.start(gap, ready_s)
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


def take(ride: Ride) -> float:
    """Occupy what `ride` needs: its end."""
    ride.way.queue.take(ride.gap, ride.start_s, ride.end_s - ride.start_s)
    for slots, start_s, seconds in ride.holds:
        slots.take(slots.find(start_s, seconds), start_s, seconds)
    return ride.end_s


def _link(platform: Platform, source: str, target: str, memory: HostMemory) -> Link | None:
    try:
        return platform.link(source, target, "pinned" if memory in MADE else memory)
    except PlatformError:
        return None


def _queue_name(platform: Platform, link: Link | None, source: str, target: str) -> str:
    alone = link is not None and link.memory == "peer" and platform.device(source).peer_engines == 1
    return source if alone else copy_lane(source, target)


def _scarce(platform: Platform) -> dict[str, float]:
    """Rates of the capacities that are less than the queues which cross them can use at once.

    Links that a fabric makes are not gone through: all its capacities count.
    """
    rates = capacity_rates(platform)
    if platform.fabric is not None:
        return rates
    asked: dict[str, dict[str, float]] = {name: {} for name in rates}
    for link in platform.links:
        queue = _queue_name(platform, link, link.source, link.target)
        for name in link.crosses:
            fastest = max(asked[name].get(queue, 0.0), link.bandwidth_bytes_per_s)
            asked[name][queue] = fastest
    return {name: rate for name, rate in rates.items() if math.fsum(asked[name].values()) > rate * ENOUGH}

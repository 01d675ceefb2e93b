"""How long tasks take on devices, and values between them, as schedulers see it."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from graphsched.costs import Costs
from graphsched.errors import PlatformError
from graphsched.estimates import task_cost
from graphsched.platform import Device, Link, Platform
from graphsched.platform.links import pinned_now, written_now
from graphsched.schedulers.placing.candidates import Devices
from graphsched.workload import Memory, Task

FLOATS = {float}

HostMemory = Memory | Literal["made", "written"]
"""Kind of host memory that a GPU reads from; ``made``: a task on the CPU returned what lies there, and its lane copies
that into pinned memory first (`plan.pinning`); ``written``: and no lane has computed since, so that cores are slow to
hand it out (`simulator.written_copies`)."""

MADE = "made", "written"

Seconds = tuple[float, ...]
Arrivals = tuple[list[float], Sequence[int]]
"""Times, and of each device the place of its time among them."""


def costs_in(mode: str, costs: Costs) -> Costs:
    """`costs` as a plan has them that runs in `mode`: in ``graph`` mode those inside a CUDA graph, where known.

    Example:
        >>> from graphsched.costs import TaskCost
        >>> costs = Costs({("mm", "H200"): TaskCost(6e-6, graph_s=5e-6), ("add", "H200"): TaskCost(2e-6)})
        >>> [cost.device_s for cost in map(costs_in("graph", costs).__getitem__, costs)]
        [5e-06, 2e-06]
        >>> costs_in("eager", costs) is costs
        True
    """
    if mode != "graph":
        return costs
    return Costs({key: costs[key].in_graph() for key in costs}, costs.pairs)


class Durations:
    """Seconds of tasks alone on devices (CPU lanes at their present pace); each distinct one is looked up once."""

    def __init__(self, platform: Platform, costs: Costs | None) -> None:
        self._platform = platform
        self._costs = costs
        self._known: dict[tuple[str, Devices], Seconds] = {}
        self._last: dict[Task, tuple[Devices, Seconds]] = {}  # of given durations, for the devices asked for last

    def row(self, task: Task, devices: Devices) -> Seconds:
        """Seconds of `task` on each of `devices`: given, measured or estimated.

        Raises:
            CostError: Durations were given, but none for one of the devices or its kind.
        """
        last = self._last.get(task)
        if last is not None and last[0] == devices:
            return last[1]
        if task.duration_s is not None:
            return self._given(task, devices)
        row = self._known.get((task.signature, devices)) if task.signature else None
        if row is None:
            row = self._known[task.signature, devices] = self._found(task, devices)
        return row

    def _found(self, task: Task, devices: Devices) -> Seconds:
        return tuple([self._seconds(task, self._platform.device(name)) for name in devices])

    def _seconds(self, task: Task, device: Device) -> float:
        cost = task_cost(task, device, self._costs)
        if device.kind == "cuda":
            return cost.device_s
        return cost.on_lane_at(self._platform.dispatch.product_s, self._platform.dispatch.sweep_s)

    def _given(self, task: Task, devices: Devices) -> Seconds:
        """Durations given for devices by name, or for all of them; otherwise looked up one by one."""
        given: Any = task.duration_s
        row: Any = tuple(map(given.get, devices)) if isinstance(given, dict) else (given,) * len(devices)
        plain = set(map(type, row)) == FLOATS and min(row) >= 0.0 and sum(row) < math.inf  # nor is there a NaN
        found: Seconds = row if plain else self._found(task, devices)
        self._last[task] = devices, found
        return found


class Transfers:
    """Seconds of copies, each alone on its link.

    Args:
        platform: Whose links.
        counts: Compute lanes of each device, by which means are weighted; 1 for others.
    """

    def __init__(self, platform: Platform, counts: Mapping[str, int]) -> None:
        self._platform = platform
        self._counts = counts
        self._pinned = _pinned_link(platform)
        self._links: dict[tuple[str, HostMemory], dict[str, Link]] = {}
        self._rows: dict[tuple[str, int, HostMemory], dict[str, float]] = {}
        self._means: dict[tuple[Devices, Devices], tuple[float, float]] = {}

    def row(self, source: str, nbytes: int, memory: HostMemory = "pinned") -> Mapping[str, float]:
        """Seconds of `nbytes` from `source` to every device: 0 to itself, infinite where no link leads.

        `memory` is the kind of host memory that GPUs read from.
        """
        row = self._rows.get((source, nbytes, memory))
        if row is None:
            row = {d.name: math.inf for d in self._platform.devices}
            before_s = self.before_s(memory, nbytes)
            row |= {
                target: before_s + link.duration_s(nbytes) for target, link in self._links_from(source, memory).items()
            }
            row[source] = 0.0
            self._rows[source, nbytes, memory] = row
        return row

    def before_s(self, memory: HostMemory, nbytes: int) -> float:
        """Seconds that go by before a copy to a GPU can begin; 0 where the link of that is not known.

        Not modelled: that the lane is taken meanwhile; that copies to the GPUs of other ranks are messages, which need
        no such memory.
        """
        return self._pinned.duration_s(nbytes) if memory in MADE and self._pinned is not None else 0.0

    def link(self, source: str, memory: HostMemory, target: str) -> Link | None:
        """The link from `source` to `target`, if there is one; `memory` as in `row`."""
        return self._links_from(source, memory).get(target)

    def ways_to(self, devices: Devices) -> Ways:
        """Ways to `devices`."""
        return Ways(devices, self._links_from, self.before_s)

    def asked_s(self, source: str, target: str, memory: Memory, nbytes: int) -> float:
        """Seconds of a copy that the workload asks for; 0 where no link leads (no plan can be made then)."""
        try:
            return self._platform.link(source, target, memory).duration_s(nbytes)
        except PlatformError:
            return 0.0

    def mean_asked_s(self, sources: Sequence[str], target: str, memory: Memory, nbytes: int) -> float:
        """Mean of `asked_s` over `sources`."""
        return sum(self.asked_s(source, target, memory, nbytes) for source in sources) / len(sources)

    def mean_s(self, sources: Devices, targets: Devices, nbytes: int) -> float:
        """Mean seconds of `nbytes` over pairs of distinct lanes, one on `sources` and one on `targets`.

        Latencies and inverse bandwidths are averaged; pairs on one device take no time.
        """
        mean = self.mean(sources, targets)
        return mean[0] + nbytes * mean[1]

    def mean(self, sources: Devices, targets: Devices) -> tuple[float, float]:
        """Mean latency in seconds, and mean seconds a byte, of `mean_s`."""
        return self._means.get((sources, targets)) or self._mean(sources, targets)

    def _mean(self, sources: Devices, targets: Devices) -> tuple[float, float]:
        latency = per_byte = 0.0
        pairs = 0
        for source in sources:
            links, lanes = self._links_from(source, "pinned"), self._counts.get(source, 1)
            for target in targets:
                if source == target:
                    pairs += lanes * (lanes - 1)
                elif target in links:
                    weight = lanes * self._counts.get(target, 1)
                    pairs += weight
                    for link in (links[target], *self._pinning(source, target)):
                        latency += weight * link.latency_s
                        per_byte += weight / link.bandwidth_bytes_per_s
        mean = (latency / pairs, per_byte / pairs) if pairs else (0.0, 0.0)
        self._means[sources, targets] = mean
        return mean

    def _pinning(self, source: str, target: str) -> Sequence[Link]:
        """What the result of a task on `source` takes before it takes the link to `target`."""
        to_gpu = source == "cpu" and self._platform.device(target).kind == "cuda"
        return (self._pinned,) if to_gpu and self._pinned is not None else ()

    def _links_from(self, source: str, memory: HostMemory) -> dict[str, Link]:
        found = self._links.get((source, memory))
        if found is None:
            self._platform.device(source)
            found, fetch_s = {}, self._platform.dispatch.fetch_s
            self._links[source, memory] = found
            for device in self._platform.devices:
                kind = memory if device.kind == "cuda" and memory not in MADE else "pinned"
                try:
                    link = self._platform.link(source, device.name, kind)
                except PlatformError:
                    continue
                found[device.name] = _handed_out(written_now(link, fetch_s)) if memory == "written" else link
        return found


def _handed_out(link: Link) -> Link:
    """`link`, with what cores are slow to hand out (`Link.written_s`) as a part of its times."""
    if not link.written_s:
        return link
    seconds = tuple(map(operator.add, link.seconds, link.written_s))
    return replace(link, seconds=seconds, written_s=())


def _pinned_link(platform: Platform) -> Link | None:
    """What says how long the way into pinned memory takes; None where there are no GPUs, or this is not known.

    Where the host's memory is joined to GPUs in another way than by pinned memory nothing goes there.
    """
    gpus = [device.name for device in platform.devices if device.kind == "cuda"]
    try:
        by_pinned = gpus and platform.link("cpu", gpus[0], "pinned").memory == "pinned"
        link = platform.link("cpu", "cpu", "pinned") if by_pinned else None
    except PlatformError:
        return None
    return pinned_now(link, platform.dispatch.pinned_s) if link is not None else None


class Ways:
    """How values come to some devices; links that take the same times count once.

    Example:
        >>> from graphsched.platform import Device
        >>> names = ("cuda:0", "cuda:1", "cuda:2")
        >>> links = tuple(Link("cuda:0", name, "peer", 1.0, 2.0) for name in names[1:])
        >>> here = Platform("three", tuple(Device(name, "cuda") for name in names), links)
        >>> Transfers(here, {}).ways_to(names).arrivals("cuda:0", "pinned", nbytes=4, written_s=5.0)
        ([5.0, 8.0], [0, 1, 1])
    """

    def __init__(
        self,
        devices: Devices,
        links_from: Callable[[str, HostMemory], Mapping[str, Link]],
        before_s: Callable[[HostMemory, int], float],
    ) -> None:
        """``links_from(source, memory)``: links by target; ``before_s(memory, nbytes)``: as in `Transfers`."""
        self._devices, self._links_from, self._before_s = devices, links_from, before_s
        self._known: dict[tuple[str, HostMemory], tuple[list[Callable[[int], float]], list[int]]] = {}

    def arrivals(self, source: str, memory: HostMemory, nbytes: int, written_s: float) -> Arrivals:
        """When what is on `source` since `written_s` can be on each of the devices: infinite where no link leads."""
        known = self._known.get((source, memory))
        if known is None:
            known = self._known[source, memory] = self._distinct(source, memory)
        durations, places = known
        ready_s = written_s + self._before_s(memory, nbytes)
        return [written_s, *[ready_s + seconds(nbytes) for seconds in durations]], places

    def _distinct(self, source: str, memory: HostMemory) -> tuple[list[Callable[[int], float]], list[int]]:
        """What gives the seconds to the devices but `source`, each once, and of each device its place in `arrivals`."""
        links = self._links_from(source, memory)
        found: dict[object, Callable[[int], float]] = {}
        places = []
        for device in self._devices:
            link = links.get(device)
            kind = (link.latency_s, link.bandwidth_bytes_per_s, link.sizes_bytes, link.seconds) if link else None
            if device != source:
                found.setdefault(kind, link.duration_s if link else never)
            places.append(0 if device == source else 1 + list(found).index(kind))
        return list(found.values()), places


def never(nbytes: int) -> float:  # noqa: ARG001 - stands for a link
    """Seconds where no link leads."""
    return math.inf

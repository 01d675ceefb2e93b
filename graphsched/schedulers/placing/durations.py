"""How long tasks take on devices, and values between them, as schedulers see it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from graphsched.costs import Costs
from graphsched.errors import PlatformError
from graphsched.estimates import task_cost
from graphsched.platform import Device, Link, Platform
from graphsched.schedulers.placing.candidates import Devices
from graphsched.workload import Memory, Task

FLOATS = {float}

HostMemory = Memory | Literal["made"]
"""Kind of host memory that a GPU reads from; ``made``: a task on the CPU has just returned what lies there."""

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
        return cost.device_s if device.kind == "cuda" else cost.on_lane_at(self._platform.dispatch.product_s)

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
            row |= {target: link.duration_s(nbytes) for target, link in self._links_from(source, memory).items()}
            row[source] = 0.0
            self._rows[source, nbytes, memory] = row
        return row

    def link(self, source: str, memory: HostMemory, target: str) -> Link | None:
        """The link from `source` to `target`, if there is one; `memory` as in `row`."""
        return self._links_from(source, memory).get(target)

    def ways_to(self, devices: Devices) -> Ways:
        """Ways to `devices`."""
        return Ways(devices, self._links_from)

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
            links, lanes = self._links_from(source, "made"), self._counts.get(source, 1)
            for target in targets:
                if source == target:
                    pairs += lanes * (lanes - 1)
                elif target in links:
                    weight = lanes * self._counts.get(target, 1)
                    pairs += weight
                    latency += weight * links[target].latency_s
                    per_byte += weight / links[target].bandwidth_bytes_per_s
        mean = (latency / pairs, per_byte / pairs) if pairs else (0.0, 0.0)
        self._means[sources, targets] = mean
        return mean

    def _links_from(self, source: str, memory: HostMemory) -> dict[str, Link]:
        found = self._links.get((source, memory))
        if found is None:
            self._platform.device(source)
            found = self._links[source, memory] = {}
            for device in self._platform.devices:
                kind: HostMemory = memory if device.kind == "cuda" else "pinned"
                try:
                    link = self._platform.link(source, device.name, "pinned" if kind == "made" else kind)
                except PlatformError:
                    continue
                found[device.name] = _made(self._platform, link) if kind == "made" and source == "cpu" else link
        return found


def _made(platform: Platform, link: Link) -> Link:
    """`link` from pinned memory to a GPU, for what a task on the CPU has just returned.

    Its lane copies it into pinned memory first (`plan.pinning`), and cores are slow to hand it out (`Link.written_s`).

    Not modelled: that the lane is taken meanwhile; that it may compute on, so that its cores are not slow.
    """
    try:
        pinned = platform.link("cpu", "cpu", "pinned") if link.memory == "pinned" else None
    except PlatformError:
        pinned = None
    if pinned is None:
        return link
    points = zip(link.sizes_bytes, link.seconds, link.written_s or itertools.repeat(0.0), strict=False)
    return replace(
        link,
        latency_s=link.latency_s + pinned.latency_s,
        bandwidth_bytes_per_s=1.0 / (1.0 / link.bandwidth_bytes_per_s + 1.0 / pinned.bandwidth_bytes_per_s),
        seconds=tuple(seconds + pinned.duration_s(nbytes) + written_s for nbytes, seconds, written_s in points),
        written_s=(),
    )


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

    def __init__(self, devices: Devices, links_from: Callable[[str, HostMemory], Mapping[str, Link]]) -> None:
        """``links_from(source, memory)``: links by target."""
        self._devices, self._links_from = devices, links_from
        self._known: dict[tuple[str, HostMemory], tuple[list[Callable[[int], float]], list[int]]] = {}

    def arrivals(self, source: str, memory: HostMemory, nbytes: int, written_s: float) -> Arrivals:
        """When what is on `source` since `written_s` can be on each of the devices: infinite where no link leads."""
        known = self._known.get((source, memory))
        if known is None:
            known = self._known[source, memory] = self._distinct(source, memory)
        durations, places = known
        return [written_s, *[written_s + seconds(nbytes) for seconds in durations]], places

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

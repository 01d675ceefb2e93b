"""How long tasks take on devices, and values between them, as schedulers see it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from graphsched.costs import Costs, check_seconds
from graphsched.errors import PlatformError
from graphsched.estimates import task_cost
from graphsched.platform import Link, Platform
from graphsched.schedulers.candidates import Devices
from graphsched.workload import Memory, Task

Seconds = tuple[float, ...]


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
    """Seconds of tasks alone on devices; each distinct operation is looked up once."""

    def __init__(self, platform: Platform, costs: Costs | None) -> None:
        self._platform = platform
        self._costs = costs
        self._known: dict[tuple[str, Devices], Seconds] = {}

    def row(self, task: Task, devices: Devices) -> Seconds:
        """Seconds of `task` on each of `devices`: given, measured or estimated.

        Raises:
            CostError: Durations were given, but none for one of the devices or its kind.
        """
        if task.duration_s is not None:
            return tuple(self._given(task, device) for device in devices)
        key = (task.signature, devices)
        row = self._known.get(key) if task.signature else None
        if row is None:
            row = tuple(task_cost(task, self._platform.device(d), self._costs).device_s for d in devices)
            self._known[key] = row
        return row

    def _given(self, task: Task, device: str) -> float:
        given = task.duration_s
        if isinstance(given, Mapping):
            given = given.get(device)
        if given is None:  # given by kind of device, or missing
            return task_cost(task, self._platform.device(device), self._costs).device_s
        return check_seconds(given, f"duration of task {task.name!r} on {device}")


class Transfers:
    """Seconds of copies, each alone on its link.

    Args:
        platform: Whose links.
        counts: Compute lanes of each device, by which means are weighted; 1 for others.
    """

    def __init__(self, platform: Platform, counts: Mapping[str, int]) -> None:
        self._platform = platform
        self._counts = counts
        self._links: dict[tuple[str, Memory], dict[str, Link]] = {}
        self._rows: dict[tuple[str, int, Memory], dict[str, float]] = {}
        self._means: dict[tuple[Devices, Devices], tuple[float, float]] = {}

    def row(self, source: str, nbytes: int, memory: Memory = "pinned") -> Mapping[str, float]:
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
        mean = self._means.get((sources, targets))
        if mean is None:
            mean = self._means[sources, targets] = self._mean(sources, targets)
        return mean[0] + nbytes * mean[1]

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
                    latency += weight * links[target].latency_s
                    per_byte += weight / links[target].bandwidth_bytes_per_s
        return (latency / pairs, per_byte / pairs) if pairs else (0.0, 0.0)

    def _links_from(self, source: str, memory: Memory) -> dict[str, Link]:
        found = self._links.get((source, memory))
        if found is None:
            self._platform.device(source)
            found = self._links[source, memory] = {}
            for device in self._platform.devices:
                try:
                    kind: Memory = memory if device.kind == "cuda" else "pinned"
                    found[device.name] = self._platform.link(source, device.name, kind)
                except PlatformError:
                    continue
        return found

"""Times that no plan can beat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graphsched.costs import Costs, TaskCost
from graphsched.estimates import task_cost
from graphsched.plan import lies_pageable
from graphsched.platform import Platform
from graphsched.schedulers.candidates import Devices, find_candidates
from graphsched.schedulers.durations import costs_in
from graphsched.workload import Memory, Read, Task, Value, Workload


def lower_bound(work: Workload, platform: Platform, costs: Costs | None = None, *, mode: str = "eager") -> float:
    """Seconds that any plan of `work` on `platform` takes at least in `mode`: the largest of the three bounds.

    Not modelled: dispatch, and transfers that a plan could do without.

    Example:
        >>> import networkx as nx
        >>> from graphsched.platform import Device
        >>> graph = nx.DiGraph([("a", "b"), ("a", "c"), ("a", "d")])
        >>> nx.set_node_attributes(graph, 1.0, "duration_s")
        >>> two = Platform("two", (Device("cuda:0", "cuda"), Device("cuda:1", "cuda")))
        >>> lower_bound(Workload.from_graph(graph), two)
        2.0
    """
    return max(
        critical_path_bound(work, platform, costs, mode=mode),
        work_bound(work, platform, costs, mode=mode),
        link_bound(work, platform),
    )


def critical_path_bound(
    work: Workload, platform: Platform, costs: Costs | None = None, *, mode: str = "eager"
) -> float:
    """Seconds of the longest path, each task on the device where it is fastest, with no communication.

    Copies that the workload asks for count as nothing. In `mode` ``graph`` tasks take what they take inside a CUDA
    graph, where that is known.
    """
    candidates = find_candidates(work, platform)
    fastest = _Fastest(platform, costs, mode)
    end_s: dict[str, float] = {}
    for task in work.tasks:
        ready = max((end_s[name] for name in work.graph.pred[task.name]), default=0.0)
        devices = candidates.devices.get(task.name)
        end_s[task.name] = ready + (fastest.alone_s(task, devices) if devices else 0.0)
    return max(end_s.values(), default=0.0)


def work_bound(work: Workload, platform: Platform, costs: Costs | None = None, *, mode: str = "eager") -> float:
    """Seconds that the devices need for all tasks if each is always busy and no task waits.

    A task takes up a share of its device: the time it takes beside copies of itself, for each of
    them, at best (`TaskCost.slowdown`); without a measured curve the whole device. CPU and worker
    lanes are processors of their own. Tasks that only some devices may run are also bounded by those.
    Times are those of `mode`, as in `critical_path_bound`.

    Not modelled: cores that CPU and worker lanes share.
    """
    candidates = find_candidates(work, platform)
    fastest = _Fastest(platform, costs, mode)
    shares: dict[Devices, float] = {}
    for task in work.tasks:
        if task.kind == "run":
            devices = candidates.devices[task.name]
            shares[devices] = shares.get(devices, 0.0) + fastest.share_s(task, devices)
    sets = dict.fromkeys([*shares, candidates.used()])
    return max((_bound(within, shares, platform) for within in sets if within), default=0.0)


def link_bound(work: Workload, platform: Platform) -> float:
    """Seconds that the busiest shared capacity needs for the bytes that cross it in any plan, at its highest rate.

    Or, if that is more, the seconds of pageable copies: the thread issues one when the other is over.

    Those are the copies that the workload asks for, and those of values that tasks on another device
    need (once a device and version), where the workload leaves no choice of either end.

    Not modelled: copies whose source or target the plan may choose; latencies; the host memory's kind
    where a plan chooses it.

    Raises:
        PlatformError: A copy that no plan can do without has no link.

    Example:
        >>> from graphsched.platform import Device, Link
        >>> from graphsched.workload import TensorSpec
        >>> down = Link("cuda:0", "cpu", "pinned", 0.0, 100.0, crosses=("out",))
        >>> devices = (Device("cuda:0", "cuda"), Device("cpu", "cpu"))
        >>> work = Workload()
        >>> x = work.input("x", TensorSpec((50,)), device="cuda:0")
        >>> for _ in range(3):
        ...     copied = work.copy(x, to="cpu")
        >>> link_bound(work, Platform("desk", devices, (down,), {"out": 60.0}))
        10.0
    """
    nbytes: dict[str, int] = {}
    held_s = 0.0
    for read, source, target, memory in _forced_copies(work, platform):
        link = platform.link(source, target, memory)
        for name in link.crosses:
            nbytes[name] = nbytes.get(name, 0) + read.value.nbytes
        if link.blocking and "cuda" in (platform.device(source).kind, platform.device(target).kind):
            held_s += link.duration_s(read.value.nbytes)
    rates = capacity_rates(platform)
    return max([held_s, *(amount / rates[name] for name, amount in nbytes.items())])


def capacity_rates(platform: Platform) -> dict[str, float]:
    """The highest rate of each shared capacity, in bytes per second."""
    return dict(platform.capacities)


def _forced_copies(work: Workload, platform: Platform) -> Iterator[tuple[Read, str, str, Memory]]:
    """Copies of every plan: what is read, source, target and kind of host memory."""
    devices = find_candidates(work, platform).devices
    only = {name: found[0] for name, found in devices.items() if len(found) == 1}
    seen: set[tuple[str, str]] = set()
    for task in work.tasks:
        target = task.outputs[0].device if task.kind == "copy" else only.get(task.name)
        for read in task.reads if target is not None else ():
            source = _home(read.value, only)
            key = (str(read), str(target))
            if source is None or target is None or (task.kind == "run" and (source == target or key in seen)):
                continue
            if task.kind == "run":
                seen.add(key)
            to_gpu = source == "cpu" and platform.device(target).kind == "cuda"
            pageable = to_gpu and lies_pageable(work, read.value)
            yield read, source, target, "pageable" if pageable else task.memory


def _home(value: Value, only: Mapping[str, str]) -> str | None:
    """Where a value lives in every plan; None where plans differ."""
    if value.kind == "output" and value.device is None and value.producer is not None:
        return only.get(value.producer)
    return value.device


def _bound(within: Devices, shares: Mapping[Devices, float], platform: Platform) -> float:
    """Work of the tasks that run on devices of `within` only, over the processors there."""
    inside = set(within)
    total = sum(seconds for devices, seconds in shares.items() if inside.issuperset(devices))
    return total / sum(_processors(platform, name) for name in within)


def _processors(platform: Platform, name: str) -> int:
    device = platform.device(name)
    return 1 if device.kind == "cuda" else device.lanes


class _Fastest:
    """Least seconds of tasks over devices; each distinct operation is looked up once."""

    def __init__(self, platform: Platform, costs: Costs | None, mode: str) -> None:
        self._platform = platform
        self._costs = costs_in(mode, platform.costs if costs is None else costs)
        self._known: dict[tuple[str, Devices], tuple[float, float]] = {}
        self._first: dict[Devices, Devices] = {}

    def alone_s(self, task: Task, devices: Devices) -> float:
        """Least seconds of `task` alone."""
        return self._least(task, devices)[0]

    def share_s(self, task: Task, devices: Devices) -> float:
        """Least seconds of a whole device (of one CPU or worker lane) that `task` takes up."""
        return self._least(task, devices)[1]

    def _least(self, task: Task, devices: Devices) -> tuple[float, float]:
        key = (task.signature, devices)
        known = self._known.get(key) if task.duration_s is None and task.signature else None
        if known is not None:
            return known
        unlike = devices if isinstance(task.duration_s, Mapping) else self._unlike(devices)
        found = [(d, task_cost(task, self._platform.device(d), self._costs)) for d in unlike]
        alone = min(cost.device_s for _, cost in found)
        share = min(cost.device_s * self._share(d, cost) for d, cost in found)
        self._known[key] = (alone, share)
        return alone, share

    def _unlike(self, devices: Devices) -> Devices:
        """One device of each kind that costs tell apart."""
        if devices not in self._first:
            kinds: dict[tuple[object, ...], str] = {}
            for device in map(self._platform.device, devices):
                kinds.setdefault((device.kind, device.model, device.flop_per_s, device.bytes_per_s), device.name)
            self._first[devices] = tuple(kinds.values())
        return self._first[devices]

    def _share(self, device: str, cost: TaskCost) -> float:
        if self._platform.device(device).kind != "cuda":
            return 1.0
        return min([1.0, *(slowdown / k for k, slowdown in cost.concurrency if k > 0)])

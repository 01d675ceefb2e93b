"""Times that no plan can beat."""

from __future__ import annotations

from collections.abc import Mapping

from graphsched.costs import Costs, TaskCost
from graphsched.estimates import task_cost
from graphsched.platform import Platform
from graphsched.schedulers.candidates import Devices, find_candidates
from graphsched.workload import Task, Workload


def lower_bound(work: Workload, platform: Platform, costs: Costs | None = None) -> float:
    """Seconds that any plan of `work` on `platform` takes at least: the larger of the two bounds.

    Not modelled: dispatch, and transfers that the workload does not ask for.

    Example:
        >>> import networkx as nx
        >>> from graphsched.platform import Device
        >>> graph = nx.DiGraph([("a", "b"), ("a", "c"), ("a", "d")])
        >>> nx.set_node_attributes(graph, 1.0, "duration_s")
        >>> two = Platform("two", (Device("cuda:0", "cuda"), Device("cuda:1", "cuda")))
        >>> lower_bound(Workload.from_graph(graph), two)
        2.0
    """
    return max(critical_path_bound(work, platform, costs), work_bound(work, platform, costs))


def critical_path_bound(work: Workload, platform: Platform, costs: Costs | None = None) -> float:
    """Seconds of the longest path, each task on the device where it is fastest, with no communication.

    Copies that the workload asks for count as nothing.
    """
    candidates = find_candidates(work, platform)
    fastest = _Fastest(platform, costs)
    end_s: dict[str, float] = {}
    for task in work.tasks:
        ready = max((end_s[name] for name in work.graph.pred[task.name]), default=0.0)
        devices = candidates.devices.get(task.name)
        end_s[task.name] = ready + (fastest.alone_s(task, devices) if devices else 0.0)
    return max(end_s.values(), default=0.0)


def work_bound(work: Workload, platform: Platform, costs: Costs | None = None) -> float:
    """Seconds that the devices need for all tasks if each is always busy and no task waits.

    A task takes up a share of its device: the time it takes beside copies of itself, for each of
    them, at best (`TaskCost.slowdown`); without a measured curve the whole device. CPU and worker
    lanes are processors of their own. Tasks that only some devices may run are also bounded by those.

    Not modelled: cores that CPU and worker lanes share.
    """
    candidates = find_candidates(work, platform)
    fastest = _Fastest(platform, costs)
    shares: dict[Devices, float] = {}
    for task in work.tasks:
        if task.kind == "run":
            devices = candidates.devices[task.name]
            shares[devices] = shares.get(devices, 0.0) + fastest.share_s(task, devices)
    sets = dict.fromkeys([*shares, candidates.used()])
    return max((_bound(within, shares, platform) for within in sets if within), default=0.0)


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

    def __init__(self, platform: Platform, costs: Costs | None) -> None:
        self._platform = platform
        self._costs = platform.costs if costs is None else costs
        self._known: dict[tuple[str, Devices], tuple[float, float]] = {}

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
        found = [(d, task_cost(task, self._platform.device(d), self._costs)) for d in devices]
        alone = min(cost.device_s for _, cost in found)
        share = min(cost.device_s * self._share(d, cost) for d, cost in found)
        self._known[key] = (alone, share)
        return alone, share

    def _share(self, device: str, cost: TaskCost) -> float:
        if self._platform.device(device).kind != "cuda":
            return 1.0
        return min([1.0, *(slowdown / k for k, slowdown in cost.concurrency if k > 0)])

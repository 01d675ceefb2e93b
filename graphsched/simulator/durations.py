"""How long each task and transfer of a plan takes alone; every distinct one is looked up once."""

from __future__ import annotations

from collections import Counter

from graphsched.costs import TaskCost
from graphsched.errors import PlatformError
from graphsched.estimates import collective_cost, dispatched, task_cost
from graphsched.plan import Copy, Plan, just_written, pinned_results
from graphsched.plan.joins import CAT
from graphsched.platform import Device, Dispatch, Link
from graphsched.platform.links import pinned_now, written_now
from graphsched.simulator.footprints import memory_of
from graphsched.simulator.network import Route
from graphsched.workload import Task


class Durations:
    """Costs of a plan's tasks and links.

    Attributes:
        memory: Bytes by device that graphs of the plan work on; empty in other modes.
        estimated: Names of tasks whose costs are estimates, in plan order.
        uncached: How far CPU lanes are from finding everything in caches, see `simulator.host_cache`.
    """

    def __init__(self, plan: Plan) -> None:
        """In graph mode, tasks cost what they do inside a CUDA graph that works on so much memory."""
        self._plan, self._graph = plan, plan.mode == "graph"
        self._known = plan.costs if plan.costs else None  # asked once, since that counts its rows
        self.memory: Counter[str] = memory_of(plan) if self._graph else Counter()
        self._tasks: dict[tuple[object, ...], TaskCost] = {}
        self._links: dict[tuple[str, str, str], Link] = {}
        self._pinnings_s: dict[float, dict[str, float]] = {}
        self._routes: dict[tuple[str, str, str, int], Route] = {}
        self._ends: dict[tuple[str, str], int] = {}
        self.estimated: dict[str, None] = {}
        self.uncached = 1.0

    def task(self, task: Task, device: Device) -> TaskCost:
        """Cost of `task` alone on `device`."""
        known, given = self._known, task.duration_s
        key: tuple[object, ...]
        if given is None:
            key = (task.signature, device.name)
        elif given == 0.0 and self._plan.mode == "distributed" and CAT in task.signature:
            return self._concatenated(task, device)
        elif isinstance(given, float) and not (known and known.get(task.signature, device.model)):
            key = (given, task.operation is None, device.kind)
        else:
            return self._here(task_cost(task, device, self._plan.costs), device)
        cost = self._tasks.get(key)
        if cost is None:
            cost = self._here(task_cost(task, device, self._plan.costs), device)
            if cost.source == "estimated":
                self.estimated[task.name] = None
                return cost
            self._tasks[key] = cost
        return cost

    def collective(self, task: Task) -> TaskCost:
        """Cost of a collective alone."""
        cost = collective_cost(task, self._plan.platform, self._plan.costs, self._plan.mode)
        if cost.source == "estimated":
            self.estimated[task.name] = None
        return cost

    def _concatenated(self, task: Task, device: Device) -> TaskCost:
        """Cost of a concatenation on a rank, whose parts come in memory of their own: each byte is read and written."""
        nbytes = sum(value.nbytes for value in task.outputs)
        return self._here(TaskCost(2 * nbytes / device.bytes_per_s, source="given"), device)

    def _here(self, cost: TaskCost, device: Device) -> TaskCost:
        if device.kind == "cpu":
            cost = cost.among(self.uncached)
        return cost.in_graph(self.memory[device.name]) if self._graph else dispatched(cost, device)

    def link(self, copy: Copy) -> Link:
        """The link that `copy` takes."""
        key = (copy.source, copy.target, copy.memory)
        link = self._links.get(key)
        if link is None:
            link = self._links[key] = self._plan.platform.link(*key)
        return link

    def pinning_s(self, task: Task, costs: Dispatch) -> float:
        """Seconds in which a CPU lane with the yardstick of `costs` copies what `task` wrote into pinned memory.

        0 where that is unknown.
        """
        if costs.pinned_s not in self._pinnings_s:
            self._pinnings_s[costs.pinned_s] = self._pinned_in_s(costs.pinned_s)
        return self._pinnings_s[costs.pinned_s].get(task.name, 0.0)

    def _pinned_in_s(self, pinned_s: float) -> dict[str, float]:
        pinned = pinned_results(self._plan)
        try:
            link = pinned_now(self._plan.platform.link("cpu", "cpu", "pinned"), pinned_s) if pinned else None
        except PlatformError:
            link = None
        if link is None:
            return {}
        ways = [(copy, self.link(copy).memory) for copy in self._plan.copies.values() if copy.source == "cpu"]
        by_pinned = {copy.read for copy, memory in ways if memory == "pinned"}
        return {
            task: sum([self._pinned_s(link, read.value.nbytes) for read in reads if read in by_pinned])
            for task, reads in pinned.items()
        }

    def _pinned_s(self, link: Link, nbytes: int) -> float:
        """Over `link`; where caches hold both ends, as copies within the host's memory take in a row."""
        far_s = link.duration_s(nbytes)
        if self.uncached == 1.0:
            return far_s
        near_s = min(far_s, self._plan.platform.link("cpu", "cpu", "local").duration_s(nbytes))
        return near_s + self.uncached * (far_s - near_s)

    def written_longer_s(self, copy: Copy, fetch_s: float) -> float:
        """Seconds that `copy` takes longer while no CPU lane computes: one has just written what it brings.

        `fetch_s`: what the yardstick of such copies takes longer now (`Dispatch`).
        """
        if not just_written(self._plan, copy):
            return 0.0
        return written_now(self.link(copy), fetch_s).written_longer_s(copy.read.value.nbytes)

    def route(self, copy: Copy, crosses: tuple[int, ...], on_cores: bool) -> Route:
        """What `copy` asks of the network; alone and unhindered it takes `Link.duration_s`.

        The bytes flow at the link's bandwidth at most; what the measured duration has beyond that is
        latency. A measured duration that is shorter shortens the flow, not the latency.
        """
        nbytes = copy.read.value.nbytes
        key = (copy.source, copy.target, copy.memory, nbytes)
        route = self._routes.get(key)
        if route is None:
            ends = self._ends.setdefault(key[:2], len(self._ends))
            route = self._routes[key] = _route(self.link(copy), nbytes, crosses, on_cores, ends)
        return route


def _route(link: Link, nbytes: int, crosses: tuple[int, ...], on_cores: bool, ends: int) -> Route:
    whole_s, bandwidth = link.duration_s(nbytes), link.bandwidth_bytes_per_s
    flow_s = min(nbytes / bandwidth, max(0.0, whole_s - link.latency_s))
    if flow_s <= 0.0:
        return Route(whole_s, 0.0, bandwidth, crosses, on_cores, ends)
    limit = bandwidth if flow_s == nbytes / bandwidth else nbytes / flow_s
    return Route(whole_s - flow_s, float(nbytes), limit, crosses, on_cores, ends)

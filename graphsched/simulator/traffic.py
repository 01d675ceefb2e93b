"""Copies beside kernels: both move bytes in a GPU's memory, so a kernel that fills its bandwidth goes slower.

A kernel whose memory share is m (the bytes that its task reads and writes, over its time alone, over the device's
rate) goes at 1 / (1 + m · (in · a + out · b) / rate) beside transfers that bring a bytes per second into its GPU
and take b out of it. ``in`` and ``out`` are measured (`Device.traffic_in`, `Device.traffic_out`), 0 where unknown.

Not modelled: copies that kernels slow; copies within one GPU's memory; what inputs that still lie in a cache
save; kernels of one task that move bytes at different rates; kernels whose blocks are placed one by one
(`simulator.block_queue`), which copies do not slow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from graphsched.costs import TaskCost
from graphsched.plan import Copy, Plan
from graphsched.platform import Device
from graphsched.simulator.compute import ComputeSharing
from graphsched.workload import Task

LEAST_SHARE = 0.05  # a kernel that moves fewer bytes is slowed by a thousandth at most

Pressures = Mapping[int, tuple[tuple[int, float], ...]]
"""Of a copy, by action: (pool, how much longer a kernel of memory share 1 takes there, per byte and second)."""


def memory_share(task: Task, cost: TaskCost, device: Device) -> float:
    """Share of the device's memory rate that `task` takes when it is alone; at most 1.

    Example:
        >>> from graphsched.workload import TensorSpec, Workload
        >>> work = Workload()
        >>> x = work.input("x", TensorSpec((100,), "uint8"))
        >>> _ = work.task("add", x, name="add", outputs=[TensorSpec((100,), "uint8")])
        >>> memory_share(work["add"], TaskCost(2.0), Device("cuda:0", "cuda", bytes_per_s=400.0))
        0.25
    """
    if cost.device_s <= 0.0:
        return 0.0
    nbytes = task.nbytes + sum(value.nbytes for value in task.updates)
    return min(1.0, nbytes / cost.device_s / device.bytes_per_s)


def memory_shares(plan: Plan, costs: Mapping[int, TaskCost]) -> dict[int, float]:
    """Memory shares of the tasks that a copy of `plan` could slow, by action.

    Args:
        costs: Of the tasks on GPUs.
    """
    touched = {name for copy in plan.copies.values() for name, _ in pressed(plan, copy)}
    if not touched:
        return {}
    tasks = dict(plan.work.graph.nodes(data="task"))
    found = {}
    for i, cost in costs.items():
        device = plan.lanes[plan.lane_of[i]].device
        if device in touched:
            share = memory_share(tasks[plan.names[i]], cost, plan.platform.device(device))
            if share > LEAST_SHARE:
                found[i] = share
    return found


def pressed(plan: Plan, copy: Copy) -> list[tuple[str, float]]:
    """Devices whose kernels `copy` slows, and what one of memory share 1 takes longer, per byte and second."""
    if copy.source == copy.target:
        return []
    into, out = plan.platform.device(copy.target), plan.platform.device(copy.source)
    ends = ((into, into.traffic_in), (out, out.traffic_out))
    return [(device.name, factor / device.bytes_per_s) for device, factor in ends if factor > 0.0]


class Traffic:
    """What the transfers under way cost the kernels of each pool.

    Attributes:
        longer: By pool, how much longer a kernel of memory share 1 takes now, as a fraction of its time alone.

    Example:
        >>> traffic = Traffic({7: ((0, 0.25), (1, 0.5))}, pools=3)
        >>> traffic.changed([(7, 2.0)]), traffic.longer
        ([0, 1], [0.5, 1.0, 0.0])
        >>> traffic.changed([(7, 2.0), (8, 1.0)])
        []
    """

    def __init__(self, pressures: Pressures, pools: int) -> None:
        self._pressures = pressures
        self.longer = [0.0] * pools

    def changed(self, rates: Iterable[tuple[int, float]]) -> list[int]:
        """Take note of the transfers under way and their rates, in bytes per second; pools where that matters."""
        before, self.longer = self.longer, [0.0] * len(self.longer)
        for action, rate in rates:
            for pool, per_rate in self._pressures.get(action, ()):
                self.longer[pool] += per_rate * rate
        return [pool for pool, longer in enumerate(self.longer) if longer != before[pool]]


class BesideTraffic:
    """A rule of sharing, its rates lowered by the traffic of one pool."""

    def __init__(self, sharing: ComputeSharing, shares: Mapping[int, float], traffic: Traffic, pool: int) -> None:
        """`shares`: memory shares by action; those without one are not slowed."""
        self._sharing, self._shares, self._traffic, self._pool = sharing, shares, traffic, pool

    def start(self, action: int) -> None:
        """`action` starts on the device."""
        self._sharing.start(action)

    def end(self, action: int) -> None:
        """`action` is over."""
        self._sharing.end(action)

    def rates(self) -> Sequence[tuple[int, float]]:
        """Rates beside what runs and what is copied at present."""
        rates, longer = self._sharing.rates(), self._traffic.longer[self._pool]
        if not longer:
            return rates
        return [(action, rate / (1.0 + self._shares.get(action, 0.0) * longer)) for action, rate in rates]


class Unshared:
    """No task slows another: what copies leave of the device is each one's own."""

    def __init__(self) -> None:
        self._running: dict[int, None] = {}

    def start(self, action: int) -> None:
        """`action` starts on the device."""
        self._running[action] = None

    def end(self, action: int) -> None:
        """`action` is over."""
        del self._running[action]

    def rates(self) -> list[tuple[int, float]]:
        """Rate 1 for all."""
        return [(action, 1.0) for action in self._running]

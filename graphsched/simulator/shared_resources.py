"""What the actions of a plan share, and how the use of one thing changes another.

Devices, the cores of the host and the links are resources, each with rates of its own. Copies take cores and memory
rates from tasks, and tasks from copies.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from graphsched.simulator.block_queue import BlockQueue
from graphsched.simulator.code_fetches import Fetches
from graphsched.simulator.columns import Columns
from graphsched.simulator.compute import CoreSharing, Pool, device_resource
from graphsched.simulator.fluid import Resource, Timer, no_longer_s
from graphsched.simulator.network import Network
from graphsched.simulator.traffic import BesideTraffic, MemoryUse, Traffic, Unshared
from graphsched.simulator.written_copies import WrittenCopies


class SharedResources:
    """The resources of one run.

    Attributes:
        pools: By number, as `Columns.resource` has them: devices, and the cores last.
        cores: Of the host.
        network: The links.
        queues: Devices in whose queue of blocks some may end that are not the last of their kernel.
        coupled: Whether the use of one changes another.
    """

    def __init__(self, columns: Columns, timer: Timer, end_s: Sequence[float]) -> None:
        """`timer`: has a resource looked at again at a time; `end_s`: of actions that are over."""
        self._columns, self._traffic = columns, Traffic(columns.pressures, columns.pools)
        devices = [_pool(columns, k, timer) for k in range(columns.pools - 1)]
        self._core_sharing = CoreSharing(columns.threads_of, columns.cores, columns.moved, columns.memory_bytes_per_s)
        running = [*(d.sharing if isinstance(d, Pool) else d for d in devices), self._core_sharing]
        self._use = MemoryUse(columns.shares, running, columns.several)
        self.queues = [d for d in devices if isinstance(d, BlockQueue)] if columns.slowed else []
        self.pools: list[Resource] = [_pressed(d, columns, self._traffic, k) for k, d in enumerate(devices)]
        self.cores = Pool(self._core_sharing, _work(columns, columns.pools - 1), timer)
        self.pools.append(_pressed(self.cores, columns, self._traffic, columns.pools - 1))
        self.network = Network(columns.routes, columns.capacities, timer, columns.tables, columns.slowed)
        self._written = WrittenCopies(columns.written, end_s, columns.to_host)
        self.coupled = bool(columns.held or columns.slowed or columns.pressures or columns.written)

    def couple(self, touched: dict[Resource, None], now: float) -> None:
        """Add to what is `touched` what that changes elsewhere: copies by cores and by kernels, kernels by copies."""
        if self._columns.held and self.cores in touched:
            self.network.share_cores(self._core_sharing.share)
            touched[self.network] = None
        if self._columns.written and (self.cores in touched or self.network in touched):
            self.network.fetch(self._written.longer(self.network.running, self._core_sharing.busy, now))
            touched[self.network] = None
        if self._columns.slowed and self._memory_changes(touched, now):
            touched[self.network] = None
        if self._columns.pressures and self.network in touched:
            self.network.refresh(now)
            touched.update((self.pools[k], None) for k in self._traffic.changed(self.network.rates()))

    def _memory_changes(self, touched: Collection[Resource], now: float) -> bool:
        """Whether kernels on the resources that are `touched` use other shares of memory rates, and a copy feels it."""
        for queue in self.queues:
            if queue in touched:
                queue.refresh(now)
        changed = [k for k, pool in enumerate(self.pools) if pool in touched]
        return self.network.share_memory(self._use.now(changed)) if changed else False


def _pool(columns: Columns, k: int, timer: Timer) -> Pool | BlockQueue:
    """What the tasks of a GPU share that has several busy lanes, or where copies and they slow each other."""
    work_s = _work(columns, k)
    if k >= columns.pools - 1 - columns.lone or columns.curve_of.keys().isdisjoint(work_s):
        return Pool(Unshared(), work_s, timer)
    kinds = (columns.curves, columns.curve_of, columns.pairs)
    fetches = {i: columns.fetches[i] for i in work_s if i in columns.fetches}
    longer_s = Fetches(fetches).longer_s if fetches else no_longer_s
    device = device_resource(*kinds, work_s, timer, queue=columns.block_queue, longer_s=longer_s)
    if isinstance(device, BlockQueue) and columns.slowed:
        device.looks_ahead = False
    return device


def _pressed(device: Pool | BlockQueue, columns: Columns, traffic: Traffic, k: int) -> Pool | BlockQueue:
    """`device`, pool `k`, with its rates lowered by traffic."""
    if isinstance(device, Pool) and columns.pressures:
        device.sharing = BesideTraffic(device.sharing, columns.shares, traffic, k)
    return device


def _work(columns: Columns, pool: int) -> dict[int, float]:
    used = pool in columns.resource
    return {i: columns.work_s[i] for i, k in enumerate(columns.resource) if k == pool} if used else {}

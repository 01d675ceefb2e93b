"""Copies beside kernels: both move bytes in a GPU's memory, so where a kernel fills its bandwidth both go slower.

So it is with copies beside tasks of the CPU and the host's memory: what is said of kernels holds for them.

A kernel whose memory share is m (the bytes that its task reads and writes, over its time alone, over the device's
rate) goes at 1 / (1 + m · (in · a + out · b) / rate) beside transfers that bring a bytes per second into its GPU
and take b out of it. ``in`` and ``out`` are measured (`Device.traffic_in`, `Device.traffic_out`), 0 where unknown.

A transfer from one GPU into another goes at no more than its link's rate / (1 + out · u + in · v), where kernels use
the parts u and v of the memory rates of the two: the sum of m times the kernel's present rate (1 is its speed alone),
at most 1. ``out`` and ``in`` are those of the kind of link, measured too (`Device.slowed_peer_out`, `slowed_peer_in`);
with the host's pinned memory there is one such end (`Device.slowed_out`, `slowed_in`). Only the transfer's own limit
falls: where a capacity that it shares already gives it less than that, kernels take nothing more. Kernels feel the
rates that copies have; copies do not feel how much they slow the kernels, so nothing has to be iterated.

Where kernels run on two or more of a GPU's lanes at once, of `LANES` or more that the plan has there, copies between it
and the host take longer by another fraction (`Device.lanes_in`, `lanes_out`), whatever these kernels move. It was found
in recorded plans on H100s and H200s, in both modes; why it is so, and not beside two lanes of two, is not known.

Not modelled: copies between GPUs beside several lanes, and that kernels which fill the memory rate slow copies more on
several lanes than on one; copies within one GPU's memory, and kernels that slow copies which are staged, or from and
to pageable memory (their rates are the host's); copies both ways that a kernel slows more than one; what inputs that
still lie in a cache save; kernels of one task that move bytes at different rates, and a last wave of blocks that moves
fewer; kernels whose blocks are placed one by one (`simulator.block_queue`) slow copies, but copies do not slow them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from graphsched.costs import TaskCost
from graphsched.plan import Copy, Plan
from graphsched.platform import Device, Link, Platform
from graphsched.platform.parts import LANE_FACTORS, MEMORY_FACTORS
from graphsched.simulator.block_queue import BlockQueue
from graphsched.simulator.compute import ComputeSharing
from graphsched.workload import Task

LANES = 3  # of a GPU in a plan: beside kernels on fewer, copies with the host are as fast as beside one (readings)
LEAST_SHARE = 0.05  # a kernel that moves fewer bytes is slowed by a thousandth at most, and slows by one per cent

Pressures = Mapping[int, tuple[tuple[int, float], ...]]
"""Of a copy, by action: (pool, how much longer a kernel of memory share 1 takes there, per byte and second)."""


class Coupling(NamedTuple):
    """What copies over one link, and kernels of memory share 1 at its ends, cost each other.

    Attributes:
        presses: (Device, how much longer a kernel takes there, as a fraction, per byte and second).
        slowed: (Device, how much longer a copy takes beside a kernel there, as a fraction).
        lanes: (Device, how much longer it takes beside kernels on several of its lanes).
    """

    presses: tuple[tuple[str, float], ...]
    slowed: tuple[tuple[str, float], ...]
    lanes: tuple[tuple[str, float], ...] = ()


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


def memory_shares(plan: Plan, costs: Mapping[int, TaskCost], devices: Collection[str]) -> dict[int, float]:
    """Memory shares of the tasks on `devices`, by action; none of those that are too small to count.

    Args:
        costs: Of tasks on GPUs, and of those on CPU lanes whose values no cache holds.
    """
    if not devices:
        return {}
    found = {}
    for i, cost in costs.items():
        device, task = plan.lanes[plan.lane_of[i]].device, plan.tasks[i]
        if device in devices and task is not None:
            share = memory_share(task, cost, plan.platform.device(device))
            if share > LEAST_SHARE:
                found[i] = share
    return found


def couplings(plan: Plan, link_of: Callable[[Copy], Link]) -> dict[int, Coupling]:
    """Of the copies that slow kernels or that kernels slow, by action."""
    platform, known, found = plan.platform, dict[tuple[str, str, str], Coupling](), {}
    if not any(getattr(device, name) for device in platform.devices for name in (*MEMORY_FACTORS, *LANE_FACTORS)):
        return {}
    for i, copy in plan.copies.items():
        link = link_of(copy)
        key = (link.source, link.target, link.memory)
        if key not in known:
            known[key] = coupling(platform, link)
        if any(known[key]):
            found[i] = known[key]
    return found


def coupling(platform: Platform, link: Link) -> Coupling:
    """What copies over `link` and kernels at its ends cost each other.

    Example:
        >>> gpus = [Device(f"cuda:{k}", "cuda", bytes_per_s=100.0, traffic_in=2.0, slowed_peer_out=0.5) for k in (0, 1)]
        >>> link = Link("cuda:0", "cuda:1", "peer", 0.0, 10.0)
        >>> coupling(Platform("desk", tuple(gpus), (link,)), link)
        Coupling(presses=(('cuda:1', 0.02),), slowed=(('cuda:0', 0.5),), lanes=())
    """
    if link.source == link.target:
        return Coupling((), ())
    into, out = platform.device(link.target), platform.device(link.source)
    presses = ((into.name, into.traffic_in / into.bytes_per_s), (out.name, out.traffic_out / out.bytes_per_s))
    slowed = {
        "peer": ((into.name, into.slowed_peer_in), (out.name, out.slowed_peer_out)),
        "pinned": ((into.name, into.slowed_in), (out.name, out.slowed_out)),
    }.get(link.memory, ())
    lanes = ((into.name, into.lanes_in), (out.name, out.lanes_out)) if link.memory == "pinned" else ()
    return Coupling(_felt(presses), _felt(slowed), _felt(lanes))


def _felt(ends: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    return tuple(end for end in ends if end[1] > 0.0)


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


class Rated(Protocol):
    """What runs on a device and how fast: a rule of sharing, or a queue of blocks."""

    def rates(self) -> Sequence[tuple[int, float]]:
        """(action, rate) of every running action; rate 1 is the speed alone."""


class MemoryUse:
    """How much of the memory rate of each pool's device its kernels use, were there no copies.

    Example:
        >>> rules = [Unshared(), Unshared()]
        >>> use = MemoryUse({7: 0.75, 8: 0.5}, rules, several={0})
        >>> rules[0].start(7), use.now([0])
        (None, [0.75, 0.0, 0.0, 0.0])
        >>> rules[0].start(8), use.now([0])
        (None, [1.0, 0.0, 1.0, 0.0])
    """

    def __init__(
        self, shares: Mapping[int, float], running: Sequence[Rated], several: Collection[int] = frozenset()
    ) -> None:
        """`shares`: memory shares by action; `running`: what runs, by pool; `several`: pools of `LANES` and more."""
        self._shares, self._running, self._several = shares, running, several
        self._uses = [0.0] * len(running) * (2 if several else 1)

    def now(self, changed: Iterable[int]) -> Sequence[float]:
        """Shares of the memory rates, by pool, at most 1; behind them 1 for each of `several` with two tasks.

        `changed`: pools that tasks have come to or left, or whose rates are others, since this was last asked.
        """
        uses = self._uses = list(self._uses)
        for k in changed:
            running = self._running[k]
            rates = running.rates()
            uses[k] = min(1.0, sum([self._shares.get(i, 0.0) * rate for i, rate in rates]))
            if k in self._several:
                count = running.count() if isinstance(running, BlockQueue) else len(rates)
                uses[len(self._running) + k] = float(count > 1)
        return uses


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

"""How fast CPU lanes are just now: others on the host's cores take a share of them, and clocks vary.

A small product is made again and again, for as long as what it stands for takes: who computes for less than a slice
of the system's time does not notice that a core is shared, who computes for longer has part of it. What takes less time
than one product is less often interrupted than that: products that were do not count then. No more lanes do so
at once than the host has cores for: what more of them take from each other is the simulator's to say (`CoreSharing`).

Not modelled: other hosts: of a plan for several, the pace of the host that takes the yardstick counts for all; others
that come and go faster than the yardstick is taken; memory that they use (the product lies in a core's cache); the
hand-over to a lane, which takes longer too.
"""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any

from graphsched.costs import REST_S
from graphsched.executors.lanes import CpuLane, close_lanes, cpu_lanes
from graphsched.executors.own_team import end_own_team
from graphsched.plan import Plan

LONGEST_ROW_S = 0.04
INTERRUPTED = 1.5  # times as long as the fastest
SIZE, SIZE_OF_TWO, STEP = 256, 768, 32  # of the product, by one thread and by two; sizes are multiples of the last


class LaneYardstick:
    """Products on those lanes of a plan that compute on a CPU, on as many at once as there are cores for.

    The lanes' threads are there only while a sample is taken, so that none of them looks for work beside a run.

    Attributes:
        row_s: Seconds of products in a sample.
    """

    def __init__(self, plan: Plan, row_s: float) -> None:
        """`row_s`: what a run takes, about."""
        self.row_s = min(row_s, LONGEST_ROW_S)
        computing = [lane for lane in plan.lanes if lane.kind == "compute" and _on_cpu(plan, lane.device)]
        self._threads = max((plan.platform.device(lane.device).threads for lane in computing), default=1)
        at_once = max(1, plan.platform.cores // self._threads)
        self._plan, self._names = plan, {lane.name for lane in computing[:at_once]}

    def sample_s(self) -> float:
        """Seconds of a product, mean over the lanes; 0 if the plan computes on no CPU."""
        if not self._names:
            return 0.0
        if self._threads > 1:
            time.sleep(REST_S)
        lanes = cpu_lanes(self._plan)
        end_own_team()
        try:
            computing = [lane for lane in lanes.values() if lane.name in self._names]
            return _at_once_s(computing, self._threads, self.row_s)
        finally:
            close_lanes(lanes)


def _on_cpu(plan: Plan, device: str) -> bool:
    return plan.platform.device(device).kind != "cuda"


def _at_once_s(lanes: Sequence[CpuLane], threads: int, row_s: float) -> float:
    """Seconds of a product, mean over lanes that make them at the same time."""
    gate = threading.Barrier(len(lanes))
    found: SimpleQueue[float] = SimpleQueue()

    def row(product: Callable[[], Any]) -> None:
        gate.wait()
        found.put(product_s(product, row_s))

    for lane in lanes:
        lane.put(partial(row, small_product(threads)))
    return sum([found.get() for _ in lanes]) / len(lanes)


def small_product(threads: int) -> Callable[[], Any]:
    """The product of the yardstick for lanes of so many threads."""
    import torch

    size = product_size(threads)
    x = torch.rand(size, size, generator=torch.Generator().manual_seed(0))
    made = torch.empty_like(x)
    return lambda: torch.mm(x, x, out=made)


def product_size(threads: int) -> int:
    """Rows of the matrices: each of several threads has as much to do, whatever their number.

    That is more than one thread alone has: where others compute, threads that wait for each other often
    are slower than those of a product that is large.

    Example:
        >>> [product_size(threads) for threads in (1, 2, 16, 32)]
        [256, 768, 1536, 1920]
    """
    return SIZE if threads == 1 else STEP * round(SIZE_OF_TWO * math.cbrt(threads / 2) / STEP)


def middle_s(products_s: Sequence[float], row_s: float) -> float:
    """Seconds of a product, median of samples that stand for what takes `row_s`.

    Where that is less than a product, samples that were interrupted do not count.

    Example:
        >>> middle_s([1.0, 1.25, 3.0, 9.0, 8.0], row_s=10.0), middle_s([1.0, 1.25, 3.0, 9.0, 8.0], row_s=0.5)
        (3.0, 1.125)
    """
    least_s = min(products_s)
    if row_s >= least_s:
        return statistics.median(products_s)
    return statistics.median([seconds for seconds in products_s if seconds <= INTERRUPTED * least_s])


def product_s(product: Callable[[], Any], row_s: float) -> float:
    """Seconds of one product, mean of a row that takes `row_s` or one product; one before it does not count."""
    product()
    began = now = time.perf_counter()
    count = 0
    while not count or now - began < row_s:
        product()
        count, now = count + 1, time.perf_counter()
    return (now - began) / count

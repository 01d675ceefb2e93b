"""How fast CPU lanes are just now: others on the host's cores take a share of them, and clocks vary.

A small product is made again and again, for as long as what it stands for takes: who computes for less than a slice
of the system's time does not notice that a core is shared, who computes for longer has part of it. What takes less time
than one product is less often interrupted than that: products that were do not count then. No more lanes do so
at once than the host has cores for: what more of them take from each other is the simulator's to say (`CoreSharing`).
Behind its products one lane of several threads goes through memory (`calibration.lane_sweep`), for the product lies in
its cores' caches, and where GPUs read what it writes, a copy tells how long it takes into pinned memory and how slow
that is to fetch (`calibration.written_copies`).

Not modelled: other hosts: of a plan for several, the pace of the host that takes the yardstick counts for all; others
that come and go faster than the yardstick is taken; the memory of lanes of one thread; the hand-over to a lane, which
takes longer too; copies of ranks, which go with what the platform says.
"""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from queue import SimpleQueue
from typing import Any, NamedTuple

from graphsched.calibration.lane_sweep import ROW_S, Sweep
from graphsched.costs import REST_S
from graphsched.executors.lanes import CpuLane, close_lanes, cpu_lanes
from graphsched.executors.own_team import end_own_team
from graphsched.plan import Plan, just_written

LONGEST_ROW_S = 0.04
SHORTEST_OF = 3  # rows
INTERRUPTED = 1.5  # times as long as the fastest
SIZE, SIZE_OF_TWO, STEP = 256, 768, 32  # of the product, by one thread and by two; sizes are multiples of the last


class Row(NamedTuple):
    """What a product and a sweep take, a copy longer of what was just written, and its way into pinned memory.

    Means of a row each; 0: there is none.
    """

    product_s: float
    sweep_s: float
    fetch_s: float = 0.0
    pinned_s: float = 0.0


class Yardsticks:
    """What a lane of so many threads makes rows of."""

    def __init__(self, threads: int, *, sweeps: bool = True, gpu: int | None = None) -> None:
        """`sweeps`: if it has several threads, through memory, too, and copies to `gpu` what it has written."""
        self.threads = threads
        self.product = small_product(threads)
        self._sweep = Sweep() if sweeps and threads > 1 else None
        self._written: Callable[[], tuple[float, float]] | None = None
        if self._sweep is not None and gpu is not None:
            from graphsched.calibration.written_copies import WrittenYardstick

            self._written = WrittenYardstick(gpu, threads, self._sweep)

    @cached_property
    def one_s(self) -> float:
        """Seconds of the shortest row; to be asked for first in the lane's thread."""
        return min([sum(self.row(0.0)) for _ in range(SHORTEST_OF)])

    def row(self, row_s: float) -> Row:
        """Products for `row_s`, behind them sweeps for `lane_sweep.ROW_S`, then copies."""
        product_s = mean_s(self.product, row_s)
        sweep_s = mean_s(self._sweep, ROW_S) if self._sweep is not None else 0.0
        return Row(product_s, sweep_s, *(self._written() if self._written is not None else ()))


class LaneYardstick:
    """Rows on those lanes of a plan that compute on a CPU, on as many at once as there are cores for.

    The lanes' threads are there only while a sample is taken, so that none of them looks for work beside a run.

    Attributes:
        row_s: Seconds of products in a row.
    """

    def __init__(self, plan: Plan, row_s: float) -> None:
        """`row_s`: what a run takes, about."""
        self.row_s = min(row_s, LONGEST_ROW_S)
        computing = [lane for lane in plan.lanes if lane.kind == "compute" and _on_cpu(plan, lane.device)]
        self._threads = max((plan.platform.device(lane.device).threads for lane in computing), default=1)
        at_once = max(1, plan.platform.cores // self._threads)
        self._plan, names, gpu = plan, [lane.name for lane in computing[:at_once]], _fetching_gpu(plan)
        self._yardsticks = {name: Yardsticks(self._threads, sweeps=name == names[0], gpu=gpu) for name in names}

    def sample(self) -> Row:
        """A row, products as the mean over the lanes, the rest of the first; nothing if the plan computes on no CPU."""
        if not self._yardsticks:
            return Row(0.0, 0.0)
        if self._threads > 1:
            time.sleep(REST_S)
        lanes = cpu_lanes(self._plan)
        end_own_team()
        try:
            known = self._yardsticks
            return _at_once([(lane, known[lane.name]) for lane in lanes.values() if lane.name in known], self.row_s)
        finally:
            close_lanes(lanes)


def _on_cpu(plan: Plan, device: str) -> bool:
    return plan.platform.device(device).kind != "cuda"


def _fetching_gpu(plan: Plan) -> int | None:
    """The first GPU to which a copy brings what a lane has just written, if that is known to matter; none of ranks."""
    if plan.mode == "distributed":
        return None
    for copy in plan.copies.values():
        if just_written(plan, copy) and plan.platform.link(copy.source, copy.target, copy.memory).written_s:
            return int(copy.target.partition(":")[2])
    return None


def _at_once(lanes: Sequence[tuple[CpuLane, Yardsticks]], row_s: float) -> Row:
    """Rows of lanes that make them at the same time, as one; what fails on a lane is raised here."""
    gate = threading.Barrier(len(lanes))
    found: SimpleQueue[Row | BaseException] = SimpleQueue()

    def row(yardsticks: Yardsticks) -> None:
        gate.wait()
        try:
            found.put(yardsticks.row(row_s))
        except BaseException as error:
            found.put(error)

    for lane, yardsticks in lanes:
        lane.put(partial(row, yardsticks))
    rows = []
    for one in [found.get() for _ in lanes]:
        if isinstance(one, BaseException):
            raise one
        rows.append(one)
    products_s, *others_s = zip(*rows, strict=True)
    return Row(statistics.mean(products_s), *map(max, others_s))


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


def middle_s(means_s: Sequence[float], row_s: float) -> float:
    """Seconds of a product, or of a sweep, median of samples that stand for what takes `row_s`.

    Where that is less than one of them, samples that were interrupted do not count.

    Example:
        >>> middle_s([1.0, 1.25, 3.0, 9.0, 8.0], row_s=10.0), middle_s([1.0, 1.25, 3.0, 9.0, 8.0], row_s=0.5)
        (3.0, 1.125)
    """
    least_s = min(means_s)
    if row_s >= least_s:
        return statistics.median(means_s)
    return statistics.median([seconds for seconds in means_s if seconds <= INTERRUPTED * least_s])


def mean_s(call: Callable[[], Any], row_s: float) -> float:
    """Seconds of one call, mean of a row that takes `row_s` or one call; one before it does not count."""
    call()
    began = now = time.perf_counter()
    count = 0
    while not count or now - began < row_s:
        call()
        count, now = count + 1, time.perf_counter()
    return (now - began) / count

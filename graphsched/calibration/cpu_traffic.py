"""What copies between the host's pinned memory and a GPU cost tasks of the CPU that move through memory, and back.

Both use the host's memory. Additions of matrices on a CPU lane are timed beside copies into the host's memory, out of
it and both: as tasks come whose threads have slept before, and in a row. Copies beside a row are held against copies
alone. Factors are fitted as those of a GPU are, see `cuda_traffic`.

On a host of an H200 with 16 cores additions of 17 MB take 1.1 to 2.0 times as long beside copies; copies from the host
lose up to 15 % to them, copies to it nothing (docs/readings.md).

Not modelled: copies of several GPUs at once but by the sum of their rates; memory that is not pinned.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

from graphsched.calibration.capacities import Flow
from graphsched.calibration.cpu_links import torch_threads
from graphsched.calibration.cuda_traffic import HOST, Reading, Sample, copy_rate, queue_copies, readings
from graphsched.calibration.cuda_ways import Bench, Way, host_way, way_s
from graphsched.costs import REST_S
from graphsched.executors.own_team import end_own_team

ADDED_BYTES, COPIED_BYTES = 2**24, 2**26
SETS = 8  # of matrices: together more than what caches keep
ADDITIONS, WARM_UP = 48, 8
OUTLAST = 2.5  # times what all additions take alone
MOST_COPIES = 400  # in a row, which fit in a launch queue: where these do not last as long, that is how it is


def cpu_traffic_readings(bench: Bench, gpu: int, threads: int, bytes_per_s: float) -> list[Reading]:
    """Readings of a CPU lane of so many threads beside copies from and to a GPU, measured.

    Args:
        bench: Its buffers.
        gpu: Number of the GPU.
        threads: Of the lane.
        bytes_per_s: The rate of the host's memory.
    """
    found: list[Reading] = []
    end_own_team()
    with ThreadPoolExecutor(1) as lane:
        for rest_s in (REST_S, 0.0) if threads > 1 else (0.0,):
            additions = LaneAdditions(bench, gpu, lane, threads, rest_s)
            found += readings(HOST, [f"cuda:{gpu}"], additions.moved_bytes, bytes_per_s, additions)
    return found


class LaneAdditions:
    """Additions on a CPU lane, each timed by itself, beside copies.

    Attributes:
        moved_bytes: What one of them reads and writes.
    """

    def __init__(self, bench: Bench, gpu: int, lane: ThreadPoolExecutor, threads: int, rest_s: float) -> None:
        """`rest_s`: that the threads sleep before each."""
        import torch

        self._bench, self._gpu, self._lane, self._threads, self._rest_s = bench, gpu, lane, threads, rest_s
        count = ADDED_BYTES // 4
        self._sets = [tuple(torch.rand(count) for _ in range(3)) for _ in range(SETS)]
        self._row_s = 0.0
        self.moved_bytes = float(3 * 4 * count)

    def __call__(self, flows: Sequence[Flow]) -> Sample:
        """Median of the additions, and the rates of copies that last as long as all of these."""
        ways = [self._way(flow) for flow in flows]
        each_s = [way_s(self._bench, way, way.source.numel(), repeats=3) for way in ways]
        counts = [2 + math.ceil(OUTLAST * self._row_s / copy_s) for copy_s in each_s]
        while True:
            marks = [queue_copies(way, count) for way, count in zip(ways, counts, strict=True)]
            seconds, row_s = self._lane.submit(self._add).result()
            outlasted = not any(row[-1].query() for row in marks)
            self._bench.settle()
            if outlasted or max(counts) > MOST_COPIES:
                break
            counts = [2 * count for count in counts]
        if not flows:
            self._row_s = row_s
        rates = tuple(copy_rate(way, row, row_s) for way, row in zip(ways, marks, strict=True))
        alone = tuple(way.source.numel() / s for way, s in zip(ways, each_s, strict=True))
        return Sample(seconds, rates, () if self._rest_s else alone)

    def _way(self, flow: Flow) -> Way:
        """A way for `flow`, with a part of the host's buffer of its own for each direction."""
        nbytes, to_gpu = min(COPIED_BYTES, self._bench.largest // 2), flow[0] == HOST
        part = slice(0, nbytes) if to_gpu else slice(nbytes, None)
        way = host_way(self._bench, self._gpu, to_gpu=to_gpu, part=part)
        return Way(way.source[:nbytes], way.target[:nbytes], way.streams)

    def _add(self) -> tuple[float, float]:
        """Seconds of an addition, median, and of all with what lies between."""
        import torch

        with torch_threads(self._threads):
            for k in range(WARM_UP):
                self._one_s(torch.add, k)
            began = time.perf_counter()
            samples = [self._one_s(torch.add, k) for k in range(ADDITIONS)]
            return median(samples), time.perf_counter() - began

    def _one_s(self, add: Any, k: int) -> float:
        if self._rest_s:
            time.sleep(self._rest_s)
        a, b, c = self._sets[k % SETS]
        began = time.perf_counter()
        add(a, b, out=c)
        return time.perf_counter() - began

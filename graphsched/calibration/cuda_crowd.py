"""What kernels of several lanes cost copies between a GPU and the host, beyond those of one lane.

Products on one stream and on four run beside copies in one direction; the copies' rates are held against each other.
They are as large as a product must be for its blocks to fill the device: beside smaller ones, two of which fit there at
once so that none waits, copies to the host of an H200 were as fast as beside one, though they are not in plans.

Not modelled: that two lanes may cost less than four; copies between GPUs.
"""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from typing import Any

from graphsched.calibration.cuda_clock import CALL_S, elapsed_s, new_stream, on_streams
from graphsched.calibration.cuda_links import Bench, Way, host_way, way_s
from graphsched.calibration.cuda_traffic import COPIED_BYTES, OUTLAST, copy_rate, queue_copies
from graphsched.calibration.fitting import median
from graphsched.executors.clocks import new_event

SIZE, CALLS, SAMPLES = 2048, 16, 5  # rows of a product, products in a row
LANES = 4


def crowded_factors(bench: Bench, gpu: int) -> tuple[float, float]:
    """How much longer copies from the host, and to it, take beside products on four streams than on one."""
    products = Products(bench, gpu)
    into, out = (products.longer(to_gpu=to_gpu) for to_gpu in (True, False))
    return into, out


class Products:
    """Rows of products on streams of one GPU, beside copies."""

    def __init__(self, bench: Bench, gpu: int) -> None:
        import torch

        self._bench, self._gpu = bench, gpu
        self._streams = [new_stream(gpu) for _ in range(LANES)]
        device = bench.first[gpu].device
        self._terms = [torch.rand(SIZE, SIZE, device=device) for _ in self._streams]
        self._out = [torch.empty(SIZE, SIZE, device=device) for _ in self._streams]

    def longer(self, *, to_gpu: bool) -> float:
        """How much longer a copy takes beside `LANES` rows than beside one, as a fraction; not below 0."""
        nbytes = min(COPIED_BYTES, self._bench.largest // 2)
        way = host_way(self._bench, self._gpu, to_gpu=to_gpu, part=slice(0, nbytes) if to_gpu else slice(nbytes, None))
        way = Way(way.source[:nbytes], way.target[:nbytes], way.streams)
        copy_s = way_s(self._bench, way, nbytes, repeats=3)
        rates = []
        for lanes in (1, LANES):
            count = max(4, math.ceil(OUTLAST * self._seconds(lanes) / copy_s))
            rates.append(median([self._rate(way, count, lanes) for _ in range(SAMPLES + 1)][1:]))
        return max(0.0, rates[0] / rates[1] - 1.0)

    def _seconds(self, lanes: int) -> float:
        """What so many rows take with no copies."""
        gate = new_event()
        rows = self._queue_rows(lanes, gate, 5e-4 + lanes * CALLS * CALL_S)
        self._bench.settle()
        return min(elapsed_s(start, end) for start, end in rows)

    def _rate(self, way: Way, count: int, lanes: int) -> float:
        """Bytes per second of copies beside so many rows, until the first of them ends."""
        hold_s = 5e-4 + (lanes * CALLS + 2 * count) * CALL_S
        while True:
            began, gate = time.perf_counter(), new_event()
            rows = self._queue_rows(lanes, gate, hold_s)
            marks = queue_copies(way, count, gate)
            in_time = time.perf_counter() - began < hold_s
            self._bench.settle()
            if in_time:
                break
            hold_s *= 2.0  # some began before all were queued
        return copy_rate(way, marks, min(elapsed_s(start, end) for start, end in rows))

    def _queue_rows(self, lanes: int, gate: Any, hold_s: float) -> list[tuple[Any, Any]]:
        """Queue rows behind a spin kernel and `gate`; timing events before and after each."""
        import torch

        rows = []
        for k, stream in enumerate(self._streams[:lanes]):
            start, end = new_event(timing=True), new_event(timing=True)
            with ExitStack() as stack:
                on_streams(stack, [stream])
                if k == 0:
                    self._bench.spinners[self._gpu].spin(hold_s)
                    gate.record(stream)
                else:
                    stream.wait_event(gate)
                start.record(stream)
                for _ in range(CALLS):
                    torch.mm(self._terms[k], self._terms[k], out=self._out[k])
                end.record(stream)
            rows.append((start, end))
        return rows

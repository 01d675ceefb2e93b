"""What kernels on several lanes of a GPU cost copies between it and the host: products on four streams beside copies.

Copies to the host take some 11 % longer beside three lanes and more on H100s and H200s, whatever these compute and
however large the copies are, beside one lane or two lanes none; those from the host about half as much
(docs/readings.md).

Not modelled: that additions on several lanes, which fill the memory rate, cost copies more than products do; between
GPUs, copies beside several lanes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any

from graphsched.calibration.cuda_clock import CALL_S, elapsed_s, new_stream, on_streams
from graphsched.calibration.cuda_traffic import queue_copies
from graphsched.calibration.cuda_ways import Bench, Way, host_way
from graphsched.executors.clocks import new_event

LANES, SIZE = 4, 2048  # streams, and rows of the matrices
COPIED_BYTES, COPIES = 2**24, 4  # in a row
OUTLAST = 2.0  # times what the copies take alone
SAMPLES = 7


def beside_lanes(bench: Bench, gpu: int) -> tuple[float, float]:
    """How much longer copies from the host into GPU `gpu` take beside kernels on several lanes, and those out of it.

    As fractions of their time alone, not below 0.
    """
    lanes = Lanes(bench, gpu)
    return lanes.longer(to_gpu=True), lanes.longer(to_gpu=False)


class Lanes:
    """Products on several streams of a GPU, beside copies between it and the host's pinned memory."""

    def __init__(self, bench: Bench, gpu: int) -> None:
        import torch

        self._bench, self._gpu = bench, gpu
        self._streams = [new_stream(gpu) for _ in range(LANES)]
        place: Any = {"device": bench.first[gpu].device}
        self._sets = [[torch.rand(SIZE, SIZE, **place) for _ in range(3)] for _ in range(LANES)]
        self._gates = new_stream(gpu)
        self._product_s = median(self._products_s(2) / 2 for _ in range(SAMPLES))

    def longer(self, *, to_gpu: bool) -> float:
        """By what fraction copies take longer beside products; alone and beside them by turns, after a first pair."""
        nbytes = min(COPIED_BYTES, self._bench.largest)
        whole = host_way(self._bench, self._gpu, to_gpu=to_gpu)
        way = Way(whole.source[:nbytes], whole.target[:nbytes], whole.streams)
        alone, beside = [], []
        for _ in range(SAMPLES + 1):
            alone.append(self._copies_s(way, 0))
            count = math.ceil(OUTLAST * alone[-1] / (LANES * self._product_s)) + 1
            beside.append(self._copies_s(way, count))
        return max(0.0, median(beside[1:]) / median(alone[1:]) - 1.0)

    def _copies_s(self, way: Way, products: int) -> float:
        """Seconds of copies in a row, on the GPU's clock, beside so many products on each stream."""
        gate = self._gate(products * LANES + 2 * COPIES)
        self._queue_products(gate, products)
        marks = queue_copies(way, COPIES, gate)
        self._bench.settle()
        return elapsed_s(marks[0], marks[-1])

    def _products_s(self, count: int) -> float:
        """Seconds of so many products on one stream, alone."""
        start, end = new_event(timing=True), new_event(timing=True)
        gate = self._gate(count)
        with ExitStack() as stack:
            on_streams(stack, self._streams[:1])
            self._streams[0].wait_event(gate)
            start.record(self._streams[0])
            self._multiply(self._sets[0], count)
            end.record(self._streams[0])
        self._bench.settle()
        return elapsed_s(start, end)

    def _gate(self, calls: int) -> Any:
        """An event behind a kernel that spins until so many calls are queued."""
        gate = new_event()
        with ExitStack() as stack:
            on_streams(stack, [self._gates])
            self._bench.spinners[self._gpu].spin(5e-4 + calls * CALL_S)
            gate.record(self._gates)
        return gate

    def _queue_products(self, gate: Any, count: int) -> None:
        for stream, matrices in zip(self._streams, self._sets, strict=True):
            with ExitStack() as stack:
                on_streams(stack, [stream])
                stream.wait_event(gate)
                self._multiply(matrices, count)

    @staticmethod
    def _multiply(matrices: Sequence[Any], count: int) -> None:
        import torch

        a, b, made = matrices
        for _ in range(count):
            torch.mm(a, b, out=made)

"""What kernels on several lanes cost copies, on streams that are played."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.calibration import copies_beside_lanes as module
from graphsched.calibration import cuda_traffic
from graphsched.calibration.copies_beside_lanes import COPIES, LANES, SAMPLES, Lanes, beside_lanes
from graphsched.calibration.cuda_ways import Bench
from tests.calibration.streams import Event, Stream

RATE, PRODUCT_S = 1e9, 1e-5


class Memory:
    """Bytes of a device; copies of them take longer while products are under way on as many streams as it needs."""

    device = "cpu"

    def __init__(self, cuda: Cuda, where: str, nbytes: int) -> None:
        self.cuda, self.where, self.nbytes = cuda, where, nbytes

    def __getitem__(self, part: slice) -> Memory:
        return Memory(self.cuda, self.where, len(range(*part.indices(self.nbytes))))

    def numel(self) -> int:
        return self.nbytes

    def copy_(self, source: Memory, non_blocking: bool) -> None:
        cuda = self.cuda
        busy = sum(s.time_s > cuda.current.time_s for s in cuda.lanes)
        longer = cuda.longer[source.where, self.where] if busy >= cuda.needed else 0.0
        cuda.copied.append((source.where, self.where))
        cuda.current.time_s += self.nbytes / RATE * (1 + longer)


class Cuda:
    """A GPU that a product fills: on several streams each takes as much longer; the first ones are alone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, into: float, out: float, needed: int = LANES) -> None:
        self.longer = {("cpu", "cuda:0"): into, ("cuda:0", "cpu"): out}
        self.needed, self.largest = needed, 2**16
        self.copied: list[tuple[str, str]] = []
        self.lanes: list[Stream] = []
        self.current, self.products = Stream(0), 0
        self.first, self.second = ([Memory(self, "cuda:0", self.largest)] for _ in range(2))
        self.pinned = Memory(self, "cpu", 2 * self.largest)
        self.streams = [[Stream(0), Stream(0)]]
        self.spinners = [SimpleNamespace(spin=self._spin)]
        for there in (module, cuda_traffic):
            monkeypatch.setattr(there, "new_event", lambda *, timing=False: Event())
            monkeypatch.setattr(there, "elapsed_s", lambda start, end: end.time_s - start.time_s)
            monkeypatch.setattr(there, "on_streams", self._on_streams)
        monkeypatch.setattr(module, "new_stream", self._new_stream)
        monkeypatch.setattr(torch, "mm", self._mm)

    def _new_stream(self, device: int) -> Stream:
        self.lanes.append(Stream(device))
        return self.lanes[-1]

    def _on_streams(self, stack: ExitStack, streams: Sequence[Stream]) -> None:
        self.current = streams[-1]

    def _spin(self, seconds: float) -> None:
        self.current.time_s += seconds

    def _mm(self, a: Any, b: Any, *, out: Any) -> None:
        assert self.current in self.lanes[:LANES]
        self.products += 1
        self.current.time_s += PRODUCT_S * (1 if self.products <= 2 * SAMPLES else LANES)

    def settle(self) -> None:
        every = [*self.lanes, *self.streams[0]]
        now = max(s.time_s for s in every)
        for stream in every:
            stream.time_s = now


def test_copies_each_way_are_held_against_themselves_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Cuda(monkeypatch, into=0.05, out=0.11)
    assert beside_lanes(cuda, 0) == pytest.approx((0.05, 0.11))  # type: ignore[arg-type]
    each = 2 * COPIES * (SAMPLES + 1)
    assert cuda.copied == [("cpu", "cuda:0")] * each + [("cuda:0", "cpu")] * each


def test_products_are_on_all_streams_and_outlast_the_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one stream fewer nothing would be slower here, nor if the last copies came when products are over."""
    cuda = Cuda(monkeypatch, into=0.0, out=0.5)
    assert Lanes(cuda, 0).longer(to_gpu=False) == pytest.approx(0.5)  # type: ignore[arg-type]
    fewer = Cuda(monkeypatch, into=0.0, out=0.5, needed=LANES + 1)
    assert Lanes(fewer, 0).longer(to_gpu=False) == 0.0  # type: ignore[arg-type]


def test_copies_that_are_faster_beside_lanes_have_no_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    assert beside_lanes(Cuda(monkeypatch, into=-0.1, out=0.0), 0) == (0.0, 0.0)  # type: ignore[arg-type]


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    bench = Bench(1, 2**26)
    try:
        into, out = beside_lanes(bench, 0)
    finally:
        bench.close()
    assert 0.0 <= into < 1.0
    assert 0.0 <= out < 1.0

"""What copies of what was just written take longer, on a clock and a stream that are played."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.calibration import cpu_links
from graphsched.calibration import written_copies as module
from graphsched.calibration.cuda_links import host_links
from graphsched.calibration.cuda_ways import Bench
from graphsched.calibration.fitting import transfer_sizes
from graphsched.calibration.lane_sweep import Sweep
from graphsched.calibration.written_beside import Beside
from graphsched.calibration.written_copies import (
    PAUSES_S,
    PLACES,
    ROW,
    WrittenYardstick,
    fades_s,
    with_written,
)
from graphsched.platform import Link
from graphsched.platform.links import SHORTEST_S

RATE, FADES_S, LARGEST = 1e9, 1e-3, 2**18
SIZES = tuple(transfer_sizes(2**20))
FIGURES = {(gpu, threads): (0.1 * gpu, 1e-3 * threads) for gpu in (0, 1) for threads in (1, 3)}
"""What becomes of such copies beside others, by GPU and threads of the lane."""


class Part:
    """Bytes of a buffer, or numbers; writing takes no time, and is of numbers."""

    def __init__(self, host: Host, first: int, last: int, dtype: torch.dtype = torch.uint8) -> None:
        self.host, self.first, self.last, self.dtype = host, first, last, dtype

    def numel(self) -> int:
        return (self.last - self.first) // self.dtype.itemsize

    def view(self, dtype: torch.dtype) -> Part:
        return Part(self.host, self.first, self.last, dtype)

    def __getitem__(self, part: slice) -> Part:
        first = self.first + (part.start or 0)
        return Part(self.host, first, self.last if part.stop is None else self.first + part.stop)

    def copy_(self, source: Any, non_blocking: bool = False) -> Any:
        if non_blocking:
            self.host.copy(source)
        else:
            assert (source.numel(), source.dtype) == (self.numel(), torch.float32)
            assert self.dtype == torch.float32
            assert torch.get_num_threads() == self.host.threads
            self.host.now_s += next(self.host.pinnings_s)
            self.host.written = self.first, self.last, self.host.now_s
        return self


class Host:
    """Copies of bytes that were written no longer ago than a copy take half as long again, less and less by and by."""

    pinnings_s: Iterator[float] = itertools.repeat(0.0)  # of copies that write

    def __init__(self, monkeypatch: pytest.MonkeyPatch, threads: int = 1, longer: float = 0.5) -> None:
        self.now_s, self.threads, self.longer = 0.0, threads, longer
        self.written = 0, 0, -1.0
        self.copies: list[tuple[int, int]] = []
        self.gpus: list[int] = []
        monkeypatch.setattr(module, "LARGEST_BYTES", LARGEST)
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: self.now_s, sleep=self._sleep))
        monkeypatch.setattr(cpu_links, "time", module.time)
        monkeypatch.setattr(module, "host_way", self._way)
        monkeypatch.setattr(module, "LaneAndCopies", lambda bench, gpu, lane, threads: (gpu, threads))
        monkeypatch.setattr(module, "figures", lambda beside, back_s: Beside(*FIGURES[beside], back_s))
        monkeypatch.setattr(module, "new_event", self._event)
        monkeypatch.setattr(module, "elapsed_s", lambda start, end: end.at_s - start.at_s)
        monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
        self.largest = 2**20

    def _sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def _way(self, bench: Any, gpu: int, *, to_gpu: bool) -> Any:
        assert (bench, to_gpu) == (self, True)
        self.gpus.append(gpu)
        return SimpleNamespace(source=Part(self, 0, 2**22), target=Part(self, 0, 2**20), streams=("stream",))

    def _event(self, *, timing: bool) -> Any:
        assert timing
        event = SimpleNamespace(at_s=0.0, synchronize=lambda: None)
        event.record = lambda stream: setattr(event, "at_s", self.now_s)
        return event

    def copy(self, part: Part) -> None:
        first, last, at_s = self.written
        seconds = part.numel() / RATE
        if (first, last) == (part.first, part.last):
            seconds *= 1 + self.longer * 2.718281828459045 ** ((at_s - self.now_s) / FADES_S)
        self.copies.append((part.first, part.last))
        self.now_s += seconds


def pinned(target: str = "cuda:0", source: str = "cpu", memory: Any = "pinned") -> Link:
    return Link(source, target, memory, 0.0, RATE, (), False, SIZES, tuple(n / RATE for n in SIZES))


def test_each_gpu_has_what_copies_take_longer_by_size_and_how_it_fades(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    back = replace(pinned("cpu", "cuda:0"), seconds=tuple(n / RATE / 2 for n in SIZES))
    others = [back, pinned(memory="pageable"), pinned("cpu", "cpu")]
    found = with_written(host, [pinned(), *others, pinned("cuda:1")], threads=1)  # type: ignore[arg-type]
    assert host.gpus == [0, 1]
    assert found[1:4] == others
    for link in (found[0], found[4]):
        measured = [0.5 * min(n, LARGEST) / RATE for n in SIZES]  # larger ones as much as the largest
        assert link.written_s == pytest.approx(measured)
        assert link.fades_s == pytest.approx(FADES_S)
    beside = [(link.written_busy, link.busy_fades_s, link.written_back) for link in (found[0], found[4])]
    back_s = LARGEST / RATE / 2, LARGEST / RATE  # the first GPU has a link back, which is twice as fast
    assert beside == [(*FIGURES[0, 1], back_s[0]), (*FIGURES[1, 1], back_s[1])]


def test_what_is_not_written_comes_from_another_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of both kinds alternate, each of the next part of the buffer."""
    host = Host(monkeypatch)
    with_written(host, [pinned()], threads=1)  # type: ignore[arg-type]
    assert all(a != b for a, b in zip(host.copies, host.copies[1:], strict=False))


def test_what_takes_no_longer_has_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = with_written(Host(monkeypatch, longer=-0.25), [pinned()], threads=1)  # type: ignore[arg-type]
    assert set(found.written_s) == {0.0}
    assert found.fades_s == 0.0


def test_threads_are_those_of_the_lane_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    with_written(Host(monkeypatch, threads=3), [pinned()], threads=3)  # type: ignore[arg-type]
    assert torch.get_num_threads() == before


def test_noise_below_a_share_of_the_most_does_not_decide_how_it_fades() -> None:
    exact = [(pause_s, 1e-4 * 2.718281828459045 ** (-pause_s / 1e-4)) for pause_s in PAUSES_S]
    noisy = [(pause_s, longer_s if longer_s > 1e-7 else 0.0) for pause_s, longer_s in exact]
    assert fades_s(noisy) == pytest.approx(1e-4, rel=0.35)


@pytest.mark.parametrize(("longer", "found_s"), [(0.5, 0.5), (-0.25, 0.0)])
def test_the_yardstick_is_a_row_of_such_copies(monkeypatch: pytest.MonkeyPatch, longer: float, found_s: float) -> None:
    """Of one size, never 0, which says unknown; what was not just written lies in places of its own.

    What is written comes from a sweep. With that comes what writing takes: 2 s, the first time, which is left out, 9.
    """
    host = Host(monkeypatch, longer=longer)
    host.pinnings_s = itertools.chain([9.0], itertools.repeat(2.0))
    monkeypatch.setattr(module, "WRITTEN_BYTES", LARGEST)
    way = host._way(host, 0, to_gpu=True)
    way.source = Part(host, 0, PLACES * LARGEST)
    monkeypatch.setattr(module, "_way", lambda gpu: way)
    swept: list[torch.Tensor] = []
    yardstick = WrittenYardstick(0, 1, lambda: swept.append(torch.ones(LARGEST)) or swept[-1])  # type: ignore[arg-type, func-returns-value]
    seconds, pinned_s = yardstick()
    assert pinned_s == pytest.approx(2.0)
    assert len(swept) == ROW + 1
    assert seconds == pytest.approx(max(found_s * LARGEST / RATE, SHORTEST_S))
    assert seconds > 0.0
    assert len(host.copies) == 2 * (ROW + 1)
    assert {a for a, _ in host.copies[::2]}.isdisjoint({a for a, _ in host.copies[1::2]})


@pytest.mark.gpu
def test_a_yardstick_on_a_gpu() -> None:
    fetch_s, pinned_s = WrittenYardstick(0, torch.get_num_threads(), Sweep())()
    assert 0.0 < fetch_s < 0.01
    assert 0.0 < pinned_s < 0.1


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    bench = Bench(1, 2**24)
    try:
        link = next(m.link for m in host_links(bench, 0, 2**24, (0.0, 0.0)) if m.link.memory == "pinned")
        (found,) = with_written(bench, [link], torch.get_num_threads())
    finally:
        bench.close()
    assert len(found.written_s) == len(link.sizes_bytes)
    assert 0.0 <= found.written_longer_s(2**24) < 10 * link.duration_s(2**24)

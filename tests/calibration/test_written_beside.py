"""What becomes of copies of what was just written: figures of known samples, and samples on a clock that is played."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.calibration import written_beside as module
from graphsched.calibration.cuda_links import host_links
from graphsched.calibration.cuda_ways import Bench
from graphsched.calibration.written_beside import (
    HOLD_S,
    PAUSES_S,
    ROUNDS,
    STAYS_S,
    Beside,
    LaneAndCopies,
    Sample,
    Situation,
    decay,
    figures,
)
from graphsched.platform import Link
from tests.calibration.streams import Event, Stream

ALONE_S, LONGER_S, BUSY_S = 3e-4, 3e-4, 1e-4


class Host:
    """Copies take `ALONE_S`, a tenth more with one back, and what was written `longer_s` more, less beside a lane."""

    def __init__(
        self, longer_s: float = LONGER_S, busy: float = 0.4, fades_s: float = 1e-3, back: float = 0.45
    ) -> None:
        self.longer_s, self.busy, self.fades_s, self.back = longer_s, busy, fades_s, back
        self.asked: list[Situation] = []

    def __call__(self, situation: Situation) -> Sample:
        self.asked.append(situation)
        after_s = HOLD_S + situation.pause_s
        alone_s = ALONE_S * (1.1 if situation.back else 1.0) + BUSY_S * situation.goes_on
        longer_s = self.longer_s * situation.written
        if situation.goes_on:
            longer_s *= self.busy * math.exp(-after_s / self.fades_s)
        slowed = 1 + self.back * longer_s / ALONE_S
        back_s = ALONE_S * max(1.1, slowed) if situation.back else 0.0
        return Sample(alone_s + longer_s, back_s, after_s)


def test_what_is_left_beside_a_lane_that_goes_on_and_what_it_costs_copies_back_are_found_again() -> None:
    found = figures(Host(), ALONE_S)
    assert found.busy == pytest.approx(0.4, rel=0.02)
    assert found.busy_fades_s == pytest.approx(1e-3, rel=0.05)
    assert found.back == pytest.approx(0.45)


def test_situations_take_turns_and_the_first_round_does_not_count() -> None:
    """Both kinds of copies alternate, so that the one that was not written comes from other parts of the buffer."""
    host = Host()
    figures(host, ALONE_S)
    assert len(host.asked) == (ROUNDS + 1) * (4 + 2 * len(PAUSES_S))
    assert [s.written for s in host.asked] == [False, True] * (len(host.asked) // 2)

    class Late(Host):
        def __call__(self, situation: Situation) -> Sample:
            sample = super().__call__(situation)
            return sample._replace(seconds=1.0) if len(self.asked) <= 10 else sample

    assert figures(Late(), ALONE_S) == figures(Host(), ALONE_S)


def test_where_what_was_written_takes_no_longer_there_is_nothing_to_share() -> None:
    assert figures(Host(longer_s=0.0), ALONE_S) == figures(Host(longer_s=1e-6), ALONE_S) == Beside(0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("host", "beside"),
    [
        (Host(busy=0.0), (0.0, 0.0, 0.45)),
        (Host(busy=-0.5), (0.0, 0.0, 0.45)),
        (Host(busy=3.0, fades_s=1e3), (1.0, STAYS_S, 0.45)),
        (Host(back=-1.0), (0.4, 1e-3, 0.0)),
    ],
)
def test_figures_stay_within_bounds(host: Host, beside: Sequence[float]) -> None:
    """No less than nothing, no more than at rest; what does not fade is said to within a second."""
    found = figures(host, ALONE_S)
    assert (found.busy, found.busy_fades_s, found.back) == pytest.approx(beside, rel=0.05)


def test_noise_that_rises_with_time_is_not_taken_for_something_that_grows() -> None:
    at_once_s, fades_s = decay([(0.0, 1e-5), (1e-3, 2e-5), (2e-3, 3e-5)])
    assert at_once_s == pytest.approx(2e-5, rel=0.01)
    assert fades_s == pytest.approx(STAYS_S)


def test_a_link_is_told_all_three() -> None:
    link = Beside(0.25, 1e-3, 0.5).of(Link("cpu", "cuda:0", "pinned", 0.0, 1e9))
    assert (link.written_busy, link.busy_fades_s, link.written_back) == (0.25, 1e-3, 0.5)


# -- a lane in its thread, and streams that are played -----------------------------------------------


class Memory:
    """A part of a buffer; a copy takes the current stream a second a byte."""

    device = "cpu"

    def __init__(self, gpu: Gpu, first: int, last: int) -> None:
        self.gpu, self.first, self.last = gpu, first, last

    def numel(self) -> int:
        return self.last - self.first

    def __getitem__(self, part: slice) -> Memory:
        inside = range(*part.indices(self.numel()))
        return Memory(self.gpu, self.first + inside.start, self.first + inside.stop)

    def copy_(self, source: Any, non_blocking: bool = False) -> None:
        if non_blocking:
            self.gpu.copied.append((source.first, self.first))
            self.gpu.current.time_s += self.numel()
        else:
            self.gpu.written.append((self.first, len(source)))


class Gpu:
    """Streams and buffers; the clock stands still, but is `late` for as many samples."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, late: int = 0) -> None:
        self.copied: list[tuple[int, int]] = []
        self.written: list[tuple[int, int]] = []
        self.spun: list[float] = []
        self.largest, self.current, self.late = 64, Stream(0), late
        self.first, self.second = [Memory(self, 1000, 1064)], [Memory(self, 2000, 2064)]
        self.pinned = Memory(self, 0, 512)
        self.streams = [[Stream(0), Stream(0)]]
        self.spinners = [SimpleNamespace(spin=self._spin)]
        self.sweeps = 0
        monkeypatch.setattr(module, "Sweep", lambda: self._sweep)
        monkeypatch.setattr(module, "numbers", lambda part: part)
        monkeypatch.setattr(module, "on_streams", self._on_streams)
        monkeypatch.setattr(module, "elapsed_s", lambda start, end: end.time_s - start.time_s)
        monkeypatch.setattr(module, "new_event", self._event)

    def _event(self, *, timing: bool = False) -> Any:
        event: Any = Event()
        event.synchronize = self._synchronize
        return event

    def _synchronize(self) -> None:
        """All is queued by then, in time or not."""

    def _sweep(self) -> list[int]:
        self.sweeps += 1
        return [0] * 64

    def _on_streams(self, stack: ExitStack, streams: Sequence[Stream]) -> None:
        self.current = streams[-1]

    def _spin(self, seconds: float) -> None:
        self.spun.append(seconds)
        self.current.time_s += seconds
        if self.late:
            self.late -= 1
            module.time.sleep(2 * HOLD_S)


def sample(gpu: Gpu, *situations: Situation) -> list[Sample]:
    before = torch.get_num_threads()
    with ThreadPoolExecutor(1) as lane:
        copies = LaneAndCopies(gpu, 0, lane, 1)  # type: ignore[arg-type]
        found = [copies(situation) for situation in situations]
    assert torch.get_num_threads() == before
    return found


def test_one_copy_is_of_the_part_that_was_written_and_another_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both begin when the spin kernel ends; parts of the buffer take turns, in a half of it for each way."""
    monkeypatch.setattr(module, "HOLD_S", 10.0)
    gpu = Gpu(monkeypatch)
    kept, written, both = sample(gpu, Situation(False), Situation(True), Situation(True, back=True))
    assert gpu.written == [(448, 16), (64, 16), (128, 16)]  # what is not to have been written is written elsewhere
    assert gpu.copied == [(0, 1000), (64, 1000), (128, 1000), (2000, 256)]
    assert (kept.seconds, kept.back_s, written.seconds) == pytest.approx((64.0, 0.0, 64.0))
    assert (both.seconds, both.back_s) == pytest.approx((64.0, 64.0))
    assert gpu.streams[0][1].time_s >= sum(gpu.spun)  # the copy back waited for its gate


def test_a_lane_goes_on_until_the_copies_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HOLD_S", 10.0)
    gpu = Gpu(monkeypatch)
    (found,) = sample(gpu, Situation(True, goes_on=True, pause_s=0.02))
    assert gpu.sweeps > 1
    assert 10.0 < found.after_s <= 10.02 + 1e-6
    assert len(gpu.copied) == 1


def test_copies_that_began_before_all_was_written_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first write is expected to take 10 ms and takes 50, all others as well; the pause counts from its end."""
    monkeypatch.setattr(module, "HOLD_S", 0.01)
    gpu = Gpu(monkeypatch)
    monkeypatch.setattr(module, "numbers", lambda part: module.time.sleep(0.05) or part)
    (found,) = sample(gpu, Situation(True, goes_on=True, pause_s=0.02))
    assert len(gpu.copied) == 2
    assert 0.01 < found.after_s < 0.04


def test_a_lane_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu(monkeypatch)
    gpu._sweep = lambda: 1 / 0  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        sample(gpu, Situation(True, goes_on=True))


def test_what_was_not_queued_in_time_is_made_again_with_a_longer_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HOLD_S", 0.05)
    gpu = Gpu(monkeypatch, late=1)
    monkeypatch.setattr(gpu, "_spin", gpu._spin)
    slept = module.time.sleep
    monkeypatch.setattr(module.time, "sleep", lambda seconds: slept(0.1 if seconds == 2 * HOLD_S else seconds))
    sample(gpu, Situation(True))
    assert gpu.spun == [0.05, 0.1]


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    bench = Bench(1, 2**24)
    try:
        link = next(m.link for m in host_links(bench, 0, 2**24, (0.0, 0.0)) if m.link.memory == "pinned")
        with ThreadPoolExecutor(1) as lane:
            found = figures(LaneAndCopies(bench, 0, lane, torch.get_num_threads()), 3.1e-4).of(link)
    finally:
        bench.close()
    assert 0.0 <= found.written_busy <= 1.0
    assert 0.0 <= found.written_back < 3.0

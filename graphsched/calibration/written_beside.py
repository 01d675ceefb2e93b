"""Copies of what a CPU lane has just written, while it goes on, and while copies go the other way beside them.

A lane that has begun on something else hands out what it has written sooner than one at rest, and lets go of it: on
hosts of an H200 such copies of 16.8 MB took 1.2 to 1.4 times what they take alone within 0.1 ms and what they take
alone after 0.3, where they took 1.6 to 2.5 from cores at rest. While cores at rest hand something out, copies to the
host take longer, too, by 0.3 to 0.45 of what those from it do; while they compute, not (docs/readings.md).

Each is held against a copy of what was written long ago, by turns, beside a lane that does the same meanwhile. They
begin behind a kernel that spins until all calls are made, so that what others do with the host's cores is not in their
times. Beside a lane that goes on it begins to spin while this still writes, for as long as that is expected to take.

Not modelled: other sizes than `WRITTEN_BYTES`; lanes that go on with something other than a sweep through memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from graphsched.calibration.cpu_links import ITEM_BYTES, next_parts, numbers, torch_threads
from graphsched.calibration.cuda_clock import elapsed_s, on_streams
from graphsched.calibration.cuda_ways import Bench, Way, host_way
from graphsched.calibration.lane_sweep import Sweep
from graphsched.calibration.sampling import in_a_row_s
from graphsched.executors.clocks import new_event
from graphsched.platform import Link
from graphsched.platform.links import LEAST_WRITTEN, WRITTEN_BYTES

PAUSES_S = (0.0, 1e-4, 3e-4, 1e-3)
ROUNDS = 15
ROW = 5  # samples, in the order of the time behind the write, whose middle counts
HOLD_S, STEP_S = 1.5e-4, 5e-5  # in which the calls of two copies are made; later, where a write takes longer
STAYS_S = 1.0  # what does not fade is taken to fade within
TRIED = 1000  # times in which it may


class Situation(NamedTuple):
    """In which a copy is made.

    Attributes:
        written: A lane has just written what it brings.
        goes_on: That lane sweeps through memory meanwhile.
        back: A copy goes the other way.
        pause_s: How long after the write the copies are to begin, beside a lane that goes on.
    """

    written: bool
    goes_on: bool = False
    back: bool = False
    pause_s: float = 0.0


class Sample(NamedTuple):
    """Seconds of a copy to the GPU and of one back, 0 without; and how long after the write they began."""

    seconds: float
    back_s: float
    after_s: float


@dataclass(frozen=True)
class Beside:
    """What becomes of copies of what was just written: `Link.written_busy`, `busy_fades_s` and `written_back`."""

    busy: float
    busy_fades_s: float
    back: float

    def of(self, link: Link) -> Link:
        """`link` with these figures."""
        return replace(link, written_busy=self.busy, busy_fades_s=self.busy_fades_s, written_back=self.back)


def figures(sample: Callable[[Situation], Sample], back_s: float) -> Beside:
    """What `sample` shows, in `ROUNDS` rounds after a first one; nothing where what is written takes no longer.

    Args:
        sample: Makes the copies of a situation.
        back_s: Seconds of the copy back alone.
    """
    both, rest = [Situation(w, back=True) for w in (False, True)], [Situation(w) for w in (False, True)]
    busy = [Situation(w, True, False, pause_s) for pause_s in PAUSES_S for w in (False, True)]
    found: dict[Situation, list[Sample]] = {situation: [] for situation in (*rest, *both, *busy)}
    for _ in range(ROUNDS + 1):
        for situation, samples in found.items():
            samples.append(sample(situation))
    kept, written, *beside = (_in_a_row(found[situation][1:]) for situation in (*rest, *both))
    longer_s = written.seconds - kept.seconds
    if longer_s <= LEAST_WRITTEN * kept.seconds:
        return Beside(0.0, 0.0, 0.0)
    busy_kept, busy_written = ([s for situation in busy[k::2] for s in found[situation][1:]] for k in (0, 1))
    at_once_s, fades_s = decay(_later(busy_written, in_a_row_s([sample.seconds for sample in busy_kept])))
    share = min(1.0, at_once_s / longer_s)
    back = _back(*(both.back_s / back_s for both in beside)) / (longer_s / kept.seconds)
    return Beside(share, fades_s if share else 0.0, back)


def _in_a_row(samples: Sequence[Sample]) -> Sample:
    return Sample(*(in_a_row_s(column) for column in zip(*samples, strict=True)))


def _later(written: Sequence[Sample], kept_s: float) -> list[tuple[float, float]]:
    """After how many seconds copies began, and how many they took longer than `kept_s`: the middle of each row."""
    by_time = sorted(written, key=lambda sample: sample.after_s)
    rows = [by_time[k : k + ROW] for k in range(0, len(by_time), ROW)]
    return [(median(s.after_s for s in row), median(s.seconds for s in row) - kept_s) for row in rows]


def _back(kept: float, written: float) -> float:
    """How much longer the copy back takes beside what was written, both ways' own cost with it; times its time alone.

    That cost hides what is less (`simulator.network`), so it counts in full where there is more than that.
    """
    return written - 1.0 if written > kept else 0.0


def decay(later: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """What was longer at once, and the time in which it falls to a part of 1/e, by least squares; (0, 0) for nothing.

    Args:
        later: After how many seconds copies began, and how many they took longer.

    Example:
        >>> at_once_s, fades_s = decay([(0.0, 8e-5), (1e-3, 4e-5), (2e-3, 2e-5)])
        >>> round(at_once_s * 1e6), round(fades_s * 1e3, 1), decay([(0.0, -1e-6), (1e-3, 0.0)])
        (80, 1.4, (0.0, 0.0))
    """
    after_s, longer_s = np.array(later).T
    times_s = np.geomspace(max(float(after_s.max()), 1e-6) / 30, STAYS_S, TRIED)
    best, least = (0.0, 0.0), float((longer_s**2).sum())
    for fades_s in times_s:
        shape = np.exp(-after_s / fades_s)
        at_once_s = float(shape @ longer_s / (shape @ shape))
        error = float(((at_once_s * shape - longer_s) ** 2).sum())
        if at_once_s > 0.0 and error < least:
            best, least = (at_once_s, float(fades_s)), error
    return best


class LaneAndCopies:
    """Makes the copies of a situation: a lane in a thread of its own, and two streams of a GPU."""

    def __init__(self, bench: Bench, gpu: int, lane: ThreadPoolExecutor, threads: int) -> None:
        """`threads`: of the lane."""
        whole = bench.pinned.numel()
        self._nbytes = min(WRITTEN_BYTES, bench.largest)
        self._to = host_way(bench, gpu, to_gpu=True, part=slice(0, whole // 2))
        self._back = host_way(bench, gpu, to_gpu=False, part=slice(whole // 2, whole - self._nbytes))
        self._elsewhere = bench.pinned[whole - self._nbytes :]
        self._parts, self._back_parts = next_parts(self._to.source), next_parts(self._back.target)
        self._spinner, self._lane, self._threads, self._sweep = bench.spinners[gpu], lane, threads, Sweep()
        self._writes, self._over = threading.Event(), threading.Event()
        self._began_s = self._wrote_s = 0.0
        self._write_s = HOLD_S

    def __call__(self, situation: Situation) -> Sample:
        """One sample, of the next parts of the host's buffers."""
        least_s, late_s = HOLD_S, situation.pause_s
        while True:
            self._writes.clear()
            self._over.clear()
            part = self._parts(self._nbytes)
            job = self._lane.submit(self._work, part if situation.written else self._elsewhere, situation.goes_on)
            try:
                if situation.goes_on:
                    self._writes.wait()
                else:
                    job.result()
                began_s = time.perf_counter()
                until_s = self._began_s + self._write_s + late_s if situation.goes_on else began_s
                hold_s = max(least_s, until_s - began_s)
                times, queued_s = self._copies_s(part, hold_s, back=situation.back)
            finally:
                self._over.set()
                job.result()
            self._write_s = self._wrote_s - self._began_s
            after_s = began_s + hold_s - self._wrote_s
            if queued_s - began_s >= hold_s:
                least_s *= 2.0  # they began before all were queued
            elif after_s < 0.0:
                late_s += STEP_S  # they began before all was written
            else:
                return Sample(*times, after_s)

    def _work(self, part: Any, goes_on: bool) -> None:
        with torch_threads(self._threads):
            try:
                made = self._sweep()[: self._nbytes // ITEM_BYTES]
            finally:
                self._began_s = time.perf_counter()
                self._writes.set()
            numbers(part).copy_(made)
            self._wrote_s = time.perf_counter()
            while goes_on and not self._over.is_set():
                self._sweep()

    def _copies_s(self, part: Any, hold_s: float, *, back: bool) -> tuple[tuple[float, float], float]:
        """Seconds of the copy of `part` and of one back, 0 without; when all was queued."""
        gate = new_event()
        stream = self._to.streams[0]
        with ExitStack() as stack:
            on_streams(stack, [stream])
            self._spinner.spin(hold_s)
            gate.record(stream)
        marks = [_copied(Way(part, self._to.target[: part.numel()], self._to.streams))]
        if back:
            target = self._back_parts(self._nbytes)
            marks.append(_copied(Way(self._back.source[: target.numel()], target, self._back.streams), gate))
        queued_s = time.perf_counter()
        for _, end in marks:
            end.synchronize()
        seconds, back_s, *_ = *(elapsed_s(*ends) for ends in marks), 0.0
        return (seconds, back_s), queued_s


def _copied(way: Way, gate: Any = None) -> tuple[Any, Any]:
    """Timing events around one copy that is queued, behind `gate` if there is one."""
    start, end = new_event(timing=True), new_event(timing=True)
    with ExitStack() as stack:
        on_streams(stack, way.streams)
        if gate is not None:
            way.streams[0].wait_event(gate)
        start.record(way.streams[0])
        way.copy(way.source.numel())()
        end.record(way.streams[0])
    return start, end

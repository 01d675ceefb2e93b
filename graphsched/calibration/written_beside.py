"""Copies of what a CPU lane has just written, while it goes on, and while copies go the other way beside them.

A lane that has begun on something else hands out what it has written sooner than one at rest, and lets go of it: on
hosts of an H200 such copies of 16.8 MB took 1.2 to 1.4 times what they take alone 0.06 ms behind, 1.03 to 1.08 after
2 ms, where they took 1.6 to 2.5 from cores at rest. While cores at rest hand something out, copies to the host take
longer, too, by some 0.45 of what those from it do; while they compute, not (docs/readings.md).

Each is held against the same copy of what was not just written, by turns. They begin behind a kernel that spins until
all calls are made, so that what others do with the host's cores is not in their times.

Not modelled: other sizes than `WRITTEN_BYTES`; lanes that go on with something other than a sweep through memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
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

PAUSES_S = (0.0, 3e-4, 1e-3)
ROUNDS = 15
HOLD_S = 1.5e-4  # in which the calls of two copies are made
STAYS_S = 1.0  # what does not fade is taken to fade within
TRIED = 1000  # times in which it may


class Situation(NamedTuple):
    """In which a copy is made.

    Attributes:
        written: A lane has just written what it brings.
        goes_on: That lane sweeps through memory meanwhile.
        back: A copy goes the other way.
        pause_s: Of the thread that begins the copies, behind the lane's write.
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


def figures(sample: Callable[[Situation], Sample]) -> Beside:
    """What `sample` shows, in `ROUNDS` rounds after a first one; nothing where what is written takes no longer.

    Args:
        sample: Makes the copies of a situation.
    """
    both, rest = [Situation(w, back=True) for w in (False, True)], [Situation(w) for w in (False, True)]
    busy = [Situation(w, True, False, pause_s) for pause_s in PAUSES_S for w in (False, True)]
    found: dict[Situation, list[Sample]] = {situation: [] for situation in (*rest, *both, *busy)}
    for _ in range(ROUNDS + 1):
        for situation, samples in found.items():
            samples.append(sample(situation))
    rows = {situation: _in_a_row(samples[1:]) for situation, samples in found.items()}
    kept, written = (rows[situation] for situation in rest)
    longer_s = written.seconds - kept.seconds
    if longer_s <= LEAST_WRITTEN * kept.seconds:
        return Beside(0.0, 0.0, 0.0)
    later = [(rows[b].after_s, rows[b].seconds - rows[a].seconds) for a, b in zip(busy[::2], busy[1::2], strict=True)]
    at_once_s, fades_s = decay(later)
    share = min(1.0, at_once_s / longer_s)
    return Beside(share, fades_s if share else 0.0, _back(*(rows[situation] for situation in both)))


def _in_a_row(samples: Sequence[Sample]) -> Sample:
    return Sample(*(in_a_row_s(column) for column in zip(*samples, strict=True)))


def _back(kept: Sample, written: Sample) -> float:
    """How much longer the copy back takes, over how much longer the other does; not below 0."""
    longer = written.seconds / kept.seconds - 1.0
    return max(0.0, written.back_s / kept.back_s - 1.0) / longer if longer > LEAST_WRITTEN else 0.0


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
        half = bench.pinned.numel() // 2
        self._to = host_way(bench, gpu, to_gpu=True, part=slice(0, half))
        self._back = host_way(bench, gpu, to_gpu=False, part=slice(half, None))
        self._nbytes = min(WRITTEN_BYTES, bench.largest)
        self._parts, self._back_parts = next_parts(self._to.source), next_parts(self._back.target)
        self._spinner, self._lane, self._threads, self._sweep = bench.spinners[gpu], lane, threads, Sweep()
        self._wrote, self._over = threading.Event(), threading.Event()
        self._wrote_s = self._queued_s = 0.0

    def __call__(self, situation: Situation) -> Sample:
        """One sample, of the next parts of the host's buffers."""
        hold_s = HOLD_S
        while True:
            self._wrote.clear()
            self._over.clear()
            part = self._parts(self._nbytes)
            job = self._lane.submit(self._work, part if situation.written else None, situation.goes_on)
            try:
                if situation.goes_on:
                    self._wrote.wait()
                else:
                    job.result()
                time.sleep(situation.pause_s)
                began_s = time.perf_counter()
                seconds, back_s = self._copies_s(part, hold_s, back=situation.back)
            finally:
                self._over.set()
                job.result()
            if self._queued_s - began_s < hold_s:
                return Sample(seconds, back_s, began_s + hold_s - self._wrote_s)
            hold_s *= 2.0  # they began before all were queued

    def _work(self, part: Any | None, goes_on: bool) -> None:
        with torch_threads(self._threads):
            made = self._sweep()[: self._nbytes // ITEM_BYTES]
            if part is not None:
                numbers(part).copy_(made)
            self._wrote_s = time.perf_counter()
            self._wrote.set()
            while goes_on and not self._over.is_set():
                self._sweep()

    def _copies_s(self, part: Any, hold_s: float, *, back: bool) -> tuple[float, float]:
        """Seconds of the copy of `part`, and of one back."""
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
        self._queued_s = time.perf_counter()
        for _, end in marks:
            end.synchronize()
        times = [elapsed_s(*ends) for ends in marks]
        return times[0], times[1] if back else 0.0


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

"""Runs of a program with timing events, or stamps in their place, for the spans of its actions.

They come behind all others, but where a CPU lane has several threads, whose speed changes within a second: on hosts of
an H200 such runs took up to 1.75 times the median of those before them (docs/readings.md).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from graphsched.executors.clocks import MEETINGS, DeviceClock, StampClock
from graphsched.executors.program import Program
from graphsched.executors.repeats import on_threads, settle, settled_below_s
from graphsched.executors.stamp_kernel import Stamp, StampMemory
from graphsched.executors.stamps import Stamps
from graphsched.plan import OUTSIDE, segments_of, stamped
from graphsched.timeline import Timeline

if TYPE_CHECKING:
    from graphsched.executors.distributed import RankProgram

TIMED_RUNS, MOST_TIMED_RUNS = 3, 9  # odd numbers: of an even one the shorter of the two in the middle counts
TIMED_S = 0.1  # more than the least number of runs are timed, while all of them take no longer


class TimedRuns:
    """Those of `program`; with `warm` one before them does not count, and in graph mode one before each.

    Else a launch finds the processor's caches as reading the clocks has left them. Where a CPU lane has several
    threads, which sleep meanwhile, as many as behind any pause do not count (`repeats.settle`), unless runs are long.
    """

    def __init__(self, program: Program, *, warm: bool) -> None:
        self._program, self._warm, self._ready = program, warm, not warm
        self._last_s = 0.0
        self._found: list[Timeline] = []

    def before(self, call: Callable[[], object]) -> Callable[[], None]:
        """A function that makes one, and then `call`; the first time, and when there are enough, `call` alone."""
        calls = itertools.count()

        def timed_first() -> None:
            if next(calls) and len(self._found) < MOST_TIMED_RUNS:
                self._take()
            call()

        return timed_first

    def typical(self) -> Timeline:
        """That of the median makespan, in which the thread was not held up; more are made if they are few."""
        if len(self._found) < TIMED_RUNS:
            self._make_ready()
            began = time.perf_counter()
            for _ in range(TIMED_RUNS):
                self._take()
            while len(self._found) <= MOST_TIMED_RUNS - 2 and time.perf_counter() - began < TIMED_S:
                self._take()
                self._take()
        return sorted(self._found, key=lambda timeline: timeline.makespan_s)[(len(self._found) - 1) // 2]

    def _take(self) -> None:
        self._make_ready()
        plan = self._program.plan
        rested = self._warm and on_threads(plan) and self._last_s < settled_below_s(plan)
        if self._warm and not rested and self._program.mode == "graph":
            self._program.time_spans()
        self._found.append(timed_run(self._program, rested=rested))
        self._last_s = self._found[-1].makespan_s

    def _make_ready(self) -> None:
        if not self._ready:
            self._last_s = self._program.time_spans()[2]
            self._ready = True


def timed_run(program: Program, *, rested: bool = False) -> Timeline:
    """A run with timing events, whose makespan is its own; behind some that do not count where lanes have `rested`."""
    clocks = Clocks(program)
    if rested:
        settle(lambda: program.time_spans()[2], program.plan)
    stamps, began, seconds = program.time_spans()
    clocks.finish()
    start, end = on_host_clock(program, stamps, clocks)
    return Timeline(
        plan=program.plan,
        source="measured",
        issue_start_s=np.array(stamps.issue_start) - began,
        issue_end_s=np.array(stamps.issue_end) - began,
        start_s=start - began,
        end_s=end - began,
        makespan_s=seconds,
        timed_makespan_s=seconds,
        clock_uncertainty_s=clocks.uncertainty_s,
    )


class Clocks:
    """Of each GPU of a program the clock of its events, and that of its stamps where it has any."""

    def __init__(self, program: Program | RankProgram) -> None:
        streams: dict[int, Any] = {}
        for lane in program._cuda.values():
            streams.setdefault(lane.stream.device.index, lane.stream)
        self._events = {device: DeviceClock(stream) for device, stream in streams.items()}
        self._stamps = {
            device: StampClock(self._events[device], stream, StampMemory(device, MEETINGS))
            for device, stream in (streams if stamped(program.plan) else {}).items()
        }

    def finish(self) -> None:
        """After the run."""
        for device, clock in self._events.items():
            clock.finish()
            if device in self._stamps:
                self._stamps[device].finish()

    def host_s(self, device: int, moment: Any) -> float:
        """Host time of an event or a stamp."""
        clock: Any = (self._stamps if isinstance(moment, Stamp) else self._events)[device]
        return float(clock.host_s(moment))

    @property
    def uncertainty_s(self) -> float:
        """Of the worst clock."""
        events, stamps = self._events.values(), self._stamps.values()
        return max([0.0, *(clock.uncertainty_s for clock in events), *(clock.uncertainty_s for clock in stamps)])


def on_host_clock(program: Program | RankProgram, stamps: Stamps, clocks: Clocks) -> tuple[Any, Any]:
    """Starts and ends of all actions in host seconds."""
    start, end = np.array(stamps.start), np.array(stamps.end)
    for i, (first, last) in stamps.events.items():
        device = program._cuda[program.plan.lane_of[i]].stream.device.index
        start[i], end[i] = clocks.host_s(device, first), clocks.host_s(device, last)
    reached = 0.0
    joins = _waits_of_lanes(program)
    for i in (i for i, kind in enumerate(program.plan.kinds) if kind == "wait"):
        start[i], end[i] = stamps.issue_start[i], stamps.issue_end[i]
        if i in joins:  # over when the last of what it waits for is
            start[i] = max(reached, start[i])
            end[i] = max([start[i], *(end[j] for j in program.plan.waits[i])])
        reached = end[i]
    return start, end


def _waits_of_lanes(program: Program | RankProgram) -> set[int]:
    """Waits that lanes make inside a CUDA graph, not the thread."""
    if program.mode != "graph":
        return set()
    kinds, of = program.plan.kinds, segments_of(program.plan).of
    return {i for i, segment in enumerate(of) if segment != OUTSIDE and kinds[i] == "wait"}

"""Times of CUDA events, and of stamps that kernels write, on the host's clock."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphsched.executors.stamp_kernel import Stamp, StampMemory

PAUSE_CYCLES = 200_000  # about 0.1 ms
DRIFT_SHOWS_S = 0.5  # of a run, so that the drift of two clocks can be told from the uncertainty


@dataclass(frozen=True)
class Anchor:
    """A moment known on a device's clock (`event`) and on the host's, give or take `uncertainty_s`."""

    event: Any
    host_s: float
    uncertainty_s: float


def new_event(*, timing: bool = False, external: bool = False) -> Any:
    """A CUDA event; an `external` one that is recorded during a capture tells the time of every replay."""
    import torch

    make: Any = torch.cuda.Event
    return make(enable_timing=timing, external=True) if external else make(enable_timing=timing)


def anchor(stream: Any, tries: int = 20) -> Anchor:
    """The closest of several anchors on an idle stream.

    An event is recorded and polled; it happened between the call and the first poll that sees it.
    """
    best: Anchor | None = None
    for _ in range(tries):
        event = new_event(timing=True)
        before = time.perf_counter()
        event.record(stream)
        recorded = time.perf_counter()
        while not event.query():
            pass
        after = time.perf_counter()
        middle = (recorded + after) / 2  # it seldom happens before the call is over
        if best is None or middle - before < best.uncertainty_s:
            best = Anchor(event, middle, middle - before)
    assert best is not None
    return best


class DeviceClock:
    """Maps events of one device to host seconds, by an anchor before a run and one after.

    The anchors' distance corrects the drift of the two clocks once it is long enough to show it.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._first = anchor(stream)
        self._rate = 1.0
        self.uncertainty_s = self._first.uncertainty_s

    def finish(self) -> None:
        """Take the second anchor, after the run."""
        last = anchor(self._stream)
        distance = last.host_s - self._first.host_s
        on_device = float(self._first.event.elapsed_time(last.event)) / 1e3
        if distance > DRIFT_SHOWS_S and on_device:
            self._rate = distance / on_device
        off = abs(distance - self._rate * on_device) + last.uncertainty_s
        self.uncertainty_s = max(self._first.uncertainty_s, off)

    def host_s(self, event: Any) -> float:
        """Host time (`time.perf_counter`) of a recorded event."""
        return self.host_after_s(event, 0.0)

    def host_after_s(self, event: Any, seconds: float) -> float:
        """Host time when so many `seconds` of the device have passed since a recorded event."""
        since_s = float(self._first.event.elapsed_time(event)) / 1e3 + seconds
        return self._first.host_s + self._rate * since_s


@dataclass(frozen=True)
class Meeting:
    """A stamp of so many nanoseconds that was made `after_s` seconds after an event, give or take `uncertainty_s`."""

    event: Any
    after_s: float
    ns: int
    uncertainty_s: float


def meeting(stream: Any, memory: StampMemory, tries: int = 20) -> Meeting:
    """The closest of several meetings on an idle stream; `memory` has a place for each.

    The stamp is made between two events, so that half their distance is the uncertainty. All three wait behind a
    pause of the stream, so that the device finds one right after the other.
    """
    found = []
    for place in range(tries):
        before, after = new_event(timing=True), new_event(timing=True)
        pause(stream)
        before.record(stream)
        memory.write(place, stream)
        after.record(stream)
        after.synchronize()
        found.append((float(before.elapsed_time(after)) / 2e3, place, before))
    half_s, place, event = min(found, key=lambda one: one[:2])
    return Meeting(event, half_s, memory.read()[place], half_s)


def pause(stream: Any) -> None:
    """Keep an idle stream busy while the host issues some calls."""
    import torch

    sleep: Any = torch.cuda._sleep
    with torch.cuda.stream(stream):
        sleep(PAUSE_CYCLES)


MEETINGS = 20  # tries for one


class StampClock:
    """Maps stamps of one device to host seconds, by where they meet its events before a run and after it.

    The meetings' distance corrects the drift of the device's two clocks once it is long enough to show it.
    """

    def __init__(self, events: DeviceClock, stream: Any, memory: StampMemory) -> None:
        """`memory`: for stamps of its own, `MEETINGS` of them."""
        self._events, self._stream, self._memory = events, stream, memory
        self._first = meeting(stream, memory, MEETINGS)
        self._rate = 1.0
        self._run: list[int] | None = None
        self.uncertainty_s = events.uncertainty_s + self._first.uncertainty_s

    def finish(self) -> None:
        """Take the second meeting, after the run and after the clock of the events is finished."""
        first, last = self._first, meeting(self._stream, self._memory, MEETINGS)
        by_events_s = float(first.event.elapsed_time(last.event)) / 1e3 + last.after_s - first.after_s
        by_stamps_s = (last.ns - first.ns) / 1e9
        if by_stamps_s > DRIFT_SHOWS_S:
            self._rate = by_events_s / by_stamps_s
        off_s = abs(by_events_s - self._rate * by_stamps_s) + last.uncertainty_s
        self.uncertainty_s = self._events.uncertainty_s + max(first.uncertainty_s, off_s)

    def host_s(self, stamp: Stamp) -> float:
        """Host time of a stamp of the run that is over; the first asks the device for those of the whole run."""
        if self._run is None:
            self._run = stamp.memory.read()
        since_s = self._rate * (self._run[stamp.place] - self._first.ns) / 1e9
        return self._events.host_after_s(self._first.event, self._first.after_s + since_s)

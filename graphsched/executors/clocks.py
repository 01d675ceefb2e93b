"""Times of CUDA events on the host's clock."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any


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

    DRIFT_SHOWS_S = 0.5

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
        if distance > self.DRIFT_SHOWS_S:
            self._rate = distance / on_device
        off = abs(distance - self._rate * on_device) + last.uncertainty_s
        self.uncertainty_s = max(self._first.uncertainty_s, off)

    def host_s(self, event: Any) -> float:
        """Host time (`time.perf_counter`) of a recorded event."""
        return self._first.host_s + self._rate * float(self._first.event.elapsed_time(event)) / 1e3

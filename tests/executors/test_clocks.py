"""Stamps on the host's clock: devices whose two clocks run as a test says."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from graphsched.executors import clocks
from graphsched.executors.clocks import MEETINGS, DeviceClock, StampClock, meeting


@dataclass
class Gpu:
    """Events and stamps of one time, which goes on by `step_s` with each; stamps count faster by `rate`."""

    now_s: float = 100.0
    step_s: float = 1e-6
    rate: float = 1.0
    zero_ns: int = 10**15
    waits: list[float] = field(default_factory=list)  # before each stamp, in turn
    places: dict[int, int] = field(default_factory=dict)
    reads: int = 0
    pauses: list[Any] = field(default_factory=list)

    def record(self, event: Any) -> None:
        self.now_s += self.step_s
        event.at_s = self.now_s

    def write(self, place: int, stream: Any) -> None:
        self.now_s += self.waits.pop(0) if self.waits else self.step_s
        self.places[place] = self.ns(self.now_s)

    def read(self) -> list[int]:
        self.reads += 1
        return [self.places[place] for place in sorted(self.places)]

    def ns(self, at_s: float) -> int:
        return self.zero_ns + round(at_s * self.rate * 1e9)

    def event(self, timing: bool = False) -> Any:
        made = SimpleNamespace(at_s=0.0, query=lambda: True, synchronize=lambda: None)
        made.record = lambda stream: self.record(made)
        made.elapsed_time = lambda other: (other.at_s - made.at_s) * 1e3
        return made


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    """The host's clock stands still."""
    here = Gpu()
    monkeypatch.setattr(clocks, "new_event", here.event)
    monkeypatch.setattr(clocks, "pause", here.pauses.append)
    monkeypatch.setattr(clocks, "time", SimpleNamespace(perf_counter=lambda: 5.0))
    return here


def stamp(ns: int) -> Any:
    return SimpleNamespace(memory=SimpleNamespace(read=lambda: [7, ns]), place=1)


def test_a_stamp_lies_between_two_events(gpu: Gpu) -> None:
    """The closest try counts: 1 µs before its stamp, and 1 µs behind it."""
    gpu.waits = [9e-6, 4e-6, 1e-6, 6e-6]
    found = meeting("stream", gpu, tries=4)  # type: ignore[arg-type]
    assert gpu.pauses == ["stream"] * 4
    assert found.after_s == found.uncertainty_s == pytest.approx(1e-6)
    assert found.ns == gpu.places[2] == gpu.ns(found.event.at_s + 1e-6)


def test_stamps_are_told_on_the_hosts_clock(gpu: Gpu) -> None:
    """The first event is at 5 s of the host."""
    events = DeviceClock(None)
    clock = StampClock(events, None, gpu)  # type: ignore[arg-type]
    began_s = events._first.event.at_s
    assert clock.host_s(stamp(gpu.ns(began_s + 0.25))) == pytest.approx(5.25, abs=1e-8)
    assert clock.uncertainty_s == pytest.approx(events.uncertainty_s + 1e-6)


@pytest.mark.parametrize("rate", [1.0, 1 + 1e-4])
def test_drift_is_corrected_once_it_shows(gpu: Gpu, rate: float) -> None:
    """The clock of stamps goes ahead of that of events by 100 µs a second."""
    gpu.rate = rate
    events = DeviceClock(None)
    clock = StampClock(events, None, gpu)  # type: ignore[arg-type]
    gpu.now_s += 2.0
    at_s = gpu.now_s - events._first.event.at_s
    clock.finish()  # the events' clock, which is not finished, keeps to the host's
    parts = (0.5, 1.0)
    taken = [gpu.ns(events._first.event.at_s + part * at_s) for part in parts]
    run = SimpleNamespace(read=lambda: taken)
    for place, part in enumerate(parts):
        mark: Any = SimpleNamespace(memory=run, place=place)
        assert clock.host_s(mark) == pytest.approx(5.0 + part * at_s, abs=3e-6)
    assert clock.uncertainty_s < 3e-6


def test_drift_that_does_not_show_is_uncertainty(gpu: Gpu) -> None:
    gpu.rate = 1 + 1e-3
    clock = StampClock(DeviceClock(None), None, gpu)  # type: ignore[arg-type]
    gpu.now_s += 0.1
    clock.finish()
    assert clock.uncertainty_s == pytest.approx(1e-4 + 1e-6, rel=0.01)


def test_the_memory_of_a_run_is_read_once(gpu: Gpu) -> None:
    clock = StampClock(DeviceClock(None), None, gpu)  # type: ignore[arg-type]
    run = Gpu(places={0: 10, 1: 20})
    for place in (0, 1, 0):
        clock.host_s(SimpleNamespace(memory=run, place=place))  # type: ignore[arg-type]
    assert run.reads == 1
    assert gpu.reads == 1
    assert len(gpu.places) == MEETINGS

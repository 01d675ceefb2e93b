"""What calls take longer after waits, on a core that is played, and on a real one."""

from __future__ import annotations

import statistics
import time

import pytest

from graphsched.calibration import cold_calls as module
from graphsched.calibration.cold_calls import SHORT_WAITS_US, WAITS_US, ColdCalls, colds_of, colds_on

CALL_S, LAUNCH_S, LOOK_S = 8e-6, 4e-6, 5e-7


class Core:
    """A thread whose calls take `CALL_S`, and `rate` more for each second that it polled before; a GPU that spins.

    The first calls after other code take 50 µs more.
    """

    def __init__(self, patch: pytest.MonkeyPatch, rate: float, kinds: int = 6) -> None:
        self.now_s, self.over_s, self.polled_s, self.rate, self.foreign = 0.0, 0.0, 0.0, rate, 0
        self.waits_s: list[float] = []
        self.kinds = kinds
        patch.setattr(module, "stream_pool", lambda gpu: [self] * 32)
        patch.setattr(module, "Spinner", lambda gpu: self)
        patch.setattr(module, "tiny_calls", lambda gpu: [self.call] * kinds)
        patch.setattr(module, "on_streams", lambda stack, streams: None)
        patch.setattr(module.time, "perf_counter", lambda: self.now_s)

    def spin(self, seconds: float) -> None:
        self.now_s += LAUNCH_S
        self.over_s = self.now_s + seconds
        self.waits_s.append(seconds)

    def query(self) -> bool:
        self.now_s += LOOK_S
        self.polled_s += LOOK_S
        return self.now_s >= self.over_s

    def call(self) -> None:
        self.now_s += CALL_S + self.rate * self.polled_s + 5e-5 * (self.foreign > 0)
        self.polled_s, self.foreign = 0.0, self.foreign - 1


@pytest.mark.parametrize("rate", [0.0, 0.004, 0.028])
def test_a_core_that_loses_more_the_longer_it_polls(monkeypatch: pytest.MonkeyPatch, rate: float) -> None:
    """Calls in a row, then each after a short wait, then each after a long one; only calls count, no waits."""
    core = Core(monkeypatch, rate)
    calls = ColdCalls()
    core.waits_s.clear()
    found_s = calls.sample_s()
    assert core.waits_s == [wait_us * 1e-6 for wait_us in WAITS_US for _ in range(core.kinds)]
    assert found_s == pytest.approx([rate * wait_us * 1e-6 for wait_us in WAITS_US], rel=0.05, abs=1e-12)
    assert calls.sample().row_s == pytest.approx(CALL_S)


def test_what_ran_before_a_sample_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    core = Core(monkeypatch, 0.01)
    calls = ColdCalls()
    before_s = calls.sample_s()
    core.foreign = core.kinds
    assert calls.sample_s() == pytest.approx(before_s, rel=0.01)


def test_a_sample_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    core = Core(monkeypatch, 0.0)
    calls = ColdCalls()
    began_s = core.now_s
    calls.sample_s()
    assert core.now_s - began_s < 1e-2
    began_s = core.now_s
    assert len(calls.sample_s(SHORT_WAITS_US)) == len(SHORT_WAITS_US)
    assert core.now_s - began_s < 2e-3


def test_the_middle_of_samples_counts_and_a_longer_wait_costs_no_less() -> None:
    assert colds_of([(1.0, 2.0, 8.0), (3.0, 9.0, 5.0), (2.0, 4.0, 7.0)]) == ((20, 2.0), (200, 4.0), (1000, 7.0))
    assert colds_of([(2.0, 1.0, 3.0)]) == ((20, 2.0), (200, 2.0), (1000, 3.0))
    assert colds_of([(-1.0, 1.0, 0.5)]) == ((20, 0.0), (200, 1.0), (1000, 1.0))
    assert colds_of([]) == ()


def test_a_platform_gets_the_middle_of_many_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    Core(monkeypatch, 0.01)
    assert [seconds for _, seconds in colds_on(0)] == pytest.approx([2e-7, 2e-6, 1e-5], rel=0.05)


@pytest.mark.gpu
def test_calls_after_waits_on_a_gpu() -> None:
    calls = ColdCalls(0)
    samples, looks_s = [], []
    for _ in range(20):
        began_s = time.perf_counter()
        samples.append(calls.sample_s())
        looks_s.append(time.perf_counter() - began_s)
    points, look_s = colds_of(samples), statistics.median(looks_s)
    print(f"\nafter waits: {', '.join(f'{us} us {1e6 * s:+.2f} us' for us, s in points)}; a look {1e3 * look_s:.2f} ms")
    for of in zip(*samples, strict=True):
        print("  ", " ".join(f"{1e6 * s:+.2f}" for s in of))
    assert [wait_us for wait_us, _ in points] == list(WAITS_US)
    assert all(0.0 <= seconds < 1e-4 for _, seconds in points)
    assert 1e-6 * WAITS_US[-1] < look_s < 2e-2

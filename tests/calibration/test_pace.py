"""The speed of the dispatching thread at present."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.calibration import PaceMeter, at_pace, cold_calls, cuda_calls, present_call_s
from graphsched.platform import Device, Dispatch, Platform

MEASURED = Dispatch(call_s=5e-6, record_s=2e-6, sync_s=1e-5, launch_s=3e-6, wake_s=1e-5)
HERE = Platform("here", (Device("cpu", "cpu"), Device("cuda:1", "cuda")), dispatch=MEASURED)


def test_a_slower_thread_has_dearer_calls_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(cuda_calls, "tiny_call_s", lambda gpu: asked.append(gpu) or 1e-5)
    now = at_pace(HERE, present_call_s(HERE)).dispatch
    assert asked == [1]
    assert (now.call_s, now.record_s, now.run_s) == (1e-5, 4e-6, 2 * MEASURED.run_s)
    assert (now.sync_s, now.launch_s, now.wake_s, now.queue_depth) == (1e-5, 3e-6, 1e-5, 1024)
    assert now.at(5e-6).record_s == pytest.approx(2e-6)


def test_without_a_yardstick_or_a_gpu_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_calls, "tiny_call_s", lambda gpu: pytest.fail("measured"))
    unknown = replace(HERE, dispatch=replace(MEASURED, call_s=0.0))
    bare = replace(HERE, devices=HERE.devices[:1])
    assert (present_call_s(unknown), present_call_s(bare)) == (0, 0)
    assert at_pace(HERE, 0.0) is HERE
    assert at_pace(unknown, 1e-5) == unknown


def test_calls_after_waits_are_those_measured_now() -> None:
    now = at_pace(HERE, 1e-5, ((20, 1e-6), (200, 9e-6))).dispatch
    assert (now.colds, now.record_s) == (((20, 1e-6), (200, 9e-6)), 4e-6)
    assert at_pace(HERE, 1e-5).dispatch.colds == ()


def test_a_meter_takes_the_yardstick_and_calls_after_waits_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core that slows down while something runs: the middle of what was seen counts."""
    seen = iter([1.0, 4.0, 2.0])
    colder = iter([(1.0, 8.0), (3.0, 5.0), (2.0, 7.0)])
    closed: list[int] = []
    asked: list[int] = []

    class Cold:
        def __init__(self, gpu: int) -> None:
            asked.append(gpu)

        def sample_s(self) -> tuple[float, ...]:
            return next(colder)

    class Played:
        def __init__(self, gpu: int) -> None:
            self.gpu = gpu

        def sample_s(self) -> float:
            return next(seen)

        def close(self) -> None:
            closed.append(self.gpu)

    monkeypatch.setattr(cuda_calls, "Yardstick", Played)
    monkeypatch.setattr(cold_calls, "ColdCalls", Cold)
    meter = PaceMeter(HERE)
    for _ in range(3):
        meter.take()
    meter.close()
    assert (meter.call_s, closed) == (2.0, [1])
    assert (meter.colds, asked) == (((20, 2.0), (200, 7.0)), [1])


def test_without_a_gpu_or_a_yardstick_there_is_no_pace() -> None:
    for platform in (
        Platform("bare", (Device("cpu", "cpu"),)),
        replace(HERE, dispatch=replace(HERE.dispatch, call_s=0.0)),
    ):
        meter = PaceMeter(platform)
        meter.take()
        meter.close()
        assert (meter.call_s, meter.colds) == (0.0, ())

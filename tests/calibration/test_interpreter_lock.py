"""What it costs lanes to wait for the interpreter's lock."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from graphsched.calibration import interpreter_lock as module
from graphsched.calibration.cpu_dispatch import SLEPT_US, lane_figures, put_s
from graphsched.calibration.interpreter_lock import lock_figures
from graphsched.platform import Dispatch


def test_figures_are_fields_of_dispatch_and_leave_the_threads_as_they_were() -> None:
    threads, alive = torch.get_num_threads(), threading.active_count()
    found = lock_figures(repeats=30)
    assert set(found) == {"lock_signal_s", "lock_wake_s", "tell_s", "told_s"}
    assert all(0.0 <= seconds < 0.1 for seconds in found.values())
    assert (torch.get_num_threads(), threading.active_count()) == (threads, alive)


def test_all_figures_of_lanes_are_fields_of_dispatch() -> None:
    found = lane_figures(repeats=5)
    Dispatch(**found)
    assert [us for us, _ in found["wakes"]] == list(SLEPT_US)
    assert all(0.0 < seconds < 0.1 for _, seconds in found["wakes"])
    assert {"put_s", "lock_signal_s", "lock_wake_s", "tell_s", "told_s"} < set(found)
    assert 0.0 < put_s(repeats=5) < 0.01


def play(monkeypatch: pytest.MonkeyPatch, waking: float, met: int) -> None:
    """Operations of 5 s with nobody waiting and of 7 with a lane that waits, which `met` samples of 50 do."""
    number = iter(range(1000))

    def sample(first: Any, second: Any, *, wait: bool) -> tuple[float, float]:
        return (7.0, waking if next(number) < met else -1.0) if wait else (5.0, -9.0)

    monkeypatch.setattr(module, "_sample", sample)
    monkeypatch.setattr(module, "_telling", lambda first, second: (3.0, 4.0))


def test_what_an_operation_takes_longer_is_the_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, 17.0, 1000)
    assert lock_figures(repeats=50) == {"lock_signal_s": 2.0, "lock_wake_s": 17.0, "tell_s": 3.0, "told_s": 4.0}


def test_lanes_that_hardly_meet_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, 17.0, 25)
    assert lock_figures(repeats=50) == {"lock_signal_s": 0.0, "lock_wake_s": 0.0, "tell_s": 3.0, "told_s": 4.0}

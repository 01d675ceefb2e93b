"""An operation on a CPU lane: threads that slept before each sample, or go on at once."""

from __future__ import annotations

import pytest

from graphsched.calibration import cpu_operations as module
from graphsched.calibration.cpu_operations import REST_S, measure_on_cpu


@pytest.mark.parametrize("threads", [1, 2])
def test_a_lane_of_several_threads_rests_before_each_sample(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    rests: list[float] = []
    calls = 0

    def call() -> None:
        nonlocal calls
        calls += 1

    monkeypatch.setattr(module.time, "sleep", rests.append)
    cost = measure_on_cpu([call], threads, repeats=20)
    assert cost.device_s > 0
    if threads == 1:
        assert not rests
        assert calls > 100  # short ones are timed together
    else:
        assert len(rests) >= 20
        assert set(rests) == {REST_S}
        assert calls == len(rests) + 2

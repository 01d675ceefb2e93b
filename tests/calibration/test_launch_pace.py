"""The yardsticks of launches: how fast the thread launches CUDA graphs at present."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from graphsched.calibration import launch_pace as module
from graphsched.calibration.launch_pace import COLD_RUNS, RUNS, SAMPLES, STAGE, STAGES, LaunchYardstick, launches_on
from graphsched.errors import ExecutionError
from tests.executors.fake_cuda import FakeCuda


@pytest.mark.parametrize("gpus", [[1], [0, 2]])
def test_a_yardstick_is_one_graph_of_a_chain_round_its_gpus(gpus: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """t0 ─▶ … ─▶ t3 on the first GPU ─▶ copy ─▶ t4 ─▶ … ─▶ t7 on the second ─▶ copy ─▶ …"""
    FakeCuda(3).install(monkeypatch)
    yardstick = LaunchYardstick(gpus)
    plan = yardstick._program.plan
    tasks = [plan.lanes[lane].device for lane in plan.lane_of if plan.lanes[lane].kind == "compute"]
    assert tasks == [f"cuda:{gpus[k // STAGE % len(gpus)]}" for k in range(STAGES * STAGE)]
    assert len(plan) - len(tasks) == (STAGES - 1) * (len(gpus) - 1)
    assert len(yardstick._program._compiler.inner.segments) == 1
    assert yardstick.sample_s() > 0
    yardstick.close()
    with pytest.raises(ExecutionError, match="closed"):
        yardstick._program.run()


def test_a_sample_is_the_middle_of_launches_behind_cold_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    launches = iter([9.0] * COLD_RUNS + [3.0, 1.0, 2.0] + [9.0] * COLD_RUNS + [5.0, 8.0, 6.0])
    assert RUNS == 3

    class Played:
        issue_s = 0.0

        def time_once(self) -> float:
            self.issue_s = next(launches)
            return 100.0

    monkeypatch.setattr(module, "program_of", lambda build, gpus, mode: Played())
    yardstick = LaunchYardstick([0])
    assert yardstick.sample_s() == 6.0


@pytest.mark.parametrize("gpus", [[4], [4, 2], [4, 2, 0, 1]])
def test_yardsticks_are_taken_in_turn_on_one_gpu_and_on_two(gpus: list[int]) -> None:
    """A thread that is slow for a while is so for both; the middle counts, and all is given back."""
    turns: list[int] = []
    closed: list[Sequence[int]] = []

    class Played:
        def __init__(self, on: Sequence[int]) -> None:
            self.on = on

        def sample_s(self) -> float:
            turns.append(len(self.on))
            slow = len(turns) > 2 * len(gpus[:2]) * SAMPLES // 3
            return 1e-5 * len(self.on) * (2 if slow else 1)

        def close(self) -> None:
            closed.append(self.on)

    made: Any = Played
    assert launches_on(gpus, made) == ((1, 1e-5), (2, 2e-5))[: len(gpus)]
    assert turns == [1, 2][: len(gpus)] * SAMPLES
    assert sorted(closed) == sorted([gpus[:1], gpus[:2]][: len(gpus)])


@pytest.mark.gpu
def test_launches_on_these_gpus() -> None:
    found = launches_on(range(torch.cuda.device_count()))
    assert all(1e-6 < seconds < 1e-3 for _, seconds in found)
    assert [gpus for gpus, _ in found] == [1, 2][: torch.cuda.device_count()]
    assert sorted(found, key=lambda point: point[1]) == list(found)

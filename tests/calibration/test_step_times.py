"""What a step takes the thread is found again from rows that are played, and measured on real GPUs."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.calibration import step_times as module
from graphsched.calibration.step_times import MANY, ROUNDS, rounds_over, step_figures
from graphsched.platform import Dispatch
from tests.executors.fake_cuda import FakeCuda

TASK, STEP, FURTHER, GRAPH, LAUNCH, NODE = 6.0, 30.0, 18.0, 22.0, 5.0, 0.5  # µs, as all here
KNOWN = {"call_s": 6e-6, "graph_launch_s": LAUNCH * 1e-6, "graph_launch_node_s": NODE * 1e-6}


class Played:
    """A program whose steps take the thread what the figures say, and the first of a row 50 µs more."""

    def __init__(self, slow: list[float], gpus: int, rounds: int, mode: str) -> None:
        calls = LAUNCH + NODE if mode == "graph" else gpus * rounds * TASK
        self.us = calls + (GRAPH if mode == "graph" else STEP + FURTHER * (gpus - 1))
        self.slow = slow

    def __enter__(self) -> Played:
        return self

    def __exit__(self, *error: object) -> None: ...

    def time_steps(self, steps: int, inputs: dict[str, Any]) -> float:
        assert inputs == {}
        return (50 + steps * self.us) * self.slow[0] * 1e-6


@pytest.mark.parametrize("gpus", [1, 3])
def test_all_figures_are_found_again(monkeypatch: pytest.MonkeyPatch, gpus: int) -> None:
    """By a thread that is 1.5 times as slow as the figures are told for, and in two of the turns 3 times."""
    slow, turns = [1.5], iter(range(100))

    def program(devices: list[int], build: partial[Any], mode: str = "graph") -> Any:
        return Played(slow, len(devices), build.keywords["rounds"], mode)

    def sample() -> float:
        slow[0] = 3.0 if next(turns) // 2 in (2, 3) else 1.5
        return slow[0] * KNOWN["call_s"]

    monkeypatch.setattr(module, "program_of", program)
    monkeypatch.setattr(module, "Yardstick", lambda device: SimpleNamespace(sample_s=sample, close=lambda: None))
    found = step_figures(list(range(gpus)), KNOWN)
    wanted = {"step_s": STEP, "graph_step_s": GRAPH} | ({"step_gpu_s": FURTHER} if gpus > 1 else {})
    assert found == {name: pytest.approx(us * 1e-6) for name, us in wanted.items()}
    Dispatch(**found)


def test_noise_makes_nothing_negative() -> None:
    taken = {"once": 1.0, "often": 90.0, "graph": 2.0, "all once": 1.0, "all often": 200.0}
    found = module.figures_of(taken, 2, {"graph_launch_s": 5.0, "graph_launch_node_s": 1.0})
    assert found == {"step_s": 0.0, "graph_step_s": 0.0, "step_gpu_s": 0.0}


def test_rows_go_over_the_gpus_in_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """0/cuda:0, 0/cuda:2, 1/cuda:0, 1/cuda:2: as calls of a stream, which steps follow."""
    FakeCuda(3).install(monkeypatch)
    with module.program_of([0, 2], partial(rounds_over, rounds=2), mode="eager") as row:
        assert row.mode == "eager"
        assert [row.plan.lanes[lane].device for lane in row.plan.lane_of] == ["cuda:0", "cuda:2"] * 2
        assert module.step_of(row) >= 0.0


@pytest.mark.gpu
def test_steps_of_these_gpus() -> None:
    here = list(range(torch.cuda.device_count()))
    found = step_figures(here, {"call_s": 6e-6, "graph_launch_s": 5e-6, "graph_launch_node_s": 1e-8})
    assert 1e-6 < found["step_s"] < 2e-4
    assert 1e-6 < found["graph_step_s"] < 1e-4
    assert found.get("step_gpu_s", 0.0) < 1e-4
    with module.program_of(here[:1], partial(rounds_over, rounds=ROUNDS), mode="eager") as row:
        assert 0 < module.step_of(row) < row.time_steps(MANY, {}) / 30

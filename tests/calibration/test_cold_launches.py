"""Launches of CUDA graphs behind waits: what the run of one takes longer."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.calibration import cold_launches as module
from graphsched.calibration.cold_calls import WAITS_US
from graphsched.calibration.cold_launches import SAMPLES, ColdLaunches, launch_colds_on
from graphsched.calibration.tiny_plans import company_order
from graphsched.errors import ExecutionError
from tests.executors.fake_cuda import FakeCuda

CYCLES_PER_S = 1e6


@pytest.fixture
def spun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Cycles of the spins that graphs are captured of."""
    FakeCuda(3).install(monkeypatch)
    cycles: list[int] = []
    monkeypatch.setattr(torch.cuda, "_sleep", cycles.append, raising=False)
    monkeypatch.setattr(module, "Spinner", lambda gpu: SimpleNamespace(cycles_per_s=CYCLES_PER_S))
    return cycles


@pytest.mark.parametrize("gpus", [[1], [0, 2]])
def test_all_kinds_are_launched_behind_spins_of_all_lengths_on_their_gpus(gpus: list[int], spun: list[int]) -> None:
    """s (20 µs) ─▶ [neg, mm, …, a copy in, a copy out] ─▶ s (200 µs) ─▶ […] ─▶ …, each bracket and each s a graph."""
    cold = ColdLaunches(gpus)
    assert sorted(set(spun)) == [1, *(1 + us for us in WAITS_US)]
    for wait in cold._waits:
        assert [wait.plan.lanes[lane].device for lane in wait.plan.lane_of] == [f"cuda:{gpu}" for gpu in gpus]
    plan = cold._program.plan
    assert len(plan) == len(company_order(len(gpus)))
    assert {plan.lanes[lane].device for lane in plan.lane_of} >= {f"cuda:{gpu}" for gpu in gpus}
    assert len(plan.copies) == 2 * len(gpus) + len(gpus) * (len(gpus) - 1)
    assert len(cold.sample_s()) == len(WAITS_US)
    cold.close()
    for program in (cold._program, *cold._waits):
        with pytest.raises(ExecutionError, match="closed"):
            program.run()


def test_a_failure_while_it_is_made_leaves_nothing_open(spun: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    program_of = module.program_of
    monkeypatch.setattr(module, "program_of", lambda *a, **k: made.append(program_of(*a, **k)) or made[-1])
    monkeypatch.setattr(ColdLaunches, "sample_s", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ColdLaunches([0])
    assert len(made) == 2 + len(WAITS_US)
    for program in made:
        with pytest.raises(ExecutionError, match="closed"):
            program.run()


def test_what_a_run_behind_no_wait_takes_counts_as_nothing(spun: list[int]) -> None:
    """A core that loses a tenth of every wait, and a graph that takes 50 µs, 70 in the first run of a sample."""
    cold, waited_s, runs = ColdLaunches([0]), [0.0], [0]

    def wait(seconds: float) -> Any:
        def time_once() -> float:
            waited_s[0] = seconds
            return seconds

        return SimpleNamespace(time_once=time_once)

    def graph() -> float:
        runs[0] += 1
        return 5e-5 + (2e-5 if runs[0] == 1 else 0.0) + waited_s[0] / 10

    here: Any = cold
    here._waits, here._program = [wait(us * 1e-6) for us in (5, *(5 + us for us in WAITS_US))], None
    here._program = SimpleNamespace(time_once=graph)
    assert cold.sample_s() == pytest.approx([us * 1e-7 for us in WAITS_US])


@pytest.mark.parametrize("gpus", [[4], [4, 2], [4, 2, 0, 1]])
def test_both_tables_are_taken_in_turn(gpus: list[int]) -> None:
    """A core that is noisy for a while is so for both; the middle counts, and all is given back."""
    turns: list[int] = []
    closed: list[Sequence[int]] = []

    class Played:
        def __init__(self, on: Sequence[int]) -> None:
            self.on = on

        def sample_s(self) -> tuple[float, ...]:
            turns.append(len(self.on))
            noisy = len(turns) > 2 * len(gpus[:2]) * SAMPLES // 3
            return tuple((9.0 if noisy else 1.0) * len(self.on) * k for k in (1, 2, 3))

        def close(self) -> None:
            closed.append(self.on)

    made: Any = Played
    expected = tuple(tuple(zip(WAITS_US, (n, 2.0 * n, 3.0 * n), strict=True)) for n in (1.0, 2.0)[: len(gpus)])
    assert launch_colds_on(gpus, made) == expected
    assert turns == [1, 2][: len(gpus)] * SAMPLES
    assert sorted(closed) == sorted([gpus[:1], gpus[:2]][: len(gpus)])


@pytest.mark.gpu
def test_launches_behind_waits_on_these_gpus() -> None:
    found = launch_colds_on(range(torch.cuda.device_count()))
    assert len(found) == len([1, 2][: torch.cuda.device_count()])
    for points in found:
        assert [us for us, _ in points] == list(WAITS_US)
        assert all(0.0 <= seconds < 1e-4 for _, seconds in points)

"""How often a GPU looks is found again from graphs that are over at few moments, and measured on real ones."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from graphsched.calibration import graph_looks as module
from graphsched.calibration.cuda_clock import Spinner
from graphsched.calibration.graph_looks import CHAINS, SPINS_S, look_figures, moments, with_a_spin
from graphsched.platform import Dispatch
from graphsched.simulator.looks import look_at_s
from tests.executors.fake_cuda import FakeCuda

PERIOD_S, AHEAD_S, SEEN_S = 9.23e-6, 3.5e-6, 1.7e-6
START_S, NODE_S, LATER_S = 15e-6, 1.2e-6, 4e-6  # of a graph without nodes; a tiny one; where the second GPU starts
SPINNERS: Any = [SimpleNamespace(device=device) for device in (3, 5)]


def played(noise_s: float = 0.0, period_s: float = PERIOD_S, seen_s: float = SEEN_S, seed: int = 7) -> Any:
    """`_whole_s` of two GPUs of which the first looks once a period; each run is longer or shorter by some noise."""
    noise = np.random.default_rng(seed)

    def whole_s(devices: list[int], build: partial[Any]) -> float:
        assert devices == [3, 5]
        if tasks := build.keywords.get("tasks"):
            assert build.func is module.long_on_first
            return START_S + float(tasks) * NODE_S
        begun_s = NODE_S if build.keywords["told"] else -AHEAD_S
        look_s = look_at_s(begun_s, LATER_S + build.keywords["spin_s"], period_s)
        return START_S + look_s + seen_s + float(noise.normal(0.0, noise_s))

    return whole_s


@pytest.mark.parametrize("noise_s", [0.0, 4e-7, 8e-7])
def test_all_figures_are_found_again(noise_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_whole_s", played(noise_s))
    found = look_figures(SPINNERS)
    assert found["graph_look_s"] == pytest.approx(PERIOD_S, abs=3e-7)
    assert found["graph_look_ahead_s"] == pytest.approx(AHEAD_S, abs=1e-6)
    assert found["graph_seen_s"] == pytest.approx(SEEN_S, abs=1e-6)
    Dispatch(**found)


def test_a_gpu_that_sees_the_end_at_once_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs are over as much later as the second GPU spins longer."""
    monkeypatch.setattr(module, "_whole_s", played(period_s=1e-8))
    assert look_figures(SPINNERS) == {}


@pytest.mark.parametrize("seen_us", [0.0, 0.3, 9.0])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_end_that_is_seen_at_once_is_not_a_period_late(
    seen_us: float, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """9.0 µs of 9.23 are what noise makes of less than nothing."""
    monkeypatch.setattr(module, "_whole_s", played(4e-7, seen_s=seen_us * 1e-6, seed=seed))
    assert look_figures(SPINNERS)["graph_seen_s"] < 1e-6


def test_runs_that_all_take_as_long_tell_no_period() -> None:
    assert moments([[2e-5] * 24]) is None


@pytest.mark.parametrize(
    ("launched", "told"),
    [
        (
            "28.7 28.7 28.8 28.8 38.0 40.8 38.1 38.0 38.3 38.6 47.5 57.1 47.4 47.5 47.8 56.3 57.2 63.6",
            "34.3 28.2 32.5 33.8 35.8 37.1 37.3 37.4 37.9 45.8 52.8 47.0 46.3 53.4 48.4 55.6 55.3 55.4",
        ),
        (
            "28.9 29.5 37.2 37.0 33.0 41.0 47.5 46.6 44.7 38.7 48.6 53.5 56.3 55.6 50.1 57.3 57.4 57.4",
            "28.5 27.8 27.4 28.5 37.5 37.4 38.1 37.9 37.9 46.1 56.4 56.3 54.3 47.1 48.6 56.2 63.2 64.7",
        ),
    ],
)
def test_a_period_is_found_where_one_kind_is_noisy(launched: str, told: str) -> None:
    """Microseconds that graphs of `SPINS_S` took over two pairs of four H200s; one kind of each is spread."""
    found = moments([[float(us) * 1e-6 for us in kind.split()] for kind in (launched, told)])
    assert found is not None
    assert found[0] == pytest.approx(9.2e-6, abs=1e-7)


def test_noise_is_no_period() -> None:
    """Graphs that are over as much later as the spin is longer, give or take 4 µs, nearly half a period; 400 times."""
    noise = np.random.default_rng(3)
    for _ in range(400):
        assert moments([SPINS_S + noise.normal(2e-5, 4e-6, len(SPINS_S)) for _ in range(2)]) is None


def test_a_period_is_found_in_what_two_h100s_took() -> None:
    """Microseconds since the start of the first node, by spins 1.25 µs apart: 9.2 from one moment to the next."""
    took = (
        13.7, 14.4, 14.5, 14.3, 14.2, 14.2, 16.6, 23.3, 23.5, 23.4, 23.1, 23.0, 23.2, 25.4, 32.4, 33.1, 33.7, 34.5,
        32.4, 33.0, 33.1, 41.3, 41.5, 42.0,
    )  # fmt: skip
    found = moments([[us * 1e-6 for us in took]])
    assert found is not None
    period_s, (first_s,) = found
    assert period_s == pytest.approx(9.2e-6, abs=1e-7)
    assert first_s == pytest.approx(14.2e-6 - 9.2e-6, abs=5e-7)


def test_one_gpu_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_whole_s", None)
    assert look_figures(SPINNERS[:1]) == {}


@pytest.mark.parametrize("told", [False, True])
def test_a_spin_is_one_graph_with_the_tiny_task(told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """tiny on cuda:0 (──▶ the thread's wait ──▶) spin on cuda:2."""
    FakeCuda(3).install(monkeypatch)
    spun: list[float] = []
    spinner: Any = SimpleNamespace(spin=spun.append)
    with module.program_of([0, 2], partial(with_a_spin, spinner=spinner, spin_s=1e-6, told=told)) as row:
        assert row.plan.names == ["tiny", *(["told"] if told else []), "spin"]
        assert row.plan.lanes[row.plan.lane_of[0]].device == "cuda:0"
        assert len(row._compiler.inner.segments) == 1
        assert row.time_once() > 0
    assert set(spun) == {1e-6}


def test_no_period_that_is_tried_is_half_of_another() -> None:
    assert max(module.PERIODS_S) < 2 * min(module.PERIODS_S)


def test_spins_reach_over_three_periods_and_chains_over_all_else() -> None:
    assert max(SPINS_S) - min(SPINS_S) > 3 * PERIOD_S
    assert min(CHAINS) * NODE_S > LATER_S + NODE_S + 2 * PERIOD_S


@pytest.mark.gpu
@pytest.mark.multigpu
def test_looks_of_these_gpus() -> None:
    found = look_figures([Spinner(device) for device in range(torch.cuda.device_count())])
    if found:
        assert 7e-6 <= found["graph_look_s"] <= 14e-6
        assert 0 <= found["graph_seen_s"] < found["graph_look_s"]

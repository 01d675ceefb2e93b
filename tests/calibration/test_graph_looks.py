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
from graphsched.calibration.graph_across import on_each
from graphsched.calibration.graph_looks import SPINS_S, figures_of, look_figures, moments, with_a_spin
from graphsched.platform import Dispatch
from graphsched.simulator.looks import known_at_s
from tests.executors.fake_cuda import FakeCuda

PERIOD_S, KNOWN_S, AGAIN_S = 9.23e-6, 4.9e-6, 10.2e-6
SYNC_S, LATER_S = 1.5e-6, 3e-6  # what the thread takes to see the end; the end of a spin of no time, behind the launch
SPINNERS: Any = [SimpleNamespace(device=device) for device in (3, 5)]


def played(noise_s: float = 0.0, period_s: float = PERIOD_S, again_s: float = AGAIN_S) -> Any:
    """`_after_launch_s` of two GPUs of which the first looks now and then; runs are longer or shorter by some noise."""
    noise = np.random.default_rng(7)

    def after_launch_s(devices: list[int], build: Any) -> float:
        assert devices == [3, 5]
        if build is on_each:
            return KNOWN_S + SYNC_S
        assert build.keywords["told"] in (False, True)
        seen_s = LATER_S + float(build.keywords["spin_s"])
        over_s = known_at_s(KNOWN_S, KNOWN_S + again_s, seen_s, period_s)
        return over_s + SYNC_S + float(noise.normal(0.0, noise_s))

    return after_launch_s


@pytest.mark.parametrize("noise_s", [0.0, 4e-7, 8e-7])
@pytest.mark.parametrize("again_s", [8.2e-6, 9.23e-6, 10.2e-6])
def test_all_figures_are_found_again(again_s: float, noise_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_after_launch_s", played(noise_s, again_s=again_s))
    found = look_figures(SPINNERS, SYNC_S)
    assert found["graph_look_s"] == pytest.approx(PERIOD_S, abs=3e-7)
    assert found["graph_known_s"] == pytest.approx(KNOWN_S)
    assert found["graph_look_again_s"] == pytest.approx(again_s, abs=8e-7)
    Dispatch(**found)


def test_a_gpu_that_sees_the_end_at_once_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs are over as much later as the second GPU spins longer."""
    monkeypatch.setattr(module, "_after_launch_s", played(period_s=1e-8, again_s=1e-8))
    assert look_figures(SPINNERS, SYNC_S) == {}


def test_what_noise_makes_less_than_nothing_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_after_launch_s", played())
    assert look_figures(SPINNERS, KNOWN_S + SYNC_S + 1e-6)["graph_known_s"] == 0.0


def test_runs_that_all_take_as_long_tell_no_period() -> None:
    assert moments([2e-5] * 24) is None


def test_the_figures_of_two_h200s() -> None:
    """Microseconds from the end of the launch to when the thread saw the end; 1.5 of them it took to see it.

    By spins 1.75 µs apart, of 3 to 13.5: launched at once, then told by the tiny task. A look was over each 9.2 µs.
    """
    launched = "16.7 16.7 16.6 16.4 17.6 25.8 26.5"
    told = "17.6 16.4 16.6 17.2 25.5 26.2 25.9"
    found = figures_of(4.9e-6, [(float(us) - 1.5) * 1e-6 for us in f"{launched} {told}".split()])
    assert found["graph_look_s"] == pytest.approx(9.2e-6, abs=2e-7)
    assert found["graph_look_again_s"] == pytest.approx(10.2e-6, abs=4e-7)


def test_noise_is_no_period() -> None:
    """Graphs that are over as much later as the spin is longer, give or take 4 µs, nearly half a period; 400 times."""
    noise, spins_s = np.random.default_rng(3), [*SPINS_S, *SPINS_S]
    for _ in range(400):
        assert moments(spins_s + noise.normal(2e-5, 4e-6, len(spins_s))) is None


def test_a_period_is_found_in_what_two_h100s_took() -> None:
    """Microseconds since the start of the first node, by spins 1.25 µs apart: 9.2 from one moment to the next."""
    took = (
        13.7, 14.4, 14.5, 14.3, 14.2, 14.2, 16.6, 23.3, 23.5, 23.4, 23.1, 23.0, 23.2, 25.4, 32.4, 33.1, 33.7, 34.5,
        32.4, 33.0, 33.1, 41.3, 41.5, 42.0,
    )  # fmt: skip
    found = moments([us * 1e-6 for us in took])
    assert found is not None
    period_s, first_s = found
    assert period_s == pytest.approx(9.2e-6, abs=1e-7)
    assert first_s == pytest.approx(14.2e-6 - 9.2e-6, abs=5e-7)


def test_one_gpu_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_after_launch_s", None)
    assert look_figures(SPINNERS[:1], SYNC_S) == {}


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


def test_spins_reach_over_three_periods() -> None:
    assert max(SPINS_S) - min(SPINS_S) > 3 * PERIOD_S


@pytest.mark.gpu
@pytest.mark.multigpu
def test_looks_of_these_gpus() -> None:
    found = look_figures([Spinner(device) for device in range(torch.cuda.device_count())], 1.5e-6)
    if found:
        assert 7e-6 <= found["graph_look_s"] <= 14e-6
        assert 2e-6 < found["graph_known_s"] < 1.5e-5
        assert found["graph_look_s"] / 2 <= found["graph_look_again_s"] <= 1.5 * found["graph_look_s"]

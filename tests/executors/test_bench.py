"""The dispatch benchmark: its figures and what they are made of."""

from __future__ import annotations

import pytest
import torch

from graphsched.executors.bench import bench_dispatch


@pytest.mark.parametrize(("n", "quick", "actions"), [(20, False, 20), (600, True, 500), (0, False, 1)])
def test_figures_of_dispatch(n: int, quick: bool, actions: int) -> None:
    """On a host without GPUs: one worker lane."""
    figures = bench_dispatch(n, quick=quick)
    keys = ["device", "actions", "plan_action_s", "direct_action_s", "own_action_s"]
    assert list(figures)[:5] == keys
    assert figures["actions"] == actions
    assert all(isinstance(value, float) for value in list(figures.values())[2:])
    assert 0 < figures["direct_action_s"] < 1e-3
    assert torch.cuda.is_available() or (list(figures) == keys and figures["device"] == "worker:0")


@pytest.mark.gpu
def test_own_time_of_an_action_on_a_gpu() -> None:
    """At most 5 µs beyond the torch and CUDA calls that the plan needs, on one stream and across four."""
    figures = bench_dispatch(1000)
    assert str(figures["device"]).startswith("cuda:0 ")
    assert figures["own_action_s"] < 5e-6
    assert figures["own_lanes4_action_s"] < 5e-6

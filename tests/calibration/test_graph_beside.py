"""Edges beside copies from the host: found again from runs that are played, and measured between real GPUs."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch

from graphsched.calibration import graph_beside as module
from graphsched.calibration.graph_across import program_of
from graphsched.calibration.graph_beside import EDGES, LARGE_BYTES, SMALL_BYTES, STAGES, beside_s, round_beside
from graphsched.calibration.graph_replays import Replay
from tests.executors.fake_cuda import FakeCuda

COPY_US, PACE_US, LAUNCH_US = 300.0, 14.0, 20.0


@pytest.mark.parametrize("edge_us", [3.0, 0.0])
def test_what_edges_take_longer_is_found_again(edge_us: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages are slower while the copy is under way; into the second GPU twice as much. One turn is off."""
    off = iter([0.0] * 9 + [40.0])  # µs that the chain beside the large copy takes longer in the first way's last turn

    def replay(build: partial[object]) -> Replay:
        stages, nbytes, at = (build.keywords[name] for name in ("stages", "nbytes", "at"))
        copy_us = COPY_US * (nbytes - SMALL_BYTES) / (LARGE_BYTES - SMALL_BYTES)
        slow_us = EDGES * edge_us * (1 + at)
        whole_us = STAGES * PACE_US + slow_us * copy_us / (PACE_US + slow_us) if stages else copy_us
        return Replay(5e-6, (LAUNCH_US + whole_us + next(off, 0.0)) * 1e-6)

    monkeypatch.setattr(module, "program_of", lambda devices, build: nullcontext(build))
    monkeypatch.setattr(module, "replay_of", replay)
    assert beside_s([0, 1, 2]) == pytest.approx(1.5 * edge_us * 1e-6, rel=0.05)
    assert beside_s([0]) == 0.0


@pytest.mark.parametrize("stages", [STAGES, 0])
@pytest.mark.parametrize("at", [0, 1])
def test_one_graph_holds_the_chain_and_the_copy(stages: int, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """t ─▶ copy ─▶ t ─▶ copy ─▶ … round two GPUs; a copy from the host that waits for nothing."""
    FakeCuda(2).install(monkeypatch)
    build = partial(round_beside, nbytes=64, stages=stages, at=at)
    with program_of([0, 1], build) as row:
        plan = row.plan
        lanes = [plan.lanes[number].name for number in plan.lane_of]
        (copy,) = [i for i, name in enumerate(lanes) if name == f"cuda:{at}/h2d"]
        assert not plan.waits[copy]
        gpus = [plan.lanes[number].device for number in plan.lane_of]
        waiting = [i for i, before in enumerate(plan.waits) if before and gpus[i] == f"cuda:{at}"]
        assert abs(len(waiting) - EDGES * stages) <= 1
        assert len([name for name in lanes if ">" in name]) == max(0, stages - 1)
        assert len(row._compiler.inner.segments) == 1
        assert row.time_once() > 0


@pytest.mark.multigpu
def test_edges_between_these_gpus() -> None:
    assert 0 <= beside_s(range(torch.cuda.device_count())) < 2e-5


def test_a_copy_that_ends_too_soon_to_tell_says_nothing() -> None:
    times: Any = module.Times(small=1.0, large=2.0, small_alone=0.1, large_alone=0.5)
    assert module.edge_longer_s(times) == 0.0

"""Joins with copies that are over: two graphs of the same nodes, and what their difference says."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch

from graphsched.calibration import graph_joins as module
from graphsched.calibration.graph_across import program_of
from graphsched.calibration.graph_joins import BETWEEN, HOST, JOINS, LEAD, behind_copies, copy_join_s, peer_join_s
from graphsched.calibration.graph_replays import Replay
from tests.executors.fake_cuda import FakeCuda


@pytest.mark.parametrize("join_us", [1.75, 0.0])
def test_a_join_is_found_again(join_us: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """From another GPU it takes a µs longer; of three GPUs the first two are looked at. One turn in three is off."""
    turns = iter([0, 0, 0, 0, 40, 0] * 2)  # µs that a replay takes longer

    def replay(build: partial[object]) -> Replay:
        joins = JOINS if build.keywords["each"] else 1
        each_us = join_us + (build.keywords["source"] != HOST)
        return Replay(5e-6, (100 + joins * each_us + next(turns)) * 1e-6)

    def program(devices: list[int], build: partial[object]) -> Any:
        assert devices == ([0] if build.keywords["source"] == HOST else [0, 2])
        return nullcontext(build)

    monkeypatch.setattr(module, "program_of", program)
    monkeypatch.setattr(module, "replay_of", replay)
    assert copy_join_s(0) == pytest.approx(join_us * 1e-6)
    assert peer_join_s([0, 2, 3]) == pytest.approx((join_us + 1) * 1e-6)


@pytest.mark.parametrize("source", [HOST, "cuda:1"])
@pytest.mark.parametrize("each", [True, False])
def test_both_graphs_have_the_same_nodes(each: bool, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """c0 ─▶ c1 ─▶ …; tiny tasks ─▶ t0 ─▶ three ─▶ t1 ─▶ …; t0 reads c0, t1 reads c1, …, or else t0 the last copy."""
    FakeCuda(2).install(monkeypatch)
    with program_of([0] if source == HOST else [0, 1], partial(behind_copies, each=each, source=source)) as row:
        plan = row.plan
        lanes = [plan.lanes[lane].kind for lane in plan.lane_of]
        assert len(row._compiler.inner.segments) == 1
        assert lanes.count("h2d" if source == HOST else "peer") == JOINS
        assert lanes.count("compute") == LEAD + JOINS * (1 + BETWEEN)
        joins = [i for i, before in enumerate(plan.waits) if before]
        assert len(joins) == (JOINS if each else 1)
        assert [plan.names[j] for i in joins for j in plan.waits[i]] == (
            [f"c{k}" for k in range(JOINS)] if each else [f"c{JOINS - 1}"]
        )
        assert row.time_once() > 0


@pytest.mark.gpu
def test_joins_on_this_gpu() -> None:
    assert 0 <= copy_join_s(torch.cuda.current_device()) < 1e-5


@pytest.mark.multigpu
def test_joins_between_these_gpus() -> None:
    assert 0 <= peer_join_s(range(torch.cuda.device_count())) < 1e-5

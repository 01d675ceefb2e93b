"""Joins with copies that are over: two graphs of the same nodes, and what their difference says."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from graphsched.calibration import graph_joins as module
from graphsched.calibration.graph_across import program_of
from graphsched.calibration.graph_joins import JOINS, LEAD, behind_copies, copy_join_s
from graphsched.calibration.graph_replays import Replay
from tests.executors.fake_cuda import FakeCuda


@pytest.mark.parametrize("join_us", [1.75, 0.0])
def test_a_join_is_found_again(join_us: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def replay(devices: list[int], build: partial[object]) -> Replay:
        joins = JOINS if build.keywords["each"] else 1
        return Replay(5e-6, (100 + joins * join_us) * 1e-6)

    monkeypatch.setattr(module, "replay", replay)
    assert copy_join_s(0) == pytest.approx(join_us * 1e-6)


@pytest.mark.parametrize("each", [True, False])
def test_both_graphs_have_the_same_nodes(each: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """c0 ─▶ c1 ─▶ …; tiny tasks ─▶ t0 ─▶ t1 ─▶ …; t0 reads c0, t1 reads c1, …, or else t0 the last copy."""
    FakeCuda(1).install(monkeypatch)
    with program_of([0], partial(behind_copies, each=each)) as row:
        plan = row.plan
        lanes = [plan.lanes[lane].kind for lane in plan.lane_of]
        assert len(row._compiler.inner.segments) == 1
        assert lanes.count("h2d") == JOINS
        assert lanes.count("compute") == LEAD + JOINS
        joins = [i for i, before in enumerate(plan.waits) if before]
        assert len(joins) == (JOINS if each else 1)
        assert [plan.names[j] for i in joins for j in plan.waits[i]] == (
            [f"c{k}" for k in range(JOINS)] if each else [f"c{JOINS - 1}"]
        )
        assert row.time_once() > 0


@pytest.mark.gpu
def test_joins_on_this_gpu() -> None:
    assert 0 <= copy_join_s(torch.cuda.current_device()) < 1e-5

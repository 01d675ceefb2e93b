"""The replay benchmark: its plans, and the cost of a node as the difference of two of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from graphsched.executors import bench_replay as module
from tests.executors.fake_cuda import FakeCuda


def test_lanes_apart_wait_for_nothing() -> None:
    plan = module.replay_plan("apart", 2, 3, 4)
    plan.check()
    assert len(plan) == 2 * 3 * 4
    assert sum(lane.kind == "compute" for lane in plan.lanes) == 2 * 3
    assert not any(plan.waits)


def test_joined_lanes_wait_for_their_neighbours_and_send_values_on() -> None:
    """Every task but the first of each lane waits for the next lane; two copies, at steps 16 and 32."""
    plan = module.replay_plan("joined", 2, 2, 33)
    plan.check()
    assert len(plan) == 2 * 2 * 33 + 2 * 2
    assert sorted({(copy.source, copy.target) for copy in plan.copies.values()}) == [
        ("cuda:0", "cuda:1"),
        ("cuda:1", "cuda:0"),
    ]
    assert sum(bool(waits) for waits in plan.waits) == len(plan) - 2 * 2


@pytest.mark.parametrize("pattern", module.PATTERNS)
def test_a_node_costs_the_difference(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makespans of 10 µs and 0.5 µs an action: 0.5 µs a node, a step of 4 lanes 2 µs."""
    monkeypatch.setattr(module, "_turns", lambda plans, rounds: [[1e-5 + 5e-7 * len(p)] * rounds for p in plans])
    row = module.replay_row(pattern, 1, 4, 3)
    assert row["actions"] == 4 * module.MANY
    assert row["node_s"] == row["node_q1_s"] == row["node_q3_s"] == pytest.approx(5e-7)
    assert row["step_s"] == pytest.approx(2e-6)
    assert row["makespan_s"] == pytest.approx(1e-5 + 5e-7 * 4 * module.MANY)


@pytest.mark.parametrize("pattern", module.PATTERNS)
def test_plans_are_captured_and_replayed_in_turn(
    pattern: str, cuda: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda(2)
    monkeypatch.setattr(module, "FEW", 2)
    monkeypatch.setattr(module, "MANY", 18)
    row = module.replay_row(pattern, 2, 2, 2)
    assert row["actions"] == 2 * 2 * 18 + (2 if pattern == "joined" else 0)
    assert float(row["makespan_s"]) > 0


def test_nothing_to_replay_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert module.bench_replay() == []


def test_rows_for_the_gpus_that_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(module, "replay_row", lambda *given: {"given": given})
    found: list[object] = [row["given"] for row in module.bench_replay(quick=True)]
    assert found == [(p, g, n, module.QUICK_ROUNDS) for g in (1, 2) for n in (2, 4, 8) for p in ("apart", "joined")]


@pytest.mark.gpu
def test_a_node_of_a_replay_costs_about_a_microsecond() -> None:
    rows = module.bench_replay(quick=True)
    assert max(float(row["node_s"]) for row in rows) < 3e-6

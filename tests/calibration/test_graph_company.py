"""Operations behind others of other kinds: the two orders of their calls, and what the difference says."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from graphsched.calibration import graph_company as module
from graphsched.calibration.graph_company import ROUNDS, company_s, orders
from graphsched.costs import COMPANY_KINDS

ROW, OTHER, COMPANY = 5e-6, 2e-6, 0.5e-6  # seconds


def replayed(order: list[str]) -> float:
    """An operation takes longer behind another kind; others are always behind another kind."""
    far = sum(call != order[k - 1] for k, call in enumerate(order) if call == "op")
    return 1e-5 + sum(ROW if call == "op" else OTHER for call in order) + far * COMPANY


@pytest.fixture
def orders_seen(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    seen: list[list[str]] = []

    def whole_s(order: list[str], device: int) -> float:
        assert device == 3
        seen.append(order)
        return replayed(order)

    monkeypatch.setattr(module, "other_calls", lambda device: ["x", "y"])
    monkeypatch.setattr(module, "_whole_s", whole_s)
    return seen


def test_company_is_found_again(orders_seen: list[list[str]]) -> None:
    """x, y, op again and again, and x, y again and again, then op again and again."""
    assert company_s(["op"], 3, ROW, 4) == pytest.approx(COMPANY)
    among, behind = orders_seen
    assert sorted(among) == sorted(behind)
    assert among == ["x", "y", "op"] * ROUNDS


def test_sets_of_inputs_are_gone_round_in_both_orders() -> None:
    among, behind = orders([f"op{k % 2}" for k in range(4)], ["x"])
    assert among == ["x", "op0", "x", "op1"] * 2
    assert behind == ["x"] * 4 + ["op0", "op1"] * 2


def test_noise_makes_nothing_negative(orders_seen: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_whole_s", lambda order, device: -replayed(order))
    assert company_s(["op"], 3, ROW, 4) == 0.0


def test_long_and_large_ones_are_left_out(orders_seen: list[list[str]]) -> None:
    assert company_s(["op"], 3, 1e-3, 4) == company_s(["op"], 3, ROW, 10**9) == 0.0
    assert orders_seen == []


def test_other_kinds_are_as_many_as_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    full = torch.full
    monkeypatch.setattr(torch, "full", lambda *args, device, **more: full(*args, **more))
    calls = module.other_calls(0)
    kinds = {(call.func, call.args[0].dtype) for call in calls}
    assert len(kinds) == len(calls) == COMPANY_KINDS
    assert torch.float32 not in {dtype for _, dtype in kinds}
    for call in calls:
        found = call()
        values = found[0] if isinstance(found, tuple) else found
        assert bool(torch.isfinite(values.abs()).all())


def test_a_sequence_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirteen calls on one lane of a played GPU."""
    from tests.executors.fake_cuda import FakeCuda

    FakeCuda(1).install(monkeypatch)
    log: list[Any] = []
    assert module._whole_s([lambda: log.append(1)] * 3, 0) >= 0.0
    assert log

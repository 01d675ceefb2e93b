"""What an operation pushes out of a cache is found again from nodes that are played, and measured on a real GPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from graphsched.calibration import graph_pushes as module
from graphsched.calibration.graph_operations import cache_bytes
from graphsched.calibration.graph_pushes import LEAST_S, TURNS, Turn, pushed_bytes
from tests.executors.fake_cuda import FakeCuda

CACHE = 1000
HELD_S, LOST_S = 1.1e-6, 1.3e-6


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A GPU with a cache of 1,000 bytes, whose nodes take what the call before them is; the calls."""
    found: list[Any] = []

    def turns(device: int, call: Callable[[], float]) -> list[Turn]:
        found.append(call)
        return [Turn(HELD_S, call(), LOST_S)] * 3

    monkeypatch.setattr(module, "cache_bytes", lambda device: CACHE)
    monkeypatch.setattr(module, "_turns", turns)
    return found


@pytest.mark.parametrize(
    ("node_s", "pushed"),
    [(HELD_S, 0), (1.12e-6, 0), (1.2e-6, 625), (LOST_S, 750), (1.4e-6, 750), (1.0e-6, 0)],
)
def test_nodes_tell_how_much_was_filled(node_s: float, pushed: int, asked: list[Any]) -> None:
    """Half of the cache at the one level, three quarters at the other and beyond, in proportion between."""
    assert pushed_bytes(lambda: node_s, 0, 1e-5, 100) == pytest.approx(pushed, abs=1)


@pytest.mark.parametrize(("alone_s", "nbytes"), [(LEAST_S / 2, 100), (1e-3, 100), (1e-5, CACHE // 2)])
def test_quick_long_and_large_operations_are_not_measured(alone_s: float, nbytes: int, asked: list[Any]) -> None:
    assert pushed_bytes(lambda: LOST_S, 0, alone_s, nbytes) == 0
    assert asked == []


def test_one_turn_in_which_nodes_were_slow_or_fast_does_not_count(
    asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes behind an operation are as slow as behind nothing in two of three turns, or as behind a fill in two."""
    for node_s, pushed in ((HELD_S, 0), (LOST_S, 750)):
        turns = [Turn(HELD_S, seconds, LOST_S) for seconds in (node_s, HELD_S + LOST_S - node_s, node_s)]
        monkeypatch.setattr(module, "_turns", lambda device, call, turns=turns: turns)
        assert pushed_bytes(lambda: LOST_S, 0, 1e-5, 100) == pushed


def test_nodes_behind_a_call_are_rows_in_one_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """call ──▶ tiny ──▶ tiny ──▶ …, rows of two lengths."""
    FakeCuda(1).install(monkeypatch)
    zeros = torch.zeros
    monkeypatch.setattr(torch, "zeros", lambda *size, device="cpu", **options: zeros(*size, **options))
    called: list[int] = []
    monkeypatch.setattr(module, "spilling", lambda device: partial(called.append, 1))
    turns = module._turns(0, partial(called.append, 2))
    assert len(turns) == TURNS
    assert all(seconds >= 0 for turn in turns for seconds in turn)
    assert {1, 2} == set(called)


@pytest.mark.gpu
def test_convolutions_push_out_more_than_they_work_on() -> None:
    """64 images work on 4 MB; a product of small matrices pushes out nothing."""
    x, w = torch.randn(64, 20, 13, 13, device="cuda:0"), torch.randn(50, 20, 5, 5, device="cuda:0")
    a = torch.randn(512, 512, device="cuda:0")
    assert pushed_bytes(partial(torch.mm, a, a), 0, 1e-5, 3 << 20) == 0
    assert 0 <= pushed_bytes(partial(torch.conv2d, x, w), 0, 3e-5, 4 << 20) <= cache_bytes(0)

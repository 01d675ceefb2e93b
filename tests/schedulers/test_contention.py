"""Knowing the queues of copies makes better plans where copies are large."""

from __future__ import annotations

import pytest

from graphsched.platform import Platform
from tests.schedulers.contended import gain, random_work


@pytest.mark.parametrize("scheduler", ["etf", "heft", "peft"])
def test_plans_for_large_copies_are_shorter(scheduler: str) -> None:
    """By the simulator's word; the full table is that of ``python -m tests.schedulers.contended``."""
    platform = Platform.load("h200-x4")
    assert gain(scheduler, [random_work(seed, 300_000_000, tasks=80) for seed in range(3)], platform) < 0.96

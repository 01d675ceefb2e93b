"""Runs before those that count go on while the memory of a rank grows."""

from __future__ import annotations

import math
import mmap
from pathlib import Path
from typing import Any

import pytest

from graphsched.executors.distributed import measuring
from graphsched.executors.distributed.measuring import MOST_GROWING, STILL, resident_bytes, warm_up

MIB = 1 << 20


class Growing:
    """A program of two ranks; the other one's memory grows by 2 MiB in each of its first `grows` runs."""

    def __init__(self, grows: int) -> None:
        self.runs, self.grows = 0, grows
        self.world: Any = self
        self.watch: Any = self
        self.timeout_s = 1.0

    def time_once(self) -> float:
        """A run of a second."""
        self.runs += 1
        return 1.0

    def gather(self, mine: int, timeout_s: float, what: str) -> list[int]:
        """Growth of each rank."""
        return [mine, 2 * MIB if self.runs <= self.grows else 0]


@pytest.fixture(autouse=True)
def _still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "resident_bytes", lambda: 7 * MIB)


@pytest.mark.parametrize(("asked", "grows", "runs"), [(3, 0, 3 + STILL), (3, 6, 6 + STILL), (1, 99, 1 + MOST_GROWING)])
def test_until_no_rank_takes_new_memory(asked: int, grows: int, runs: int) -> None:
    program: Any = Growing(grows)
    warm_up(program, asked, math.inf)
    assert program.runs == runs


def test_a_pause_in_between_is_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    program: Any = Growing(0)
    monkeypatch.setattr(program, "gather", lambda mine, *_: [2 * MIB * (program.runs == 1 + STILL)])
    warm_up(program, 1, math.inf)
    assert program.runs == 1 + STILL + STILL


def test_the_memory_of_this_rank_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """It grows by 2 MiB in the second run and the third, those of the other rank stay."""
    program: Any = Growing(0)
    monkeypatch.setattr(measuring, "resident_bytes", lambda: 2 * MIB * min(program.runs, 3))
    warm_up(program, 1, math.inf)
    assert program.runs == 3 + STILL


def test_no_longer_than_asked() -> None:
    program: Any = Growing(99)
    warm_up(program, 3, 5.0)
    assert program.runs == 6


def test_none_where_none_are_asked_for() -> None:
    program: Any = Growing(99)
    warm_up(program, 0, math.inf)
    assert program.runs == 0


@pytest.mark.skipif(not measuring.PAGES_HELD.exists(), reason="the system does not tell as Linux does")
def test_memory_of_this_process_is_what_it_has_touched() -> None:
    """Of 64 MiB that are reserved, new to the process, the 32 that are written."""
    content, reserved = bytes(32 * MIB), mmap.mmap(-1, 64 * MIB)
    before = resident_bytes()
    reserved.write(content)
    assert abs(resident_bytes() - before - len(content)) < 8 * MIB
    reserved.close()


def test_where_the_system_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "PAGES_HELD", Path("/no/such/file"))
    assert resident_bytes() == 0

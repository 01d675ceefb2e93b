"""Clocks of the ranks on rank 0's: offsets measured by messages there and back, before a run and after it.

A message goes from rank 0 to another rank and back, which puts its time in. That is the time at rank 0 somewhere
between sending and hearing: halfway, give or take half of it. The quickest of many exchanges counts. Between the two
measurements the offset changes in proportion to time.

Not modelled: ways there and back that differ by more than the exchange took.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from graphsched.executors.distributed.tags import CLOCK_TAG
from graphsched.executors.distributed.world import World

EXCHANGES = 60


@dataclass(frozen=True)
class Offset:
    """A rank's clock less rank 0's, `at_s` on rank 0's clock, give or take `uncertainty_s`; seconds."""

    at_s: float
    seconds: float
    uncertainty_s: float


@dataclass(frozen=True)
class RankClock:
    """A rank's clock, by two offsets."""

    before: Offset
    after: Offset

    def on_rank_0(self, time_s: float) -> float:
        """The time on rank 0's clock when this rank's shows `time_s`.

        Example:
            >>> clock = RankClock(Offset(0.0, 5.0, 1e-6), Offset(10.0, 5.2, 1e-6))
            >>> round(clock.on_rank_0(10.1), 6)
            5.0
        """
        first, last = self.before, self.after
        between_s = last.at_s - first.at_s
        rate = (last.seconds - first.seconds) / between_s if between_s > 0 else 0.0
        return (time_s - first.seconds + rate * first.at_s) / (1 + rate)

    @property
    def uncertainty_s(self) -> float:
        """How far a time may be off."""
        return max(self.before.uncertainty_s, self.after.uncertainty_s)


def measure_offsets(world: World, timeout_s: float, exchanges: int = EXCHANGES) -> list[Offset]:
    """The offset of each rank's clock; on rank 0 only, the others get an empty list.

    Raises:
        RankError: A rank is gone.
    """
    with world.heeding():
        if world.rank != 0:
            _answer(world, timeout_s, exchanges)
            return []
        here = Offset(time.perf_counter(), 0.0, 0.0)
        return [here, *(_ask(world, rank, timeout_s, exchanges) for rank in range(1, world.size))]


def _ask(world: World, rank: int, timeout_s: float, exchanges: int) -> Offset:
    import torch

    def what() -> str:
        return "the measurement of clocks"

    tensor, best = torch.zeros(1, dtype=torch.float64), None
    for _ in range(exchanges):
        sent = time.perf_counter()
        world.send(tensor, rank, CLOCK_TAG, timeout_s, what)
        world.receive(tensor, rank, CLOCK_TAG, timeout_s, what)
        half = (time.perf_counter() - sent) / 2
        if best is None or half < best.uncertainty_s:
            best = Offset(sent + half, float(tensor) - (sent + half), half)
    assert best is not None
    return best


def _answer(world: World, timeout_s: float, exchanges: int) -> None:
    import torch

    def what() -> str:
        return "the measurement of clocks"

    tensor = torch.zeros(1, dtype=torch.float64)
    for _ in range(exchanges):
        world.receive(tensor, 0, CLOCK_TAG, timeout_s, what)
        tensor[0] = time.perf_counter()
        world.send(tensor, 0, CLOCK_TAG, timeout_s, what)

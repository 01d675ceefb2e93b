"""An action on its way through a GPU: the kernel it is at, its blocks that wait and those in flight.

A kernel of many waves that is first in the queue takes again, to the block, the room that its own blocks
leave, and nobody else's time changes by that. So nothing has to be placed for that, and no time set anew.

Not modelled: blocks of one kernel that take different times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from graphsched.simulator.blocks import Placed, Shape
from graphsched.simulator.fluid import SAME_TIME

SAME_WAVE = 0.05
"""Blocks placed within this part of a block's time count as placed together. Chosen, not measured: less than what a
block takes, more than what rounding moves its end by."""


@dataclass(slots=True)
class Batch:
    """Blocks of one kernel that were placed together, and when they end on the clock of their kernel."""

    placed: list[Placed]
    blocks: int
    end_s: float


@dataclass(slots=True, eq=False)
class Running:
    """An action.

    Attributes:
        shape: The kernel it is at.
        block_s: Seconds that a block takes at the speed alone.
        waiting, resident: Blocks not placed yet, and in flight.
        part: Blocks in flight, of those that are when it is alone.
        next_s: When, on its clock, blocks end next, those left out whose room its own just take again.
        clock_s: Seconds at the speed alone that blocks in flight have had since the kernel came.
        factor: How many times longer blocks take now than alone.
        batches: Blocks in flight, in the order in which they end.
    """

    action: int
    kind: int
    work_s: float
    shapes: Sequence[Shape]
    at: int = 0
    batches: list[Batch] = field(default_factory=list)
    shape: Shape = field(init=False)
    block_s: float = field(init=False)
    waiting: int = field(init=False)
    resident: int = 0
    part: float = 0.0
    next_s: float = inf
    clock_s: float = 0.0
    factor: float = 1.0

    def __post_init__(self) -> None:
        self._come()

    def advance(self) -> bool:
        """Go on to the next kernel, if there is one."""
        self.at += 1
        if self.at == len(self.shapes):
            return False
        self._come()
        return True

    def _come(self) -> None:
        shape = self.shape = self.shapes[self.at]
        self.block_s = self.work_s * shape.share / shape.waves
        self.waiting = shape.blocks
        self.clock_s = 0.0

    def add(self, placed: list[Placed], blocks: int) -> None:
        """These blocks have been placed."""
        self.waiting -= blocks
        self.resident += blocks
        end_s = self.clock_s + self.block_s
        last = self.batches[-1] if self.batches else None
        if last is not None and end_s - last.end_s <= SAME_WAVE * self.block_s:
            together = last.blocks + blocks
            last.end_s = (last.end_s * last.blocks + end_s * blocks) / together
            last.placed, last.blocks = last.placed + placed, together
        else:
            self.batches.append(Batch(placed, blocks, end_s))
        self._counted()

    def _same_s(self, now: float) -> float:
        """Seconds on its clock that may be rounding."""
        return SAME_TIME * (now if now > self.block_s else self.block_s)

    def is_over(self, now: float) -> bool:
        """Whether blocks in flight have ended."""
        return self.batches[0].end_s <= self.clock_s + self._same_s(now)

    def is_last(self) -> bool:
        """Whether the blocks that end next are the last of the kernel."""
        return not self.waiting and len(self.batches) == 1

    def over(self, now: float) -> list[Batch]:
        """The batches that have ended; they are no longer in flight."""
        limit, batches, over = self.clock_s + self._same_s(now), self.batches, []
        while batches and batches[0].end_s <= limit:
            self.resident -= batches[0].blocks
            over.append(batches.pop(0))
        self._counted()
        return over

    def _counted(self) -> None:
        """More or fewer blocks are in flight."""
        self.part = self.resident / self.shape.resident
        if self.batches:
            self.next_s = self._renewed_until_s() if self.waiting else self.batches[0].end_s

    def _renewed_until_s(self) -> float:
        """When, on its clock, the first blocks end whose room not just as many take again, with some to follow."""
        first, last = self.batches[0], self.batches[-1]
        if first.end_s + self.block_s - last.end_s <= SAME_WAVE * self.block_s:
            return first.end_s  # the blocks that take its room count as placed with those of `last`
        waves, rest = divmod(self.waiting - 1, self.resident)
        for batch in self.batches:
            rest -= batch.blocks
            if rest < 0:
                break
        return batch.end_s + waves * self.block_s

    def renew(self, now: float) -> None:
        """Where blocks of it ended before `now`, as many have been placed again at once."""
        limit = self.clock_s - self._same_s(now)
        batches = self.batches
        while batches and batches[0].end_s < limit:
            batch = batches.pop(0)
            batch.end_s += self.block_s
            self.waiting -= batch.blocks
            batches.append(batch)

"""Kernels that share a GPU: blocks placed first come, first served, and contention of those in flight.

Kernels stand in one queue, in the order in which they came. The first that still has blocks to place gets
what room there is; until all its blocks are placed none behind it gets any. A block that is placed runs to
its end, the longer the more runs beside it: by the contention measured for the pair of operations (a
factor of 1 with nothing beside it), less where the other's blocks are not all there, and less where the
other is itself held up by more than this one. With few of its own blocks in flight a kernel's blocks go
faster, up to twice as fast. See docs/sharing.md for how it was found and how far it goes.

Not modelled: copies and collectives beside kernels; priorities; blocks of one kernel that take different
times; the few hundred nanoseconds from one kernel of a stream to the next, which count as running.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from graphsched.costs import TaskCost
from graphsched.simulator.blocks import MOST_KNOWN, Floor, Shape, shape_of
from graphsched.simulator.fluid import SAME_TIME, Timer

RELIEF = 0.5
"""Time of a block with next to none of its kind in flight, over its time with all of them there."""
LEAST = 0.05  # no block goes faster than its time alone times this
ROUNDS = 8
SAME_WAVE = 0.05  # blocks placed within this part of a block's time count as placed together

Contention = Mapping[tuple[int, int], float]
"""By (kind, kind beside it): how many times longer a block takes with all blocks of the other in flight."""


@dataclass(slots=True)
class _Batch:
    """Blocks of one kernel that were placed together; seconds that each has left, at the speed alone."""

    counts: Any
    blocks: int
    left_s: float


@dataclass(slots=True)
class _Running:
    """An action: the kernel it is at, its blocks that wait and those in flight."""

    kind: int
    work_s: float
    shapes: Sequence[Shape]
    at: int = -1
    block_s: float = 0.0
    waiting: int = 0
    resident: int = 0
    batches: list[_Batch] = field(default_factory=list)

    def advance(self) -> bool:
        """Go on to the next kernel, if there is one."""
        self.at += 1
        if self.at == len(self.shapes):
            return False
        shape = self.shapes[self.at]
        self.block_s = self.work_s * shape.share / shape.waves(RELIEF)
        self.waiting = shape.blocks
        return True

    @property
    def part(self) -> float:
        """Blocks in flight, of those that are when it is alone."""
        return self.resident / self.shapes[self.at].resident

    def add(self, counts: Any) -> None:
        blocks = int(counts.sum())
        self.waiting -= blocks
        self.resident += blocks
        last = self.batches[-1] if self.batches else None
        if last is not None and self.block_s - last.left_s <= SAME_WAVE * self.block_s:
            together = last.blocks + blocks
            last.left_s = (last.left_s * last.blocks + self.block_s * blocks) / together
            last.counts, last.blocks = last.counts + counts, together
        else:
            self.batches.append(_Batch(counts, blocks, self.block_s))


class BlockQueue:
    """A GPU's queue of blocks, as a resource of the engine.

    Example:
        >>> from graphsched.costs import Kernel, Multiprocessors
        >>> device = Multiprocessors(count=1, registers=65536, threads=2048, shared_bytes=2**17, blocks=32)
        >>> cost = TaskCost(1.0, kernels=(Kernel(2, 0, 1024, 0),), processors=device)
        >>> timers = []
        >>> queue = BlockQueue([cost], {7: 0, 8: 0}, {7: 1.0, 8: 1.0}, {}, lambda *timer: timers.append(timer))
        >>> queue.enter(7, 0.0), queue.enter(8, 0.5), queue.refresh(0.5)  # 7 takes all the threads there are
        (None, None, None)
        >>> queue.due(timers[-1][2], 1.5), queue.refresh(1.5), timers[-1][0]
        ([7], None, 2.5)
    """

    def __init__(
        self,
        kinds: Sequence[TaskCost],
        kind_of: Mapping[int, int],
        work_s: Mapping[int, float],
        contention: Contention,
        timer: Timer,
    ) -> None:
        """`kind_of`, `work_s`: place in `kinds` and seconds alone of each action; `kinds` know their kernels."""
        mine = dict.fromkeys(kind_of[action] for action in work_s)
        processors = next(p for kind in mine if (p := kinds[kind].processors) is not None)
        self._shapes = {kind: [shape_of(kernel, processors) for kernel in kinds[kind].kernels] for kind in mine}
        self._kind_of, self._work_s, self._timer = kind_of, work_s, timer
        self._excess = {pair: factor - 1.0 for pair, factor in contention.items()}
        self._floor = Floor(processors)
        self._queue: dict[int, _Running] = {}  # in order of arrival
        self._slower: dict[tuple[tuple[int, int, int], ...], list[float]] = {}
        self._factors: dict[int, float] = {}
        self._now = 0.0
        self._token = 0

    def enter(self, action: int, now: float) -> None:
        """`action` joins the queue at its end."""
        self._proceed(now)
        kind = self._kind_of[action]
        running = _Running(kind, self._work_s[action], self._shapes[kind])
        running.advance()
        self._queue[action] = running

    def refresh(self, now: float) -> None:
        """Place what can be placed, and set a timer for the blocks that end next."""
        self._proceed(now)
        self._place()
        self._factors = self._present()
        self._token += 1
        first = min(
            (now + batch.left_s * factor for a, factor in self._factors.items() for batch in self._queue[a].batches),
            default=inf,
        )
        if first < inf:
            self._timer(first, self, self._token)

    def due(self, token: int, now: float) -> list[int]:
        """Actions that end at `now`; they have left."""
        if token != self._token:
            return []
        self._proceed(now)
        over = [action for action in list(self._factors) if self._ended(action, now)]
        if not over:
            self.refresh(now)
        return sorted(over)

    def _proceed(self, now: float) -> None:
        passed, self._now = now - self._now, now
        if passed > 0.0:
            for action, factor in self._factors.items():
                for batch in self._queue[action].batches:
                    batch.left_s -= passed / factor

    def _place(self) -> None:
        for running in self._queue.values():
            if running.waiting:
                counts = self._floor.place(running.shapes[running.at], running.waiting)
                if counts is not None:
                    running.add(counts)
                if running.waiting:
                    return

    def _ended(self, action: int, now: float) -> bool:
        """Clear the blocks that are over; whether that was the last of the action."""
        running = self._queue[action]
        limit = max(SAME_TIME * now, SAME_TIME * running.block_s)
        over = [batch for batch in running.batches if batch.left_s <= limit]
        for batch in over:
            self._floor.clear(running.shapes[running.at], batch.counts)
            running.resident -= batch.blocks
        running.batches = [batch for batch in running.batches if batch.left_s > limit]
        if running.waiting or running.resident:
            return False
        del self._queue[action]
        del self._factors[action]
        if running.advance():
            self._queue[action] = running  # the next kernel came just now
            return False
        return True

    def _present(self) -> dict[int, float]:
        """How many times longer blocks take than alone, by action with blocks in flight."""
        present = [(action, running) for action, running in self._queue.items() if running.resident]
        key = tuple((running.kind, running.at, running.resident) for _, running in present)
        if key not in self._slower:
            if len(self._slower) == MOST_KNOWN:
                self._slower.clear()
            kinds, parts = [running.kind for _, running in present], [running.part for _, running in present]
            self._slower[key] = slower(kinds, parts, self._excess)
        return {action: factor for (action, _), factor in zip(present, self._slower[key], strict=True)}


def slower(kinds: Sequence[int], parts: Sequence[float], excess: Contention) -> list[float]:
    """How many times longer the blocks of each take than alone.

    Args:
        kinds: Kinds of those in flight.
        parts: Of each, its blocks in flight over those in flight when it is alone.
        excess: Contention less 1, by (kind, kind beside it).

    Each adds to the others what it costs them as a pair, times its speed now over its speed as one of
    that pair: who is held up presses less.

    Example:
        >>> slower([0, 1], [1.0, 1.0], {(0, 1): 0.5, (1, 0): 1.0})
        [1.5, 2.0]
        >>> three = slower([0, 0, 0], [1.0, 1.0, 1.0], {(0, 0): 1.0})  # not 3: each presses less than in a pair
        >>> [round(factor, 2) for factor in three]
        [2.56, 2.56, 2.56]
    """
    own = [max(RELIEF, part) for part in parts]
    several = range(len(kinds))
    costs = [[parts[b] * excess.get((kinds[a], kinds[b]), 0.0) if a != b else 0.0 for b in several] for a in several]
    factors = [max(LEAST, own[a] + sum(costs[a])) for a in several]
    if len(kinds) < 3:
        return factors
    pair = [[max(LEAST, own[b] + costs[b][a]) for b in several] for a in several]
    for _ in range(ROUNDS):
        pressed = [
            max(LEAST, own[a] + sum(costs[a][b] * min(1.0, pair[a][b] / factors[b]) for b in several)) for a in several
        ]
        factors = [(was + now) / 2.0 for was, now in zip(factors, pressed, strict=True)]
    return factors

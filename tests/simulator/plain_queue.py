"""The queue of blocks, plain and slow: an array of multiprocessors, and every block that ends is an event.

What `graphsched.simulator.block_queue` has to give, to rounding: see docs/sharing.md for the rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np

from graphsched.costs import Kernel, Multiprocessors, TaskCost
from graphsched.simulator.fluid import SAME_TIME, Longer, Timer, no_longer_s

MOST_WAVES = 32
LEAST = 0.05
ROUNDS = 8
SAME_WAVE = 0.05

Contention = Mapping[tuple[int, int], float]
Copies = Mapping[int, Sequence[float]]


@dataclass(frozen=True, eq=False)
class Shape:
    """A kernel as it is placed."""

    blocks: int
    need: Any
    resident: int
    share: float
    relief: float

    @property
    def waves(self) -> float:
        """Time alone over the time of one wave; a wave of few blocks takes its part of that, at least `relief`."""
        whole, rest = divmod(self.blocks, self.resident)
        return whole + (max(self.relief, rest / self.resident) if rest else 0.0)


def shape_of(kernel: Kernel, processors: Multiprocessors) -> Shape:
    """The shape of `kernel` on a device; one that asks for more than there is gets all there is."""
    room = _room(processors)
    need = np.minimum([kernel.registers, kernel.threads, kernel.shared_bytes, 1], room)
    most = int(_fit(room[:, None], need)[0]) * processors.count
    blocks = min(kernel.blocks, MOST_WAVES * most)
    return Shape(blocks, need, min(kernel.blocks, most), kernel.share, kernel.relief)


def _room(processors: Multiprocessors) -> Any:
    return np.array(
        [processors.registers, processors.threads, processors.shared_bytes, processors.blocks], dtype=np.int64
    )


class Floor:
    """The multiprocessors of one device, and what is free on each."""

    def __init__(self, processors: Multiprocessors) -> None:
        self._free = np.repeat(_room(processors)[:, None], processors.count, axis=1)

    def place(self, shape: Shape, blocks: int) -> Any:
        """Place up to `blocks` blocks; how many on each multiprocessor, or None if there is room for none."""
        counts = _spread(self._free, shape.need, blocks)
        if counts is not None:
            self._free -= shape.need[:, None] * counts
        return counts

    def clear(self, shape: Shape, counts: Any) -> None:
        """Take away what `place` has placed."""
        self._free += shape.need[:, None] * counts


def _fit(free: Any, need: Any) -> Any:
    """How many blocks each multiprocessor has room for."""
    takes = need > 0
    return np.min(free[takes] // need[takes][:, None], axis=0)


def _spread(free: Any, need: Any, blocks: int) -> Any:
    fit = _fit(free, need)
    total = int(fit.sum())
    if total <= blocks:
        return fit if total else None
    counts, left = np.zeros_like(fit), blocks
    for level in range(int(fit.max()), 0, -1):
        places = np.flatnonzero(fit >= level)[:left]
        counts[places] += 1
        left -= len(places)
        if not left:
            break
    return counts


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
        self.block_s = self.work_s * shape.share / shape.waves
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


class PlainQueue:
    """A GPU's queue of blocks, as a resource of the engine."""

    def __init__(
        self,
        kinds: Sequence[TaskCost],
        kind_of: Mapping[int, int],
        work_s: Mapping[int, float],
        contention: Contention,
        timer: Timer,
        copies: Copies | None = None,
        longer_s: Longer = no_longer_s,
    ) -> None:
        """`kind_of`, `work_s`: place in `kinds` and seconds alone of each action; `kinds` know their kernels."""
        mine = dict.fromkeys(kind_of[action] for action in work_s)
        processors = next(p for kind in mine if (p := kinds[kind].processors) is not None)
        self._shapes = {kind: [shape_of(kernel, processors) for kernel in kinds[kind].kernels] for kind in mine}
        self._kind_of, self._work_s, self._timer = kind_of, work_s, timer
        self._excess = {pair: factor - 1.0 for pair, factor in contention.items()}
        self._copies, self._longer_s = copies or {}, longer_s
        self._floor = Floor(processors)
        self._queue: dict[int, _Running] = {}  # in order of arrival
        self._factors: dict[int, float] = {}
        self._now = 0.0
        self._token = 0

    def enter(self, action: int, now: float) -> None:
        """`action` joins the queue at its end."""
        self._proceed(now)
        kind = self._kind_of[action]
        running = _Running(kind, self._work_s[action] + self._longer_s(action, now), self._shapes[kind])
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
        kinds, parts = [running.kind for _, running in present], [running.part for _, running in present]
        own = [max(running.shapes[running.at].relief, running.part) for _, running in present]
        factors = slower(kinds, parts, own, self._excess, self._copies)
        return {action: factor for (action, _), factor in zip(present, factors, strict=True)}


def slower(
    kinds: Sequence[int], parts: Sequence[float], own: Sequence[float], excess: Contention, copies: Copies
) -> list[float]:
    """How many times longer the blocks of each take than alone; `own`: with nothing beside them."""
    several = range(len(kinds))

    def cost(a: int, b: int, number: int) -> float:
        """What b costs a, with so many of their kind there if they are of one."""
        each = excess.get((kinds[a], kinds[b]), 0.0)
        if kinds[a] == kinds[b] and kinds[a] in copies and number > 2:
            known = copies[kinds[a]]
            each = known[min(number, len(known) - 1)]
        return parts[b] * each if a != b else 0.0

    costs = [[cost(a, b, kinds.count(kinds[a])) for b in several] for a in several]
    factors = [max(LEAST, own[a] + sum(costs[a])) for a in several]
    if len(kinds) < 3:
        return factors
    pair = [[max(LEAST, own[b] + cost(b, a, 2)) for b in several] for a in several]
    for _ in range(ROUNDS):
        pressed = [
            max(LEAST, own[a] + sum(costs[a][b] * min(1.0, pair[a][b] / factors[b]) for b in several)) for a in several
        ]
        factors = [(was + now) / 2.0 for was, now in zip(factors, pressed, strict=True)]
    return factors

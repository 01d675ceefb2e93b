"""Kernels that share a GPU: blocks placed first come, first served, and contention of those in flight.

Kernels stand in one queue, in the order in which they came. The first that still has blocks to place gets what room
there is; until all its blocks are placed none behind it gets any. A block that is placed runs to its end, the longer
the more runs beside it: by the contention measured for the pair of operations (a factor of 1 with nothing beside it),
less where the other's blocks are not all there, and less where the other is itself held up by more than this one.
With few of its own blocks in flight a kernel's blocks go faster, down to the relief of its kernel, which is 1 where
each has a multiprocessor to itself in any case. See docs/sharing.md for how it was found and how far it goes.

Not modelled: what copies and collectives cost kernels; which blocks share a multiprocessor (docs/sharing.md);
priorities; blocks of one kernel that take different times; the few hundred nanoseconds from one kernel of a stream to
the next, which count as running.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from graphsched.costs import TaskCost
from graphsched.simulator.blocks import Floor, shape_of
from graphsched.simulator.fluid import Longer, Timer, no_longer_s
from graphsched.simulator.pressure import NONE, Copies, slower
from graphsched.simulator.running import Running

Contention = Mapping[tuple[int, int], float]
"""By (kind, kind beside it): how many times longer a block takes with all blocks of the other in flight."""


class BlockQueue:
    """A GPU's queue of blocks, as a resource of the engine.

    Attributes:
        looks_ahead: What is known beforehand passes without an event; to be switched off where `rates` matter.

    Example:
        >>> from graphsched.costs import Kernel, Multiprocessors
        >>> device = Multiprocessors(count=1, registers=65536, threads=2048, shared_bytes=2**17, blocks=32)
        >>> cost = TaskCost(1.0, kernels=(Kernel(2, 0, 1024, 0),), processors=device)
        >>> timers = []
        >>> queue = BlockQueue([cost], {7: 0, 8: 0}, {7: 1.0, 8: 1.0}, {}, lambda *timer: timers.append(timer))
        >>> queue.enter(7, 0.0), queue.refresh(0.0)  # it takes all the threads there are
        (None, None)
        >>> queue.enter(8, 0.5), queue.refresh(0.5), timers[-1][0]  # 8 waits
        (None, None, 1.0)
        >>> queue.due(timers[-1][2], 1.0), queue.refresh(1.0), timers[-1][0]
        ([7], None, 2.0)
    """

    def __init__(
        self,
        kinds: Sequence[TaskCost],
        kind_of: Mapping[int, int],
        work_s: Mapping[int, float],
        contention: Contention,
        timer: Timer,
        copies: Copies = NONE,
        longer_s: Longer = no_longer_s,
    ) -> None:
        """`kind_of`, `work_s`: place in `kinds` and seconds alone of each action; `kinds` know their kernels."""
        mine = dict.fromkeys(kind_of[action] for action in work_s)
        processors = next(p for kind in mine if (p := kinds[kind].processors) is not None)
        self._shapes = {kind: [shape_of(kernel, processors) for kernel in kinds[kind].kernels] for kind in mine}
        self._kind_of, self._work_s, self._timer = kind_of, work_s, timer
        self._excess = {pair: factor - 1.0 for pair, factor in contention.items()}
        self._copies, self._longer_s = copies, longer_s
        self._floor = Floor(processors)
        self._flying: list[Running] = []  # with blocks in flight, in order of arrival
        self._queue: deque[Running] = deque()  # with none yet, in order of arrival
        self._now = 0.0
        self.looks_ahead = True
        self._changed = False  # since the last timer was set
        self._token = 0

    def enter(self, action: int, now: float) -> None:
        """`action` joins the queue at its end; the next `refresh` places it."""
        self._changed |= not self._closed()
        kind = self._kind_of[action]
        work_s = self._work_s[action] + self._longer_s(action, now)
        self._queue.append(Running(action, kind, work_s, self._shapes[kind]))

    def refresh(self, now: float) -> None:
        """Place what can be placed, and set a timer for the blocks that end next."""
        if not self._changed:
            return
        self._changed = False
        self._proceed(now)
        self._place()
        self._token += 1
        if self._flying:
            self._timer(self._look_ahead(), self, self._token)

    def due(self, token: int, now: float) -> list[int]:
        """Actions that end at `now`; they have left."""
        if token != self._token:
            return []
        self._proceed(now)
        over = []
        for running in [running for running in self._flying if running.is_over(now)]:
            self._clear(running)
            if not (running.resident or running.waiting):
                self._flying.remove(running)
                if running.advance():
                    self._queue.append(running)  # the next kernel came just now
                else:
                    over.append(running.action)
        self._changed = True
        if not over:
            self.refresh(now)
        return sorted(over)

    def rates(self) -> list[tuple[int, float]]:
        """(action, rate) of those with blocks in flight, as the last `refresh` left them; 1 is the speed alone."""
        return [(running.action, running.part / running.factor) for running in self._flying]

    def count(self) -> int:
        """Of kernels that have come and are not over, with blocks in flight or none yet."""
        return len(self._flying) + len(self._queue)

    def _look_ahead(self) -> float:
        """When the next kernel ends, or blocks whose room somebody who has yet to come might get.

        While there are some that wait, who comes can only wait behind them: what happens until then is known.
        """
        while True:
            self._set_factors()
            now = self._now
            first = min([now + (running.next_s - running.clock_s) * running.factor for running in self._flying])
            if not (self.looks_ahead and self._closed()):
                return first
            self._proceed(first)
            over = [running for running in self._flying if running.is_over(first)]
            if any(running.is_last() for running in over):
                return first
            for running in over:
                self._clear(running)
            self._place()

    def _closed(self) -> bool:
        """Whether some wait for room."""
        return bool(self._queue) or self._held()

    def _held(self) -> bool:
        """Whether the last that is in flight has blocks that wait: nobody behind it gets room."""
        return bool(self._flying) and self._flying[-1].waiting > 0

    def _proceed(self, now: float) -> None:
        passed = now - self._now
        if passed > 0.0:
            self._now = now
            for running in self._flying:
                running.clock_s += passed / running.factor
            if self._held():
                self._flying[-1].renew(now)

    def _clear(self, running: Running) -> None:
        """Clear its blocks that are over."""
        for batch in running.over(self._now):
            self._floor.clear(running.shape, batch.placed)

    def _place(self) -> None:
        if self._held() and not self._placed(self._flying[-1]):
            return
        while self._queue:
            running = self._queue[0]
            whole = self._placed(running)
            if running.resident:
                self._flying.append(self._queue.popleft())
            if not whole:
                return

    def _placed(self, running: Running) -> bool:
        """Place what there is room for; whether that was all."""
        placed, blocks = self._floor.place(running.shape, running.waiting)
        if blocks:
            running.add(placed, blocks)
        return not running.waiting

    def _set_factors(self) -> None:
        """How many times longer blocks take than alone."""
        flying = self._flying
        kinds, parts = [running.kind for running in flying], [running.part for running in flying]
        reliefs = [running.shape.relief for running in flying]
        factors = slower(kinds, parts, reliefs, self._excess, self._copies)
        for running, factor in zip(flying, factors, strict=True):
            running.factor = factor

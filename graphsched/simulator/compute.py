"""Tasks that run side by side: on one GPU, or on the cores of the host.

How they slow each other is behind `ComputeSharing`, which is told who starts and who ends and says how
fast each goes. Of a GPU's tasks whose kernels are known the blocks are placed one by one instead: see
`simulator.block_queue`. `device_resource` chooses.

Not modelled: collectives beside compute (copies: see `simulator.traffic`); in the rules of this module also who
came first, and by a curve alone which tasks slow which (a task of another kind counts as one of its own kind).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Protocol

import numpy as np

from graphsched.costs import Beside, TaskCost
from graphsched.simulator.block_queue import BlockQueue
from graphsched.simulator.fluid import Longer, Progress, Timer, ended, no_longer_s
from graphsched.simulator.host_memory import memory_shares

NOTHING_MOVED: Mapping[int, float] = {}


class ComputeSharing(Protocol):
    """The rule by which tasks that run side by side on one device slow each other."""

    def start(self, action: int) -> None:
        """`action` starts on the device."""

    def end(self, action: int) -> None:
        """`action` is over."""

    def rates(self) -> Sequence[tuple[int, float]]:
        """(action, rate) of every running action; rate 1 is the speed alone, 0 stands still."""


class CurveSharing:
    """Beside k - 1 others a task goes at 1 / `TaskCost.slowdown(k)`.

    Example:
        >>> sharing = CurveSharing([TaskCost(1.0, concurrency=((2, 1.25),))], {7: 0, 8: 0})
        >>> sharing.start(7), sharing.start(8)
        (None, None)
        >>> sharing.rates()
        [(7, 0.8), (8, 0.8)]
    """

    def __init__(self, curves: Sequence[TaskCost], curve_of: Mapping[int, int]) -> None:
        """`curve_of` gives each action's place in `curves`, the costs whose curves differ."""
        self._curves = curves
        self._curve_of = curve_of
        self._running: dict[int, int] = {}
        self._rates: dict[tuple[int, int], float] = {}

    def start(self, action: int) -> None:
        """`action` starts on the device."""
        self._running[action] = self._curve_of[action]

    def end(self, action: int) -> None:
        """`action` is over."""
        del self._running[action]

    def rates(self) -> list[tuple[int, float]]:
        """Rates at the present number of running actions."""
        k = len(self._running)
        return [(action, self._rate(curve, k)) for action, curve in self._running.items()]

    def _rate(self, curve: int, k: int) -> float:
        rate = self._rates.get((curve, k))
        if rate is None:
            rate = self._rates[curve, k] = 1.0 / self._curves[curve].slowdown(k)
        return rate


class PairSharing:
    """A task goes at 1 / (1 + the sum of what each task beside it costs it more than nothing).

    Those whose pair with it was not measured count as copies of itself, by its curve. A task never goes
    faster than alone.

    Example:
        >>> sharing = PairSharing([TaskCost(1.0), TaskCost(1.0)], {7: 0, 8: 1}, {(0, 1): 1.25, (1, 0): 1.6})
        >>> sharing.start(7), sharing.start(8)
        (None, None)
        >>> sharing.rates()
        [(7, 0.8), (8, 0.625)]
    """

    def __init__(
        self,
        curves: Sequence[TaskCost],
        curve_of: Mapping[int, int],
        slowdowns: Mapping[tuple[int, int], float],
    ) -> None:
        """`slowdowns` by (place in `curves`, place of the one beside it)."""
        self._curves, self._curve_of, self._slowdowns = curves, curve_of, slowdowns
        self._running: dict[int, int] = {}
        self._rates: dict[tuple[int, ...], list[float]] = {}

    def start(self, action: int) -> None:
        """`action` starts on the device."""
        self._running[action] = self._curve_of[action]

    def end(self, action: int) -> None:
        """`action` is over."""
        del self._running[action]

    def rates(self) -> list[tuple[int, float]]:
        """Rates beside what runs at present."""
        kinds = tuple(self._running.values())
        if kinds not in self._rates:
            self._rates[kinds] = [self._rate(k, kinds) for k in range(len(kinds))]
        return list(zip(self._running, self._rates[kinds], strict=True))

    def _rate(self, place: int, kinds: tuple[int, ...]) -> float:
        mine, known = kinds[place], self._slowdowns
        others = [(mine, other) for k, other in enumerate(kinds) if k != place]
        copies = sum(pair not in known for pair in others)
        longer = sum(known[pair] - 1.0 for pair in others if pair in known)
        return 1.0 / max(1.0, self._curves[mine].slowdown(1 + copies) + longer)


class CoreSharing:
    """CPU lanes share the cores: each goes at min(1, cores / threads of all that run), and memory (`host_memory`).

    A task with more threads than cores was measured so, and goes at 1 when alone.

    Example:
        >>> sharing = CoreSharing({0: 2, 1: 1}, cores=2)
        >>> sharing.start(0), sharing.start(1)
        (None, None)
        >>> round(sharing.share, 3)
        0.667
    """

    def __init__(
        self,
        threads_of: Mapping[int, int],
        cores: int,
        moved: Mapping[int, float] = NOTHING_MOVED,
        memory_bytes_per_s: float = 0.0,
    ) -> None:
        """`moved`: bytes a second that actions move through memory alone, of which there are so many in all."""
        self._threads_of = threads_of
        self._cores = cores
        self._moved, self._memory = moved, memory_bytes_per_s
        self._running: dict[int, int] = {}
        self._demand = 0

    def start(self, action: int) -> None:
        """`action` starts on its lane."""
        self._running[action] = self._threads_of[action]
        self._demand += self._threads_of[action]

    def end(self, action: int) -> None:
        """`action` is over."""
        self._demand -= self._running.pop(action)

    @property
    def busy(self) -> bool:
        """Whether anything runs."""
        return bool(self._running)

    @property
    def share(self) -> float:
        """Share of its speed alone that each running action has."""
        cores = max(self._cores, max(self._running.values(), default=1))
        return min(1.0, cores / self._demand) if self._demand else 1.0

    def rates(self) -> list[tuple[int, float]]:
        """The same rate for all, but where memory gives less."""
        share = self.share
        if not self._moved:
            return [(action, share) for action in self._running]
        shares = memory_shares([share * self._moved.get(action, 0.0) for action in self._running], self._memory)
        return [(action, share * of_memory) for action, of_memory in zip(self._running, shares, strict=True)]


class Pool:
    """The tasks that run on one device, at the rates that a `ComputeSharing` gives."""

    def __init__(
        self, sharing: ComputeSharing, work_s: Mapping[int, float], timer: Timer, longer_s: Longer = no_longer_s
    ) -> None:
        """`work_s`: seconds of each action alone; one without an entry stays until `leave`."""
        self.sharing = sharing
        self._longer_s = longer_s
        self._work_s = work_s
        self._timer = timer
        self._running: dict[int, Progress] = {}
        self._token = 0

    def enter(self, action: int, now: float) -> None:
        """`action` starts."""
        self._running[action] = Progress(self._work_s.get(action, inf) + self._longer_s(action, now), now)
        self.sharing.start(action)

    def leave(self, action: int) -> None:
        """`action` is over."""
        del self._running[action]
        self.sharing.end(action)

    def refresh(self, now: float) -> None:
        """New rates, and a timer for whoever ends next."""
        running = self._running
        for action, rate in self.sharing.rates():
            running[action].proceed(rate, now)
        self._token += 1
        first = min((progress.end_s for progress in running.values()), default=inf)
        if first < inf:
            self._timer(first, self, self._token)

    def due(self, token: int, now: float) -> list[int]:
        """Actions that end at `now`; they have left."""
        if token != self._token:
            return []
        over = ended(self._running.items(), now)
        for action in over:
            self.leave(action)
        return over


def device_resource(
    kinds: Sequence[TaskCost],
    kind_of: Mapping[int, int],
    pairs: Mapping[tuple[int, int], Beside],
    work_s: Mapping[int, float],
    timer: Timer,
    *,
    queue: bool = True,
    longer_s: Longer = no_longer_s,
) -> Pool | BlockQueue:
    """What the tasks of one GPU share, by the best rule that their costs allow.

    Args:
        kinds: Costs, one for each kind of task.
        kind_of: Place of each action in `kinds`.
        pairs: What is measured, by (kind, kind beside it).
        work_s: Seconds alone of the actions of this GPU.
        queue: Place blocks one by one, if the kernels of all are known. Else measured pairs are added, if
            there are any among these; else curves.
        longer_s: What an action that enters takes longer than its work alone.
    """
    mine = dict.fromkeys(kind_of[action] for action in work_s)
    known = {pair: beside for pair, beside in pairs.items() if pair[0] in mine and pair[1] in mine}
    if queue and mine and all(kinds[kind].kernels and kinds[kind].processors for kind in mine):
        found = contention(kinds, list(mine), known)
        return BlockQueue(kinds, kind_of, work_s, found, timer, among_copies(list(mine), known), longer_s)
    if known:
        slowdowns = {pair: beside.slowdown for pair, beside in known.items()}
        return Pool(PairSharing(kinds, kind_of, slowdowns), work_s, timer, longer_s)
    return Pool(CurveSharing(kinds, kind_of), work_s, timer, longer_s)


def contention(
    kinds: Sequence[TaskCost], mine: Sequence[int], pairs: Mapping[tuple[int, int], Beside]
) -> dict[tuple[int, int], float]:
    """Contention in flight of each pair of `mine`: as measured, else what a task's curve says of two copies.

    Example:
        >>> contention([TaskCost(1.0), TaskCost(1.0, concurrency=((2, 1.2),))], [0, 1], {(0, 1): Beside(3.0, 1.5)})
        {(0, 0): 2.0, (0, 1): 1.5, (1, 0): 1.2, (1, 1): 1.2}
    """
    found = {}
    for kind in mine:
        for other in mine:
            pair = pairs.get((kind, other))
            found[kind, other] = kinds[kind].slowdown(2) if pair is None else pair.contention
    return found


def among_copies(mine: Sequence[int], pairs: Mapping[tuple[int, int], Beside]) -> dict[int, list[float]]:
    """Contention in flight, less 1, of each of `mine` beside itself, by how many of it there are, as far as measured.

    Between measured numbers it changes evenly.

    Example:
        >>> {kind: [round(x, 2) for x in row] for kind, row in among_copies(
        ...     [0, 1], {(0, 0): Beside(1.2, copies=((2, 1.2), (4, 1.4))), (1, 1): Beside(1.5)}
        ... ).items()}
        {0: [0.2, 0.2, 0.2, 0.3, 0.4]}
    """
    found = {}
    for kind in mine:
        points = pairs[kind, kind].copies if (kind, kind) in pairs else ()
        if len(points) > 1:
            numbers, factors = zip(*points, strict=True)
            found[kind] = [float(x) - 1.0 for x in np.interp(range(numbers[-1] + 1), numbers, factors)]
    return found

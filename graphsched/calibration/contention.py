"""From how long two chains take side by side to what their kernels cost each other in flight.

Part of a measured slowdown is waiting until the other has placed its blocks, which the simulator works out
by itself. The rest, contention, is found by simulating the measurement again until it comes out as
measured, both ways round at once.

Not modelled: chains that slow each other by less than no contention explains (the figure is then 0).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from graphsched.costs import Beside, TaskCost
from graphsched.simulator.side_by_side import ends_s

MOST = 200.0
ROUNDS, PATIENCE = 40, 12  # rounds in all, and those in which the best is to get nearer
STEP = 0.7
CLOSE = 1e-3
TOLD = 0.02  # of a slowdown, what a factor more by 1 must make of it: less drowns in the scatter of the curve
COPIES_CHAIN, FEWEST_CALLS = 24, 8  # calls in each of two simulated chains of one operation, and of more
LEAST_DONE = 0.02  # of a chain, beside the other: less is not told from none


@dataclass(frozen=True)
class PairRun:
    """A chain of `calls` of one operation beside a chain of `beside_calls` of another, started `late_s` after it.

    Attributes:
        slowdown: See `slowdown_beside`.
    """

    calls: int
    beside_calls: int
    slowdown: float
    late_s: float = 0.0


def slowdown_beside(alone_s: float, end_s: float, beside_end_s: float, late_s: float = 0.0) -> float:
    """How many times longer a chain takes with the other beside it all the while.

    Where the other ended first, the rest of the chain ran as if alone: what was done until then counts.

    Args:
        alone_s: Time of the chain alone.
        end_s, beside_end_s: When it ended, and when the other did.
        late_s: When the other came; until then it ran as if alone.

    Example:
        >>> slowdown_beside(1.0, 2.0, 5.0), slowdown_beside(1.0, 2.0, 1.5), slowdown_beside(1.0, 1.5, 5.0, late_s=0.5)
        (2.0, 3.0, 2.0)
    """
    left_s = max(LEAST_DONE * alone_s, alone_s - late_s)
    if beside_end_s >= end_s:
        return max(0.0, end_s - late_s) / left_s
    return max(0.0, beside_end_s - late_s) / max(LEAST_DONE * alone_s, left_s - (end_s - beside_end_s))


def in_flight(costs: tuple[TaskCost, TaskCost], runs: tuple[PairRun, PairRun]) -> tuple[float, float]:
    """Contention of each operation beside the other, so that the simulator gives the slowdowns of `runs`.

    Args:
        costs: Of the two operations; both know their kernels.
        runs: The first beside the second, and the second beside the first.

    Example:
        >>> from graphsched.costs import Kernel, Multiprocessors
        >>> device = Multiprocessors(count=4, registers=65536, threads=2048, shared_bytes=2**17, blocks=32)
        >>> cost = TaskCost(1.0, kernels=(Kernel(4, 0, 1024, 0),), processors=device)
        >>> [round(x, 2) for x in in_flight((cost, cost), (PairRun(8, 40, 1.3), PairRun(8, 40, 1.6)))]
        [1.3, 1.6]
    """
    found, best, least = [1.0, 1.0], (1.0, 1.0), inf
    before = [inf] * PATIENCE
    while len(before) < ROUNDS + PATIENCE:
        errors = [run.slowdown - _simulated(costs, found, way, run) for way, run in enumerate(runs)]
        worst = max(abs(error) / run.slowdown for error, run in zip(errors, runs, strict=True))
        if worst < least:
            best, least = (found[0], found[1]), worst
        if least < CLOSE or before[-PATIENCE] - least < CLOSE:
            break
        before.append(least)
        found = [
            _moved(factor, error, run.slowdown - error) for factor, error, run in zip(found, errors, runs, strict=True)
        ]
    return best


def in_flight_of_copies(cost: TaskCost) -> tuple[tuple[int, float], ...]:
    """(k, contention of an operation where k of it run side by side), so that the simulator gives its curve.

    The curve is of chains of many calls; a pair of short ones says more about who came first. Where so many of it
    are hardly ever in flight together, the number before decides.

    Example:
        >>> from graphsched.costs import Kernel, Multiprocessors
        >>> device = Multiprocessors(count=4, registers=65536, threads=2048, shared_bytes=2**17, blocks=32)
        >>> curve = (1, 1.0), (2, 1.3), (4, 2.2)
        >>> cost = TaskCost(1.0, concurrency=curve, kernels=(Kernel(4, 0, 512, 0),), processors=device)
        >>> [(k, round(factor, 2)) for k, factor in in_flight_of_copies(cost)]
        [(2, 1.3), (4, 1.68)]
    """
    found: list[tuple[int, float]] = []
    for k, wanted in cost.concurrency:
        if k > 1:
            found.append((k, _factor(cost, k, wanted, found)))
    return tuple(found)


def _factor(cost: TaskCost, k: int, wanted: float, before: Sequence[tuple[int, float]]) -> float:
    """The factor at `k` with which the simulator gives the slowdown that is `wanted`."""

    def off(factor: float) -> float:
        return _of_copies(cost, k, (*before, (k, factor))) - wanted

    least = off(0.0)
    if before and off(before[-1][1] + 1.0) - least < TOLD * wanted:
        return before[-1][1]
    if least >= 0.0:
        return 0.0
    return _root(off, least, before[-1][1] if before else 1.0, CLOSE * wanted)


def _root(off: Callable[[float], float], off_at_0: float, guess: float, close: float) -> float:
    """Where `off`, which rises from below 0, is 0 within `close`, `MOST` at most: false position, Illinois's rule.

    Example:
        >>> round(_root(lambda x: x * x - 2.0, -2.0, 1.0, 1e-3), 2)
        1.41
    """
    low, below, high, side = 0.0, off_at_0, max(guess, STEP), 0
    above = off(high)
    while above < 0.0 and high < MOST:
        low, below, high = high, above, min(2.0 * high, MOST)
        above = off(high)
    for _ in range(ROUNDS):
        if abs(above) <= close or above < 0.0:
            break
        middle = low + (high - low) * -below / (above - below)
        there = off(middle)
        if abs(there) <= close:
            return middle
        if there < 0.0:
            low, below, above, side = middle, there, above / 2.0 if side < 0 else above, -1
        else:
            high, above, below, side = middle, there, below / 2.0 if side > 0 else below, 1
    return high


def _of_copies(cost: TaskCost, k: int, factors: Sequence[tuple[int, float]]) -> float:
    """Slowdown of `k` equal chains of an operation."""
    calls = max(FEWEST_CALLS, COPIES_CHAIN * 2 // k)
    ends = ends_s([cost], [[0] * calls] * k, {(0, 0): Beside(1.0, copies=tuple(factors))})
    return max(ends) / (calls * cost.device_s)


def _simulated(costs: Sequence[TaskCost], factors: Sequence[float], way: int, run: PairRun) -> float:
    """Slowdown of the operation of number `way` beside the other."""
    other = 1 - way
    pairs = {(0, 1): Beside(1.0, factors[0]), (1, 0): Beside(1.0, factors[1])}
    ends = ends_s(costs, [[way] * run.calls, [other] * run.beside_calls], pairs, until=0, late_s=run.late_s)
    return slowdown_beside(run.calls * costs[way].device_s, ends[0], ends[1], run.late_s)


def _moved(factor: float, error: float, simulated: float) -> float:
    """The next guess: the larger the part of the slowdown that is waiting, the smaller the step."""
    return min(MOST, max(0.0, factor + STEP * error / max(1.0, simulated - factor + 1.0)))

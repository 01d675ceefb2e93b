"""How many calls make a sample, how many samples a measurement, how many sets of inputs to go round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import numpy as np

from graphsched.costs import TaskCost

SAMPLE_S = 1e-3
TOTAL_S = 0.1
MOST_SAMPLES = 100
MOST_LAUNCHES = 400
MOST_CALLS = 64
MOST_SETS = 8
MOST_SET_BYTES = 2 * 10**9
CHAIN = 32
CHAIN_TOTAL_S = 0.06
ROW, FEWEST_ROWS = 5, 3


def calls_in_sample(call_s: float, launches: int = 1) -> int:
    """Calls timed together, so that a sample lasts about a millisecond and the launch queue is not filled.

    Example:
        >>> calls_in_sample(1e-5), calls_in_sample(1e-6, launches=20), calls_in_sample(5e-3), calls_in_sample(1.0)
        (64, 20, 2, 1)
    """
    if call_s > 0.02:
        return 1
    wanted = max(2, math.ceil(SAMPLE_S / max(call_s, 1e-9)))
    return max(1, min(wanted, MOST_CALLS, MOST_LAUNCHES // max(launches, 1)))


def samples_wanted(repeats: int, sample_s: float) -> int:
    """At least `repeats`; more, up to 100, while all take less than a tenth of a second.

    Example:
        >>> samples_wanted(20, 1.0), samples_wanted(20, 2e-3), samples_wanted(20, 1e-6)
        (20, 50, 100)
    """
    return max(repeats, min(MOST_SAMPLES, int(TOTAL_S / max(sample_s, 1e-9))))


def in_a_row_s(samples_s: Sequence[float]) -> float:
    """Seconds that each of some in a row takes: the median of rows of five, means of a row each.

    Others that use the host's cores and its memory hold up some tasks of a CPU lane and seldom one less than half as
    long as another: the median of single ones is less than what a plan's add up to, by 7 % on hosts of an H200
    (docs/readings.md), and their mean hangs on what seldom happens. Of few samples rows are shorter.

    Example:
        >>> in_a_row_s([1.0, 1.0, 1.0, 1.0, 2.0] * 3), in_a_row_s([1.0] * 14 + [100.0]), in_a_row_s([1.0, 2.0, 9.0])
        (1.2, 1.0, 2.0)
    """
    rows = max(min(FEWEST_ROWS, len(samples_s)), len(samples_s) // ROW)
    return median([float(np.mean(row)) for row in np.array_split(samples_s, rows)])


def sets_wanted(set_bytes: int, cache_bytes: int, free_bytes: int) -> int:
    """Sets of inputs to go round, so that they exceed the cache: at most 8, 2 GB and a quarter of free memory.

    One, if a set is less than an eighth of the cache.

    Example:
        >>> sets_wanted(10**7, 6 * 10**7, 10**11), sets_wanted(10**3, 6 * 10**7, 10**11)
        (7, 1)
        >>> sets_wanted(10**9, 6 * 10**7, 10**11), sets_wanted(10**9, 6 * 10**7, 10**9)
        (2, 1)
    """
    if set_bytes < cache_bytes // 8:
        return 1
    exceeding = cache_bytes // max(set_bytes, 1) + 1
    fitting = min(MOST_SET_BYTES, free_bytes // 4) // max(set_bytes, 1)
    return max(1, min(max(2, exceeding), MOST_SETS, fitting))


def places_wanted(set_bytes: int, cache_bytes: int) -> int:
    """Sets of small inputs to go round while all stay in the cache, whose parts are not all as near: at most 8.

    As many as take an eighth of the cache with what comes of them; one, if a set takes that alone or the cache is not
    known.

    Example:
        >>> places_wanted(10**3, 6 * 10**7), places_wanted(3 * 10**6, 6 * 10**7), places_wanted(10**7, 6 * 10**7)
        (8, 2, 1)
        >>> places_wanted(10**3, 0)
        1
    """
    return max(1, min(MOST_SETS, cache_bytes // 8 // max(set_bytes, 1)))


def chain_length(call_s: float, launches: int, copies: int) -> int:
    """Calls in each of `copies` chains side by side: 32, fewer where they are long or launch much.

    Example:
        >>> chain_length(1e-5, 1, 8), chain_length(4e-3, 1, 8), chain_length(1e-5, 10, 8)
        (32, 2, 5)
    """
    in_time = int(CHAIN_TOTAL_S / (copies * max(call_s, 1e-9)))
    return max(2, min(CHAIN, in_time, MOST_LAUNCHES // (copies * max(launches, 1))))


def slowdowns(times: Sequence[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """Slowdown by number of chains side by side, from the time of each; never below 1, never falling.

    Example:
        >>> slowdowns([(1, 2.0), (2, 3.0), (4, 2.9)])
        ((1, 1.0), (2, 1.5), (4, 1.5))
    """
    found: list[tuple[int, float]] = []
    worst = 1.0
    for copies, seconds in times:
        worst = max(worst, seconds / times[0][1])
        found.append((copies, worst))
    return tuple(found)


def cost_of(device_s: Sequence[float], *, launches: int = 1, workspace_bytes: int = 0) -> TaskCost:
    """The cost that these samples of device time show.

    Example:
        >>> cost = cost_of([1.0, 2.0, 3.0], launches=2)
        >>> cost.device_s, cost.launches, cost.quartiles_s, cost.samples
        (2.0, 2, (1.5, 2.5), 3)
    """
    return TaskCost(
        device_s=median(device_s),
        launches=launches,
        workspace_bytes=workspace_bytes,
        quartiles_s=(float(np.quantile(device_s, 0.25)), float(np.quantile(device_s, 0.75))),
        samples=len(device_s),
    )

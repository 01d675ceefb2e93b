"""From timed transfers to a link: sizes, middle times, latency and rate. No hardware is touched here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from graphsched.calibration.sampling import in_a_row_s
from graphsched.errors import PlatformError
from graphsched.platform import Link
from graphsched.platform.disturbed import falls
from graphsched.platform.links import SHORTEST_S
from graphsched.platform.parts import LinkMemory

SMALLEST_BYTES = 4 * 1024
FACTOR = 4
AGAIN = 5  # times that sizes are timed again at which something else has been in the way


@dataclass(frozen=True, slots=True)
class Points:
    """Time of a transfer by size.

    Attributes:
        sizes_bytes: Sizes, ascending.
        seconds: Median time of each, or that of each in a row (`measure_by_turns`).
        spreads: Interquartile range of each as a fraction of that.
    """

    sizes_bytes: tuple[int, ...]
    seconds: tuple[float, ...]
    spreads: tuple[float, ...]


def transfer_sizes(largest_bytes: int) -> tuple[int, ...]:
    """Sizes from 4 KB in factors of 4 up to `largest_bytes`.

    Example:
        >>> transfer_sizes(300_000)
        (4096, 16384, 65536, 262144)
    """
    sizes = [SMALLEST_BYTES]
    while sizes[-1] * FACTOR <= largest_bytes:
        sizes.append(sizes[-1] * FACTOR)
    return tuple(sizes)


def repeats_for(nbytes: int) -> int:
    """How often a transfer of this size is timed: more often the shorter it is.

    Example:
        >>> repeats_for(4096), repeats_for(2**30)
        (25, 3)
    """
    for limit, repeats in ((2**20, 25), (2**24, 15), (2**26, 9), (2**28, 5)):
        if nbytes <= limit:
            return repeats
    return 3


def fresh_repeats(nbytes: int) -> int:
    """The same for fresh memory, whose times scatter: the C library may hand out pages used before.

    Example:
        >>> fresh_repeats(4096), fresh_repeats(2**26)
        (25, 15)
    """
    return 25 if nbytes <= 2**20 else 15


def measure_points(
    time_one: Callable[[int], float],
    sizes: Sequence[int],
    *,
    repeats: Callable[[int], int] = repeats_for,
    overhead_s: float = 0.0,
    rising: bool = False,
) -> Points:
    """Time a transfer at every size: one warm-up, then the median of `repeats(size)` samples.

    `overhead_s` is what each sample holds beside the transfer (the call's host time); at most
    four fifths of a sample are taken off. Where rates do not fall with the size (`rising`), sizes at which they do are
    timed again up to `AGAIN` times, and the shortest median counts: something else has been in the way.
    """

    def point(nbytes: int) -> tuple[float, float]:
        time_one(nbytes)
        samples = [time_one(nbytes) for _ in range(repeats(nbytes))]
        middle = median(samples)
        return max(middle - overhead_s, 0.2 * middle, SHORTEST_S), _spread(samples, middle)

    found = [point(nbytes) for nbytes in sizes]
    for _ in range(AGAIN if rising else 0):
        for place in falls(sizes, [seconds for seconds, _ in found]):
            found[place] = min(found[place], point(sizes[place]))
    return Points(tuple(sizes), tuple(seconds for seconds, _ in found), tuple(spread for _, spread in found))


def measure_by_turns(
    time_one: Callable[[int], float], sizes: Sequence[int], *, repeats: Callable[[int], int]
) -> Points:
    """Time a transfer at all sizes by turns, after one warm-up each: what each of some in a row takes.

    So the samples of a size are spread over all that time, for what others on the host do lasts longer than samples of
    one size do. There are `repeats(size)` of them.
    """
    counts = [repeats(nbytes) for nbytes in sizes]
    found: list[list[float]] = [[] for _ in sizes]
    for nbytes in sizes:
        time_one(nbytes)
    turns = max(counts)
    for turn in range(turns):
        for nbytes, count, samples in zip(sizes, counts, found, strict=True):
            if (turn + 1) * count // turns > turn * count // turns:
                samples.append(time_one(nbytes))
    seconds = [max(in_a_row_s(samples), SHORTEST_S) for samples in found]
    return Points(tuple(sizes), tuple(seconds), tuple(map(_spread, found, seconds)))


def _spread(samples: Sequence[float], middle: float) -> float:
    return float(np.quantile(samples, 0.75) - np.quantile(samples, 0.25)) / max(middle, SHORTEST_S)


def fit(points: Points) -> tuple[float, float]:
    """Latency (s) and rate (bytes/s): the slope between the two largest sizes, and what is left of the smallest.

    Example:
        >>> latency, rate = fit(Points((1000, 2000, 4000), (11e-6, 12e-6, 14e-6), (0.0, 0.0, 0.0)))
        >>> f"{latency:.1e} {rate:.1e}"
        '1.0e-05 1.0e+09'
    """
    sizes, seconds = points.sizes_bytes, points.seconds
    rate = sizes[-1] / seconds[-1]
    if len(sizes) > 1 and seconds[-1] > seconds[-2]:
        rate = (sizes[-1] - sizes[-2]) / (seconds[-1] - seconds[-2])
    return max(0.0, seconds[0] - sizes[0] / rate), rate


def link_of(
    source: str,
    target: str,
    memory: LinkMemory,
    points: Points,
    crosses: tuple[str, ...] = (),
    *,
    blocking: bool = False,
) -> Link:
    """The link with the latency and rate fitted to `points`, which it keeps."""
    latency_s, rate = fit(points)
    return Link(source, target, memory, latency_s, rate, crosses, blocking, points.sizes_bytes, points.seconds)


def check_arrived(same: bool, source: str, target: str) -> None:
    """Make sure that a test pattern arrived.

    Raises:
        PlatformError: It did not.
    """
    if not same:
        raise PlatformError(f"data copied from {source} to {target} arrived changed: this host cannot be used")

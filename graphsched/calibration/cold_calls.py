"""What a call takes longer after a wait: while the thread polls, its core loses the code and data that a call needs.

How fast that goes hangs on who else computes on the core, and changes within seconds as the yardstick does.
Calls of several kinds are made in turn, in a row and each after a wait, in which the thread polls a spinning stream.

Longer calls than these have more to lose: `Dispatch.cold_call_s` says how much.

Not modelled: what an operation has to lose beyond that; what timing events take longer after a wait; what the second
call after a wait takes longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import Any, NamedTuple

from graphsched.calibration.cuda_clock import Spinner, on_streams, poll_s
from graphsched.executors.collector import no_collector
from graphsched.executors.lanes import stream_pool

WAITS_US = (20, 200, 1000)  # lengths of wait, of which a sample has one each before every call; no call is colder later
SHORT_WAITS_US = WAITS_US[:2]
SAMPLES = 25

Colds = tuple[tuple[int, float], ...]


class ColdSample(NamedTuple):
    """Host seconds of a call in a row of several kinds, and what it takes longer after each wait."""

    row_s: float
    colds_s: tuple[float, ...]


class ColdCalls:
    """Calls of several kinds on the first stream of a GPU, in a row and after waits."""

    def __init__(self, gpu: int = 0) -> None:
        self._stream, self._spinner, self._calls = stream_pool(gpu)[0], Spinner(gpu), tiny_calls(gpu)
        for _ in range(3):
            self.sample_s()

    def sample_s(self, waits_us: Sequence[int] = WAITS_US) -> tuple[float, ...]:
        """Host seconds that a call takes longer after waits than in a row; all in about 8 ms, without the last in 2."""
        return self.sample(waits_us).colds_s

    def sample(self, waits_us: Sequence[int] = WAITS_US) -> ColdSample:
        """The same, and what a call takes in a row.

        The first row finds the processor's caches as whatever ran before left them, and does not count.
        """
        with ExitStack() as stack:
            on_streams(stack, [self._stream])
            _, row_s = self._mean_s(0.0), self._mean_s(0.0)
            return ColdSample(row_s, tuple(self._mean_s(wait_us * 1e-6) - row_s for wait_us in waits_us))

    def _mean_s(self, wait_s: float) -> float:
        """Host seconds of a call, a wait before each."""
        seconds, kept = 0.0, None
        for call in self._calls:
            if wait_s:
                self._spinner.spin(wait_s)
                began = poll_s(self._stream.query)
            else:
                began = time.perf_counter()
            kept = call()
            seconds += time.perf_counter() - began
        del kept
        return seconds / len(self._calls)


def tiny_calls(gpu: int) -> list[Callable[[], Any]]:
    """Operations on a tiny tensor, none like another."""
    import torch

    x = torch.ones(8, 8, device=f"cuda:{gpu}")
    return [
        partial(torch.neg, x),
        partial(torch.mm, x, x),
        partial(torch.add, x, x),
        partial(torch.softmax, x, 1),
        partial(torch.sum, x, 1),
        partial(torch.relu, x),
    ]


def colds_on(gpu: int) -> Colds:
    """`Dispatch.colds` as it is now on the core that this thread runs on."""
    with no_collector():
        calls = ColdCalls(gpu)
        return colds_of([calls.sample_s() for _ in range(SAMPLES)])


def colds_of(samples: Sequence[tuple[float, ...]], waits_us: Sequence[int] = WAITS_US) -> Colds:
    """`Dispatch.colds` from samples: medians, by the length of the wait; empty without samples.

    None is below 0, and a longer wait costs no less: what says otherwise is noise.

    Example:
        >>> colds_of([(1e-6, 4e-6, 9e-6), (3e-6, 2e-6, 5e-6), (2e-6, 3e-6, 7e-6)])
        ((20, 2e-06), (200, 3e-06), (1000, 7e-06))
        >>> colds_of([(-1e-7, -2e-7, -1e-7)]), colds_of([])
        (((20, 0.0), (200, 0.0), (1000, 0.0)), ())
    """
    points, least_s = [], 0.0
    for wait_us, seconds in zip(waits_us, zip(*samples, strict=True), strict=True) if samples else ():
        least_s = max(least_s, median(seconds))
        points.append((wait_us, least_s))
    return tuple(points)

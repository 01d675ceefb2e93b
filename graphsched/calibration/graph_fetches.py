"""An operation inside a CUDA graph that fetches its code while a kernel on another lane fetches its own.

Two kernels whose code the instruction cache has lost hinder each other where they begin together: the one that began
first takes what it takes alone, the other longer, by up to one and a half times what it takes alone. With its code
in the cache, or beside a kernel with its own there, it does not. So a round of one graph is, the operation on a lane of
its own, once beside a sum and once beside a kernel of one thread::

    [fill the cache of data] o1 … o12 (no sum) write inputs    sum       beside    *op*
                                                               stamp     beside    *op*

From the fork to the end of the operation it takes longer the first time, by `Hindered.beside_s` where its code comes
from the cache of data, and by `Hindered.beside_lost_s` beyond that where that has lost it too. It matters little which
kernel it is beside: products and sums cost others the same.

Not modelled: which kernel it is beside, as far as that matters; kernels of the operation behind its first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

from graphsched.calibration.graph_company import SUM, marking, other_calls
from graphsched.calibration.graph_operations import HELD, cache_bytes, rounds_wanted
from graphsched.calibration.graph_rows import COLD_RUNS, Fork, forks_of
from graphsched.calibration.graph_states import filling
from graphsched.executors.stamp_kernel import StampMemory

ROUNDS = 3
CALLS = 4  # of the operation in a round
LEAST_S = 2e-7  # that fetching its code takes an operation alone; those of less hinder nobody
RUNS = 9

Call = Callable[[], Any]


class Hindered(NamedTuple):
    """What an operation whose code must be fetched takes longer behind the start of another that fetches its own.

    Attributes:
        beside_s: Where the cache of data has its code.
        beside_lost_s: Beyond that, where it has not.
    """

    beside_s: float = 0.0
    beside_lost_s: float = 0.0


def hindered(call: Call, writes: Sequence[Call], device: int, alone_s: float, nbytes: int, fetch_s: float) -> Hindered:
    """What an operation takes longer beside another that fetches its code; not below 0.

    Nothing for a long one, for one that reads and writes more than the cache of data is sure to hold, and for one of
    little code.

    Args:
        call: Of the operation.
        writes: What writes its inputs again.
        device: Number of the GPU.
        alone_s: Device seconds of one.
        nbytes: What one reads and returns.
        fetch_s: What it takes longer alone where its code comes from memory.

    Raises:
        TaskFailedError: It cannot be captured.
        ExecutionError: There are no stamps here.
    """
    rounds = rounds_wanted(alone_s, 0, ROUNDS, CALLS)
    if not rounds or fetch_s < LEAST_S or nbytes > HELD * cache_bytes(device):
        return Hindered()
    others = other_calls(device)
    beside = others.pop(SUM)
    memory = StampMemory(device, 2 * CALLS * rounds + 1)
    alone = marking(memory, 2 * CALLS * rounds, device)
    kinds = list(itertools.product(([], [filling(device).written]), (alone, beside)))
    forks = []
    for k, (fill, first) in enumerate(kinds * rounds):
        begin, end = (marking(memory, place, device) for place in (2 * k, 2 * k + 1))
        forks.append(Fork([*fill, *others, *writes, begin], [first], [call, end]))
    held_s, held_beside_s, lost_s, lost_beside_s = spans_s(forks, memory, device)
    beside_s = max(0.0, held_beside_s - held_s)
    return Hindered(beside_s, max(0.0, lost_beside_s - lost_s - beside_s))


def spans_s(forks: Sequence[Fork], memory: StampMemory, device: int) -> list[float]:
    """Seconds from the fork to the end of each of the `CALLS` kinds of fork, which come in turn; medians."""
    samples: list[list[float]] = [[] for _ in range(CALLS)]
    with forks_of(forks, device) as program:
        for run in range(COLD_RUNS + RUNS):
            program.time_once()
            times = memory.read()
            for k in range(len(forks)) if run >= COLD_RUNS else ():
                samples[k % CALLS].append((times[2 * k + 1] - times[2 * k]) * 1e-9)
    return [median(found) for found in samples]

"""Measured launch queues: which actions a thread issued while there was hardly room for their kernels."""

from __future__ import annotations

from graphsched.simulator.columns import Columns
from graphsched.simulator.lane_costs import CUDA

NEARLY_FULL = 0.9  # share of a launch queue from which on the thread's time is the queue's: chosen, not measured


def crowded(columns: Columns, begun_s: list[float], end_s: list[float]) -> frozenset[int]:
    """Actions that were issued while their device's launch queue was nearly full.

    Args:
        columns: Of one thread; of several ranks' it is not told.
        begun_s, end_s: When the thread began to issue each, and when each was over; seconds.
    """
    if columns.queue_depth is None or columns.orders:
        return frozenset()
    found: set[int] = set()
    for queue in range(columns.lanes.queues):
        actions = [
            i for i, lane in enumerate(columns.lane) if columns.kind[i] == CUDA and columns.lanes.queue[lane] == queue
        ]
        if sum(columns.launches[i] for i in actions) > columns.queue_depth:
            found |= _issued_late(columns, actions, begun_s, end_s)
    return frozenset(found)


def _issued_late(columns: Columns, actions: list[int], begun_s: list[float], end_s: list[float]) -> set[int]:
    limit, held, over = NEARLY_FULL * (columns.queue_depth or 0), 0, 0
    by_end = sorted(actions, key=lambda i: end_s[i])
    found = set()
    for i in actions:
        while over < len(by_end) and end_s[by_end[over]] <= begun_s[i]:
            held -= columns.launches[by_end[over]]
            over += 1
        if held >= limit:
            found.add(i)
        held += columns.launches[i]
    return found

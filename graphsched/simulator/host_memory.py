"""How much of the host's memory tasks on CPU lanes use, and what is left for each of those that run side by side.

A task that moves its values through memory goes as fast as memory lets it, and two of them on two cores may want twice
of what there is: on a virtual machine of two cores an addition of 3.75 million numbers takes 1.2 ms, and two at once
2.4 ms each (readings). What a task moves is what it reads and writes, in its time alone; how much there is, is what
copies of two threads at once were measured to move (``host/memory``): each byte of these is read and written. One that
alone moves more than that was measured so. Rates are max-min fair.

Not modelled: copies beside tasks; what messages between ranks move; caches: a task of less than `CACHED_BYTES` is
taken to find all in them, one of more nothing, so that products hardly slow each other, of which two at once take twice
as long on that host too; that what a task writes is read first, a third more for an addition, half for a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphsched.plan import Plan
from graphsched.platform.parts import HOST_MEMORY
from graphsched.simulator.fairness import max_min_rates
from graphsched.simulator.lane_costs import CPU

if TYPE_CHECKING:
    from graphsched.simulator.columns import Columns

CACHED_BYTES = 2**23
"""Chosen, not measured: more than a core's own caches hold, less than the values of the steps between hosts (15 and
30 MB) in which the term was found."""

MOST = 2.0
"""Times what there is: a task that would move more than that does not touch all of its values, as a view. One core adds
numbers at 1.1 times what two cores copy (a reading)."""


def memory_bytes_per_s(plan: Plan) -> float:
    """Bytes that the host's memory can be read and written a second, in all; 0: unknown."""
    return 2 * plan.platform.capacities.get(HOST_MEMORY, 0.0)


def moved_bytes_per_s(columns: Columns, plan: Plan) -> dict[int, float]:
    """By task on a CPU lane that moves its values through memory, bytes a second while it is alone."""
    most = MOST * columns.memory_bytes_per_s
    found = {}
    for i, task in enumerate(plan.tasks) if most else ():
        if columns.kind[i] != CPU or plan.kinds[i] != "run" or task is None or columns.work_s[i] <= 0.0:
            continue
        rate = task.nbytes / columns.work_s[i]
        if task.nbytes >= CACHED_BYTES and rate <= most:
            found[i] = rate
    return found


def memory_shares(moved: Sequence[float], bytes_per_s: float) -> list[float]:
    """Of tasks that would move so many bytes a second, the share of that which each can.

    Example:
        >>> memory_shares([30.0, 30.0, 10.0], 50.0), memory_shares([70.0], 50.0)
        ([0.6666666666666666, 0.6666666666666666, 1.0], [1.0])
    """
    most = max([bytes_per_s, *moved])
    if sum(moved) <= most:
        return [1.0] * len(moved)
    given = max_min_rates(moved, [(0,)] * len(moved), [most])
    return [rate / wanted if wanted else 1.0 for rate, wanted in zip(given, moved, strict=True)]

"""Which actions of a plan need which, and the bytes that pass between them."""

from __future__ import annotations

from collections.abc import Iterator

from graphsched.plan import Plan
from graphsched.workload import Read


def dependencies(plan: Plan) -> dict[tuple[int, int], int]:
    """Bytes passed, by (needed action, action that needs it): all data and all waits (0 bytes if they only order).

    A plan's waits leave out those that others imply; here every action that makes or brings what
    another reads is listed. In order of the second action, then of the first.
    """
    passed = {(j, i): 0 for i, waits in enumerate(plan.waits) for j in waits}
    for i in range(len(plan)):
        for read, device in _reads(plan, i):
            buffer = plan.buffer(read, device)
            source = plan.index_of.get(str(read.source if buffer == read.value.name else buffer))
            if source is not None:
                passed[source, i] = passed.get((source, i), 0) + read.value.nbytes
    return {(j, i): passed[j, i] for i, j in sorted((i, j) for j, i in passed)}


def arrows(plan: Plan) -> list[tuple[int, int]]:
    """Dependencies worth an arrow: waits, and what leads to and from copies; not the order of one lane."""
    waits = [set(before) for before in plan.waits]
    return [(j, i) for j, i in dependencies(plan) if j in waits[i] or j in plan.copies or i in plan.copies]


def _reads(plan: Plan, i: int) -> Iterator[tuple[Read, str]]:
    """What action `i` reads, and the device where it reads it."""
    copy, task = plan.copies.get(i), plan.task(i)
    if copy is not None:
        yield copy.read, copy.source
    elif task is not None:
        yield from task.reads_on(plan.lanes[plan.lane_of[i]].device)

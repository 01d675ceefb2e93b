"""Several runs of one plan, submitted one after another: what the next waits for in those before.

The thread issues step k + 1 right after step k. A state that step k updated is read after its last
update, and updated after step k's reads of it. Inputs and outputs have two buffers: on every lane, step
k waits for all of step k - 2, at no cost to the thread.
"""

from __future__ import annotations

from graphsched.plan import Plan
from graphsched.simulator.columns import Columns


def repeat(columns: Columns, plan: Plan, steps: int) -> dict[int, tuple[int, ...]]:
    """Make `columns` those of `steps` runs; action i of step k becomes k · len(plan) + i.

    Returns:
        Waits on the step before the last, which cost the thread nothing, by action.
    """
    n = len(plan)
    _carry(columns, carried_waits(plan), n, steps)
    for name in ("lane", "kind", "call", "own_s", "call_s", "after_s", "launches", "work_s", "flags", "resource"):
        setattr(columns, name, getattr(columns, name) * steps)
    for name in ("company_s", "curve_of", "threads_of", "routes", "held", "shares", "pressures", "slowed"):
        by_action = getattr(columns, name)
        setattr(columns, name, {k * n + i: entry for k in range(steps) for i, entry in by_action.items()})
    if columns.graphs is not None:
        columns.graphs = columns.graphs.repeated(steps)
    firsts: dict[int, int] = {}
    lasts: dict[int, int] = {}
    for i, lane in enumerate(plan.lane_of):
        if plan.kinds[i] != "wait":
            firsts.setdefault(lane, i)
            lasts[lane] = i
    return {
        k * n + first: tuple((k - 2) * n + last for last in lasts.values())
        for k in range(2, steps)
        for first in firsts.values()
    }


def _carry(columns: Columns, carried: dict[int, tuple[int, ...]], n: int, steps: int) -> None:
    waits = list(columns.waits)
    for k in range(1, steps):
        for i, before in enumerate(columns.waits):
            own = tuple(k * n + j for j in before)
            waits.append(tuple((k - 1) * n + j for j in carried.get(i, ())) + own)
    columns.waits = waits


def carried_waits(plan: Plan) -> dict[int, tuple[int, ...]]:
    """For each action the actions of the step before that it waits for, on other lanes, by states."""
    readers, updaters = _uses(plan)
    carried: dict[int, dict[int, None]] = {}
    for root, updates in updaters.items():
        final = max(updates)
        for i in readers[root]:
            if i <= min(updates):
                carried.setdefault(i, {})[final] = None
        after = [j for j in readers[root] if j >= final]
        carried.setdefault(min(updates), {}).update(dict.fromkeys(after))
    lane = plan.lane_of
    others = {i: tuple(sorted(j for j in before if lane[j] != lane[i])) for i, before in sorted(carried.items())}
    return {i: before for i, before in others.items() if before}


def _uses(plan: Plan) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Actions that read the home of each state that is updated, and those that update it, in plan order."""
    updaters: dict[str, list[int]] = {}
    reads: dict[str, list[int]] = {}
    for i, kind in enumerate(plan.kinds):
        if kind == "copy":
            reads.setdefault(plan.copies[i].read.value.root, []).append(i)
        elif kind == "run" and (task := plan.task(i)) is not None:
            device = plan.lanes[plan.lane_of[i]].device
            for root in dict.fromkeys(r.value.root for r in task.reads if plan.homes[r.value.name] == device):
                reads.setdefault(root, []).append(i)
            for root in dict.fromkeys(v.root for v in task.updates):
                updaters.setdefault(root, []).append(i)
    return {root: reads.get(root, []) for root in updaters}, updaters

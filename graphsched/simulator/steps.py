"""Several runs of one plan, submitted one after another: what the next waits for in those before.

The thread issues step k + 1 right after step k, and each takes it some time beyond its calls: `Dispatch.step_s`, in
graph mode `graph_step_s`. A state that step k updated is read after its last
update, and updated after step k's reads of it. Inputs and outputs have two buffers: on every lane, step
k waits for all of step k - 2, at no cost to the thread. The first graph of step k + 1 starts when the last one of step
k is over (`simulator.handover`).

Not modelled: that the thread itself waits for step k - 2; that steps do not overlap where a plan returns a state.
"""

from __future__ import annotations

from graphsched.plan import OUTSIDE, Plan
from graphsched.plan.steps import carried_waits
from graphsched.simulator.columns import Columns
from graphsched.simulator.handover import handovers
from graphsched.simulator.lane_costs import CUDA, WAIT


def repeat(columns: Columns, plan: Plan, steps: int) -> dict[int, tuple[int, ...]]:
    """Make `columns` those of `steps` runs; action i of step k becomes k · len(plan) + i.

    Returns:
        Waits on the step before the last, which cost the thread nothing, by action.
    """
    n = len(plan)
    _take_longer(columns, plan.mode)
    waits, latencies_s = handovers(columns)
    carried = carried_waits(plan)
    carried |= {i: tuple(dict.fromkeys((*carried.get(i, ()), *before))) for i, before in waits.items()}
    columns.handovers = {k * n + i: row for k in range(1, steps) for i, row in latencies_s.items()}
    _carry(columns, carried, n, steps)
    for name in ("lane", "kind", "call", "own_s", "call_s", "after_s", "launches", "work_s", "flags", "resource"):
        setattr(columns, name, getattr(columns, name) * steps)
    fields = ("company", "curve_of", "threads_of", "moved", "routes", "held", "engine_of", "shares")
    for name in (*fields, "pressures", "slowed", "written", "rested", "pinnings", "more_lanes"):
        by_action = getattr(columns, name)
        setattr(columns, name, {k * n + i: entry for k in range(steps) for i, entry in by_action.items()})
    columns.to_host = frozenset(k * n + i for k in range(steps) for i in columns.to_host)
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


def _take_longer(columns: Columns, mode: str) -> None:
    """Let the first call of a step take the thread what a step takes it beyond its calls, where GPUs are in use."""
    costs, queues = columns.dispatch, columns.lanes.queue
    gpus = {queues[lane] for lane in columns.lane if queues[lane] >= 0}
    if not gpus:
        return
    longer_s = costs.graph_step_s if mode == "graph" else costs.step_s + costs.step_gpu_s * (len(gpus) - 1)
    first = next(i for i, kind in enumerate(columns.kind) if kind != WAIT)
    if columns.graphs is not None and (graph := columns.graphs.of[first]) != OUTSIDE:
        columns.own_s[columns.graphs.first[graph]] += longer_s
    elif columns.kind[first] == CUDA:
        columns.own_s[first] += longer_s
    else:
        columns.call_s[first] += longer_s


def _carry(columns: Columns, carried: dict[int, tuple[int, ...]], n: int, steps: int) -> None:
    waits = list(columns.waits)
    for k in range(1, steps):
        for i, before in enumerate(columns.waits):
            own = tuple(k * n + j for j in before)
            waits.append(tuple((k - 1) * n + j for j in carried.get(i, ())) + own)
    columns.waits = waits

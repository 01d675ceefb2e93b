"""Host time of calls beyond a row of their own: other kinds in between, other streams, memory given back.

That no call of an operation is colder than after `COMPANY_KINDS` other kinds was settled with a recording on four GPUs
in view (caps of half, one, one and a half and none were compared), which is therefore no test of it.

Not modelled: calls of CPU lanes; what the arguments of a call take that no cache holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from graphsched.costs import COMPANY_KINDS
from graphsched.plan import Copy, Plan
from graphsched.platform import Dispatch
from graphsched.platform.parts import HOST_CALLS
from graphsched.simulator.call_distance import call_distances
from graphsched.simulator.lane_costs import CUDA

if TYPE_CHECKING:
    from graphsched.simulator.columns import Columns


def in_graph(costs: Dispatch) -> Dispatch:
    """Costs of dispatch where a CUDA graph holds all actions: `launch_s` is that of the graph, the rest is free."""
    off = dict.fromkeys(HOST_CALLS, 0.0)
    launched_s = costs.graph_launch_s + costs.launch_s
    return replace(costs, **off, changes=(), launch_s=launched_s, same_device_s=costs.graph_wait_s)  # type: ignore[arg-type]


def launch_graph(columns: Columns) -> None:
    """Let the thread take the time of the launch before the first action, and none before later ones."""
    first = columns.kind.index(CUDA)
    columns.own_s[first] += columns.dispatch.launch_s
    columns.dispatch = replace(columns.dispatch, launch_s=0.0)


def call_kinds(plan: Plan) -> list[int]:
    """A number for what each action calls: an operation by its name, or a copy between two devices, and where."""
    numbers: dict[tuple[str, ...], int] = {}
    tasks = dict(plan.work.graph.nodes(data="task"))
    found = []
    for i, name in enumerate(plan.names):
        copy, task = plan.copies.get(i), tasks.get(name)
        if copy is not None:
            key: tuple[str, ...] = ("copy", copy.source, copy.target)
        else:
            what = task.signature.partition("(")[0] if task is not None else name
            key = ("run", what, plan.lanes[plan.lane_of[i]].device)
        found.append(numbers.setdefault(key, len(numbers)))
    return found


def frees_s(columns: Columns, plan: Plan) -> list[float]:
    """What giving memory back takes the thread after each action; lanes of the CPU do it themselves."""
    free_s, frees = columns.dispatch.free_s, plan.frees
    return [free_s * len(frees[i]) if kind == CUDA and i in frees else 0.0 for i, kind in enumerate(columns.kind)]


def copy_call_s(copy: Copy, plan: Plan, costs: Dispatch) -> float:
    """Host time of issuing a copy."""
    ends = (copy.source, copy.target)
    between = copy.source != copy.target and all(plan.platform.device(end).kind == "cuda" for end in ends)
    return costs.peer_copy_s if between else costs.copy_s


def add_changes(columns: Columns) -> None:
    """What a call to a stream takes longer as the first of all, for the calls of other kinds before it, and where
    the call before went to another stream: both in one for an operation that was measured after other kinds."""
    dispatch = columns.dispatch
    places = [i for i, kind in enumerate(columns.kind) if kind == CUDA] if columns.call else []
    most = min(dispatch.changes[-1][0], len(set(columns.call))) if dispatch.changes else 1
    added_s = [dispatch.change_after_s(others) for others in range(most + 1)]
    shares = [min(1.0, seconds / (dispatch.change_after_s(COMPANY_KINDS) or 1.0)) for seconds in added_s]
    before = columns.lane[places[-1]] if places else -1
    for i, others in zip(places, call_distances([columns.call[i] for i in places], most), strict=True):
        company_s, switching_s = columns.company_s.get(i, (-1.0, 0.0))
        columns.before_s[i] += added_s[others] if company_s < 0.0 else company_s * shares[others]
        if columns.lane[i] != before:
            columns.before_s[i] += switching_s * max(0.0, 1.0 - shares[others])
            before = columns.lane[i]
    if places:
        columns.before_s[places[0]] += dispatch.start_s


def queries_s(columns: Columns, end_s: Sequence[float]) -> float:
    """The thread asks lane after lane whether it is done: after the last to end, those that come behind it."""
    final = columns.final
    if len(final) < 2:
        return 0.0
    last = max(range(len(final)), key=lambda k: (end_s[final[k]], k))
    return (len(final) - 1 - last) * columns.dispatch.query_s


def warm(columns: Columns) -> Columns:
    """`columns` of a run that follows one like it: its first calls find the processor's caches as that left them."""
    first = columns.kind.index(CUDA) if columns.dispatch.start_s and CUDA in columns.kind else -1
    if first < 0:
        return columns
    before_s = list(columns.before_s)
    before_s[first] -= columns.dispatch.start_s
    return replace(columns, before_s=before_s)


def with_events(columns: Columns) -> Columns:
    """`columns` of a run with timing events, which lengthen the waits of lanes for each other."""
    edge_s, lanes = columns.dispatch.timed_edge_s, columns.lanes
    if not edge_s:
        return columns
    streams = [kind == CUDA for kind in lanes.kind]
    latency_s = [
        [seconds + edge_s * (a != b and streams[a] and streams[b]) for b, seconds in enumerate(row)]
        for a, row in enumerate(lanes.latency_s)
    ]
    return replace(columns, lanes=replace(lanes, latency_s=latency_s))

"""Joins with copies in a CUDA graph: a task that waits for its lane and for a copy of another engine starts later.

It does so even where the copy was over long before: the GPU has to find that out between two tasks. Where nothing but
the copy is waited for, or the copy comes last, that is in the edge. Of copies on one lane, which end in their order,
only the last is waited for.

Not modelled: copies that wait for a task and for other copies; that a copy was over before the graph's first task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from graphsched.plan import OUTSIDE
from graphsched.simulator.graph_edges import needed
from graphsched.simulator.graph_mode import latencies_s
from graphsched.simulator.lane_costs import CUDA

if TYPE_CHECKING:
    from graphsched.simulator.columns import Columns


def with_joins(columns: Columns) -> Columns:
    """`columns`, with what joins with copies cost their tasks in graphs."""
    graphs, costs, lanes = columns.graphs, columns.dispatch, columns.lanes
    each_s = dict.fromkeys(lanes.host_copies, costs.graph_copy_join_s) | dict.fromkeys(
        lanes.peers, costs.graph_peer_join_s
    )
    if graphs is None or not any(each_s.values()):
        return columns
    before = needed(columns.waits, columns.lane, columns.kind)
    found: dict[int, float] = {}
    for i, k in enumerate(graphs.of):
        if k == OUTSIDE or columns.kind[i] != CUDA or columns.lane[i] in each_s:
            continue
        waited = [columns.lane[j] for j in before[i] if graphs.of[j] == k]
        joins_s = sorted(each_s[lane] for lane in waited if lane in each_s)
        if later_s := sum(joins_s if len(joins_s) < len(waited) else joins_s[:-1]):
            found[i] = later_s
    return replace(columns, joins_s=found)


def join_of_s(columns: Columns, i: int) -> float:
    """What action `i` is later for copies that it joins, beside copies from the host (`loaded_edges`) longer; or 0."""
    join_s = columns.joins_s.get(i, 0.0)
    return join_s + columns.join_loads_s.get(i, 0.0) if join_s else 0.0


def joined_s(columns: Columns, i: int, ready_s: float, end_s: Sequence[float]) -> float:
    """When task `i`, which joins copies, may start: behind all but the copy that comes last by what that costs, too."""
    lanes, lane, previous = columns.lanes, columns.lane, columns.previous[i]
    latency_s, join_s = latencies_s(columns, i), join_of_s(columns, i)
    found_s, last_s = ready_s if previous < 0 else max(ready_s, end_s[previous] + join_s), -inf
    for j in columns.waits[i]:
        seen_s = end_s[j] + latency_s[lane[j]]
        if lane[j] in lanes.peers or lane[j] in lanes.host_copies:
            seen_s, last_s = min(seen_s, last_s), max(seen_s, last_s)
        found_s = max(found_s, seen_s + join_s)
    return max(found_s, last_s)

"""Joins with copies in a CUDA graph: a task that waits for its lane and for a copy of another engine starts later.

It does so even where the copy was over long before: the GPU has to find that out between two tasks. Where nothing but
the copy is waited for, that is in the edge. Of copies on one lane, which end in their order, only the last is waited
for.

Not modelled: copies that wait for a task and for other copies; that a copy was over before the graph's first task.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from graphsched.plan import OUTSIDE
from graphsched.simulator.graph_edges import needed
from graphsched.simulator.lane_costs import CUDA

if TYPE_CHECKING:
    from graphsched.simulator.columns import Columns


def with_joins(columns: Columns) -> Columns:
    """`columns`, their tasks in graphs later by what joins with copies cost."""
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

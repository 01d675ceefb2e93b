"""CUDA graphs that begin or end with copies between GPUs: such a copy starts later than a kernel would in its place,
and the thread sees later that it is over.

In a timed run there is an event before the copy and one behind it, so neither is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from graphsched.plan import OUTSIDE
from graphsched.simulator.graph_edges import needed

if TYPE_CHECKING:
    from graphsched.simulator.columns import Columns


def with_late_roots(columns: Columns) -> Columns:
    """`columns` of a run without timing events: copies between GPUs that a graph begins with start later."""
    graphs, late_s, peers = columns.graphs, columns.dispatch.graph_peer_first_s, columns.lanes.peers
    if graphs is None or not late_s or not peers:
        return columns
    before = needed(columns.waits, columns.lane, columns.kind)
    spread_s = list(graphs.spread_s) or [0.0] * len(columns)
    for i, k in enumerate(graphs.of):
        if k != OUTSIDE and columns.lane[i] in peers and all(graphs.of[j] != k for j in before[i]):
            spread_s[i] += late_s
    return replace(columns, graphs=replace(graphs, spread_s=spread_s))


def without_late_ends(columns: Columns) -> Columns:
    """`columns` of a timed run: an event ends each graph."""
    return replace(columns, dispatch=replace(columns.dispatch, graph_peer_last_s=0.0))


def last_s(columns: Columns, last: int) -> float:
    """How much later the thread sees the end of action `last` than that of a kernel."""
    if columns.graphs is None or columns.lane[last] not in columns.lanes.peers:
        return 0.0
    return columns.dispatch.graph_peer_last_s

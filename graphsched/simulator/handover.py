"""How a CUDA graph follows the one launched before it, far ahead of what the GPUs carry out.

On one GPU its first nodes are nodes like others: behind the last on their lane, an edge behind those on other lanes. A
graph over several GPUs comes back to the GPU that it is launched on: this waits for the last nodes of all others, tells
the others of the next graph one after another, each of which takes as long as it does in a single launch
(`graph_across_start_s`), and only then begins itself; the others begin an edge later. With 100 tiny tasks on each of 2,
3 and 4 H200s graphs followed each other every 118.6, 123.2 and 125.6 µs, on one of them 107.3: 11.3, 15.9 and 18.3
more, where two edges and the further GPUs come to 11.6, 14.9 and 18.3; with the long chain on the first GPU alone 2.9,
5.8 and 9.3, where the further GPUs come to 3.3, 6.7 and 10.0 (docs/graph-mode.md).

Not modelled: that who waits looks now and then (`simulator.looks`), which makes single handovers some µs longer or
shorter; in which order the others are told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphsched.simulator.graph_launches import further_gpus
from graphsched.simulator.graph_mode import inside
from graphsched.simulator.lane_costs import CUDA

if TYPE_CHECKING:
    from graphsched.simulator.columns import Columns

Waits = dict[int, tuple[int, ...]]


def handovers(columns: Columns) -> tuple[Waits, dict[int, list[float]]]:
    """What the first nodes of a step's first graph wait for in the step before, and how long behind its end.

    Returns:
        The last nodes of that step's last graph, by first node; of graphs over several GPUs the latency of these waits
        by lane, where elsewhere they are edges like others.
    """
    graphs, here = columns.graphs, columns.launching
    if graphs is None:
        return {}, {}
    across = here >= 0 and any(further := further_gpus(columns, graphs))
    lasts = {columns.lane[i]: i for i, k in enumerate(graphs.of) if _is_node(columns, i) and k == len(graphs.first) - 1}
    waits: Waits = {}
    latencies_s: dict[int, list[float]] = {}
    for i in _first_nodes(columns):
        own = columns.lane[i]
        waits[i] = tuple(j for lane, j in lasts.items() if across or lane != own)
        if across:
            edges_s = columns.lanes.latency_s
            begun_s = columns.dispatch.graph_across_start_s * further[0]
            told_s = begun_s + (edges_s[own][here] if own != here else 0.0)
            latencies_s[i] = [seen_s + told_s for seen_s in edges_s[here]]
    return waits, latencies_s


def _first_nodes(columns: Columns) -> Iterator[int]:
    """What waits for nothing in the first graph, by lane."""
    begun: set[int] = set()
    for i, k in enumerate(columns.graphs.of if columns.graphs is not None else ()):
        if k == 0 and _is_node(columns, i) and columns.lane[i] not in begun:
            begun.add(columns.lane[i])
            if not any(_is_node(columns, j) for j in columns.waits[i]):
                yield i


def _is_node(columns: Columns, i: int) -> bool:
    return columns.kind[i] == CUDA and inside(columns, i)

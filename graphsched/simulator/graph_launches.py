"""How the thread launches a CUDA graph: piece after piece, while the GPUs begin.

A node starts no sooner than the thread has come to it, and each that waits for nothing takes it some time, in the order
of the actions. What follows nodes of its own GPU alone is launched together with them, on whatever lanes they are: of a
graph on one GPU, lanes that begin at once come one after another, those that branch off later all together.

Over several GPUs the thread makes streams wait for each other as it would have to without a graph, so each copy, with
another GPU or with the host, and each edge from one GPU to another takes it some time, too. A further GPU takes it some
of its own, a part of it before the first node. A copy with the host that follows something of its GPU starts with that,
as recorded ones do.

Nodes that wait for nothing take it longer on other GPUs than on the one that the graph is launched on, where they are
lanes like those of a graph on one GPU: 2.8 and 0.8 µs over two H200s. Where the latter is unknown all count alike.

A copy takes less than an edge, and an edge the longer the more GPUs the graph is on: 1.3 and 2.2 µs over two H200s,
1.0 and 3.6 over four. Where copies were not measured apart, a copy and the edge behind it count half of both each;
where those with the host were not, they count as copies between GPUs. That edges between lanes of one GPU take nothing
was read from the launches of 44 plans on two GPUs (docs/graph-mode.md).

What a node waits for is taken without what follows from the rest, as in `simulator.graph_edges`. A timing event of a
graph over several is a node that counts as an edge; of the two around an action the thread comes to one before it.

Not modelled: what a node takes by itself; in which order CUDA launches what the plan orders otherwise; lanes that
change with every node over several GPUs, as stamps make them do.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from graphsched.plan import OUTSIDE
from graphsched.simulator.graph_edges import needed
from graphsched.simulator.graph_segments import Replays
from graphsched.simulator.lane_costs import CUDA

if TYPE_CHECKING:
    from graphsched.platform import Dispatch
    from graphsched.simulator.columns import Columns


def further_gpus(columns: Columns, graphs: Replays) -> list[int]:
    """On how many GPUs beyond the first each graph has actions."""
    gpus: list[set[int]] = [set() for _ in graphs.first]
    for i, k in enumerate(graphs.of):
        if k != OUTSIDE and columns.kind[i] == CUDA:
            gpus[k].add(columns.lanes.queue[columns.lane[i]])
    return [max(0, len(found) - 1) for found in gpus]


def spread(columns: Columns, graphs: Replays, events: Collection[int] = (), each: int = 0) -> Replays:
    """`graphs`, launched piece after piece.

    Args:
        columns: With the waits that the graphs hold.
        graphs: With the number of their GPUs.
        events: Actions that have so many timing events (`each`).
    """
    costs = columns.dispatch
    further = [gpus - 1 if known_across(costs) else 0 for gpus in graphs.gpus]
    if not (costs.graph_root_s or any(further)):
        return replace(graphs, spread_s=(), longer_s=())
    spread_s, longer_s = [0.0] * len(graphs.of), [0.0] * len(graphs.first)
    queue = columns.lanes.queue  # one of each GPU
    before = needed(columns.waits, columns.lane, columns.kind)
    roots = [0] * len(graphs.first)
    by_copy_s, timed = _copies_s(columns, costs), frozenset(events)
    here = queue[columns.launching]
    for i, k in enumerate(graphs.of):
        if k == OUTSIDE or columns.kind[i] != CUDA:
            continue
        inside = [j for j in before[i] if graphs.of[j] == k]
        gpu = queue[columns.lane[i]]
        edges, copy_s, stamped = 0, 0.0, 0
        if further[k]:
            edges = sum(queue[columns.lane[j]] != gpu for j in inside)
            copy_s, stamped = by_copy_s.get(columns.lane[i], 0.0), each if i in timed else 0
        longer_s[k] += edges * (costs.graph_across_edge_s + costs.graph_across_more_s * (further[k] - 1))
        events_s = stamped * costs.graph_across_edge_s / 2
        longer_s[k] += events_s + copy_s
        if not inside:
            roots[k] += 1
            alone = not further[k] or (costs.graph_root_s and gpu == here)
            root_s = costs.graph_root_s if alone else costs.graph_across_root_s
            longer_s[k] += root_s * (roots[k] > 1)  # the first is in what any graph takes
        own = columns.lane[i] in columns.lanes.host_copies or not (copy_s or stamped)
        together = bool(inside) and not edges and own
        spread_s[i] = max(spread_s[j] for j in inside) if together else longer_s[k]
        longer_s[k] += events_s
    longer_s = [seconds + costs.graph_across_s * gpus for seconds, gpus in zip(longer_s, further, strict=True)]
    return replace(graphs, spread_s=spread_s, longer_s=longer_s)


def _copies_s(columns: Columns, costs: Dispatch) -> dict[int, float]:
    """What each copy takes the thread in a graph over several GPUs, by lane."""
    peer_s = costs.graph_across_copy_s or costs.graph_across_edge_s
    with_host = dict.fromkeys(columns.lanes.host_copies, costs.graph_across_host_copy_s or peer_s)
    return with_host | dict.fromkeys(columns.lanes.peers, peer_s)


def known_across(costs: Dispatch) -> bool:
    """Whether it is known what launching over several GPUs takes longer; else it is taken to be as on one."""
    return any((costs.graph_across_s, costs.graph_across_root_s, costs.graph_across_edge_s))

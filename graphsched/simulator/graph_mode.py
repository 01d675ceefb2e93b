"""What CUDA graphs that hold the actions of a plan cost: a launch each, then what nodes take on the device.

The thread's calls for what a graph holds cost nothing, for they were made before; the launch takes the host some time,
and the first nodes start some time after it began, which grows with the nodes. A task takes what it was measured to
take inside a graph, an edge what `simulator.graph_edges` says. Nodes of several lanes of a device start one after
another, at measured least distances. Copies take longer or shorter than in a stream by a measured time. What tasks
on a CPU cut a plan into are graphs that follow one another, see `plan.segments`; between them the thread works as it
does in eager mode.

Timing events are nodes too, and so are the stamps that take their place (`plan.stamped` says where), see
`simulator.event_nodes`.

A graph is launched piece after piece, and one over several GPUs starts later (`simulator.graph_launches`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from graphsched.plan import OUTSIDE, Copy, Plan, Segments
from graphsched.platform import Dispatch, Link
from graphsched.platform.graph_costs import GRAPH_COPY_BYTES
from graphsched.platform.pace import HOST_CALLS
from graphsched.simulator.graph_edges import chained, joined
from graphsched.simulator.graph_launches import further_gpus, spread
from graphsched.simulator.graph_segments import replays_of, waits_between
from graphsched.simulator.lane_costs import CUDA

if TYPE_CHECKING:
    from graphsched.simulator.columns import Columns

CHAINED = 8  # flag: the action and the one on another lane that it waits for are links of one chain
EMPTY = 16  # flag: the task launches nothing, so no graph has a node for it
PASSED = 32  # flag: … and what waits for it waits for what it waits for


def in_graph(costs: Dispatch, *, whole: bool, stamps: bool, memory_bytes: int = 0) -> Dispatch:
    """Costs of dispatch where CUDA graphs hold actions, all of them if it is the `whole` plan: calls are free then.

    With `stamps` there are no timing events around tasks in graphs, which work on so much memory of a GPU; without
    them `graph_stamp_s` is 0.
    """
    found = replace(costs, same_device_s=max(costs.graph_wait_s, costs.graph_fork_s))
    if whole:
        found = replace(found, **dict.fromkeys(HOST_CALLS, 0.0), changes=())  # type: ignore[arg-type]
    if stamps:
        stamp_s = costs.stamp_s(memory_bytes)
        return replace(found, graph_stamp_s=stamp_s, timed_gap_s=2 * stamp_s, timed_edge_s=0.0, graph_event_rates=())
    found = replace(found, graph_stamp_s=0.0)
    if costs.graph_event_s:
        found = replace(found, timed_gap_s=2 * costs.graph_event_s, timed_edge_s=costs.graph_timed_edge_s)
    return found


def launch_graphs(columns: Columns, segments: Segments) -> None:
    """Make the columns those of graphs: a launch before the first action of each, edges of chains, joins for waits."""
    lane, kind = columns.lane, columns.kind
    empty = [flags & EMPTY for flags in columns.flags]
    graphs = replays_of(segments, kind, [0 if none else n for n, none in zip(columns.launches, empty, strict=True)])
    hosts_s = [_host_s(columns.dispatch, nodes) for nodes in graphs.nodes]
    lanes: list[dict[int, None]] = [{} for _ in hosts_s]
    for i, k in enumerate(graphs.of):
        if k != OUTSIDE:
            columns.own_s[i] = columns.call_s[i] = columns.after_s[i] = 0.0
            if kind[i] == CUDA and not empty[i]:
                lanes[k][lane[i]] = None
    further = further_gpus(columns, graphs)
    sizes = zip(graphs.nodes, map(len, lanes), further, strict=True)
    starts_s = [_start_s(columns.dispatch, *size) for size in sizes]
    for i, host_s, start_s in zip(graphs.first, hosts_s, starts_s, strict=True):
        columns.own_s[i] = min(host_s, start_s)
    delays_s = [max(0.0, start_s - host_s) for host_s, start_s in zip(hosts_s, starts_s, strict=True)]
    later_s = [delay_s - columns.dispatch.launch_s for delay_s in delays_s]
    graphs = replace(graphs, later_s=later_s, gpus=[1 + more for more in further])
    waits = joined(columns.waits, lane, kind, graphs.of)
    columns.waits = waits_between(waits, segments, lane, kind)
    columns.graphs = spread(columns, graphs)
    flag_chains(columns)


def flag_chains(columns: Columns) -> None:
    """Mark the actions of graphs that are links of one chain with what they wait for."""
    for i in chained(columns.waits, columns.lane, columns.kind):
        if inside(columns, i):
            columns.flags[i] |= CHAINED


def _host_s(dispatch: Dispatch, nodes: int) -> float:
    return dispatch.graph_launch_s + dispatch.graph_launch_node_s * nodes


def _start_s(dispatch: Dispatch, nodes: int, lanes: int, further: int) -> float:
    """From the launch of a graph on so many GPUs beyond the first to its first node."""
    lanes_s = dispatch.graph_lane_s * max(0, lanes - 1) if not dispatch.graph_root_s else 0.0
    return dispatch.graph_start_s(nodes) + lanes_s + dispatch.graph_across_start_s * further


def inside(columns: Columns, i: int) -> bool:
    """Whether a CUDA graph holds action `i`."""
    return columns.graphs is not None and columns.graphs.of[i] != OUTSIDE


def held(columns: Columns) -> list[list[int]]:
    """Of each CUDA graph, the actions on streams that it holds."""
    found: list[list[int]] = [[] for _ in (columns.graphs.first if columns.graphs else ())]
    for i, kind in enumerate(columns.kind):
        if columns.graphs and kind == CUDA and inside(columns, i):
            found[columns.graphs.of[i]].append(i)
    return found


def latencies_s(columns: Columns, i: int) -> list[float]:
    """By lane, the latency of a wait of action `i` for an action there."""
    if i in columns.handovers:
        return columns.handovers[i]
    lanes, flags = columns.lanes, columns.flags[i]
    if flags & PASSED:
        return [0.0] * len(lanes.kind)
    found = (lanes.chained_s if flags & CHAINED else lanes.latency_s)[columns.lane[i]]
    for longer_s in (columns.by_chance_s.get(i), columns.loads_s.get(i)):
        if longer_s:
            found = [latency_s + longer_s.get(lane, 0.0) for lane, latency_s in enumerate(found)]
    return found


def copy_shift_s(copy: Copy, link: Link, plan: Plan) -> float:
    """What `copy` takes longer inside a graph than in a stream; negative if it is shorter, 0 if that is unknown."""
    kinds = [plan.platform.device(end).kind for end in (copy.source, copy.target)]
    dispatch = plan.platform.dispatch
    if copy.source == copy.target or plan.mode != "graph":
        return 0.0
    if kinds == ["cuda", "cuda"]:
        taken_s = dispatch.graph_peer_copy_s
    else:
        taken_s = dispatch.graph_copy_out_s if kinds[0] == "cuda" else dispatch.graph_copy_in_s
    return taken_s - link.duration_s(GRAPH_COPY_BYTES) if taken_s else 0.0

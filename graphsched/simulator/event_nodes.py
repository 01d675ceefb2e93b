"""Timing events inside CUDA graphs, or stamps in their place.

An action has an event before and one behind it. In a graph of several lanes a device serves the events of all of them
one by one, while kernels run: each waits for those before it, first come, first served, and the more lanes have
something left to do, be it a wait for others, the longer each takes. So branches of a task start one after another.

::

    lane 0   =|--work--|=   =|--work--|=          = : an event, one of all lanes at a time
    lane 1    =|--work--|=    =|--work--|=

In a graph of one lane the two events between actions follow each other, and are taken to be at the end of the first.
A graph with events on one GPU starts as it does without; each makes its launch longer for the thread, while nodes
start. Of one over several one event is launched before the first node.

Stamps are kernels of one thread, and stand around tasks; copies on lanes of their own have events then. A stamp takes
its time on its lane, and starts after nodes of other lanes as any node does (`simulator.gate`), two more for each task.
With more lanes in use it takes longer, by as much as a tiny node does there. A graph of so many nodes on one GPU starts
no sooner than one of fewer, nor before it is launched; one over several begins while it is.

Not modelled: events that take longer while the thread still launches their graph; events that hold up kernels of other
lanes; the launch of events around copies of a graph with stamps, and that they pass in turn; the part of a
multiprocessor that a stamp takes, and its wait for room; GPUs of one plan with more lanes in use than others, whose
stamps all take as long as those of the most; spans that end a stamp before the next begins: here they end as it does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from graphsched.platform import Dispatch
from graphsched.simulator.graph_launches import known_across, spread
from graphsched.simulator.graph_mode import inside
from graphsched.simulator.lane_costs import CUDA

if TYPE_CHECKING:
    from graphsched.plan import Plan
    from graphsched.simulator.columns import Columns

EVENTS = 2  # around each action, or stamps


def with_event_nodes(columns: Columns, plan: Plan) -> Columns:
    """`columns` of a timed run of `plan`: events pass in turn, stamps as nodes do."""
    graphs = columns.graphs
    if graphs is None or not columns.dispatch.timed_gap_s:  # unknown, or switched off
        return columns
    held = [i for i, kind in enumerate(columns.kind) if kind == CUDA and inside(columns, i)]
    if columns.dispatch.graph_stamp_s:
        return _with_stamps(columns, held, plan)
    return _in_turn(_launched(replace(columns, graphs=spread(columns, graphs, held, EVENTS)), held), held)


def _with_stamps(columns: Columns, held: list[int], plan: Plan) -> Columns:
    assert columns.graphs is not None
    nodes, dispatch = list(columns.launches), columns.dispatch
    tasks = {i for i in held if plan.lanes[columns.lane[i]].kind == "compute"}
    for i in tasks:
        nodes[i] += EVENTS
    gap_s = dispatch.timed_gap_s + EVENTS * _beside_s(columns)
    late_s = EVENTS * dispatch.graph_event_s - gap_s
    copies = {i: late_s for i in held if i not in tasks and late_s > 0.0}
    later = replace(columns.graphs, later_s=_later_s(columns, held, partial(_stamped_start_s, dispatch)))
    later = spread(columns, later, [i for i in held if i not in tasks], EVENTS)
    costs = replace(dispatch, timed_gap_s=gap_s)
    return replace(columns, graphs=later, launches=nodes, dispatch=costs, late_events_s=copies)


def _beside_s(columns: Columns) -> float:
    """What a stamp takes longer beside nodes of other lanes: as much as a tiny node, where lanes take turns."""
    lanes: dict[int, dict[int, None]] = {pool: {} for pool in columns.spacing_s}
    for lane, pool in zip(columns.lane, columns.resource, strict=True):
        if pool in lanes:
            lanes[pool][lane] = None
    steps_s = [len(used) * columns.spacing_s[pool] for pool, used in lanes.items()]
    return max([0.0, *(step_s - columns.dispatch.graph_node_s for step_s in steps_s)])


def _stamped_start_s(dispatch: Dispatch, nodes: int) -> float:
    """From the launch of a graph with stamps to the start of its first node."""
    fewer_s = [seconds for number, seconds in dispatch.graph_starts if number < nodes]
    launch_s = dispatch.graph_launch_s + dispatch.graph_launch_node_s * nodes
    return max(dispatch.graph_start_s(nodes), launch_s, *fewer_s)


def _later_s(columns: Columns, held: list[int], start_s: Callable[[int], float]) -> list[float]:
    """By graph, when it starts with stamps, so many nodes more: `start_s` of its nodes says it."""
    graphs = columns.graphs
    assert graphs is not None
    events = [0] * len(graphs.nodes)
    for i in held:
        events[graphs.of[i]] += EVENTS
    without_s = columns.dispatch.graph_start_s
    whole = _handed_over(columns)
    sizes = zip(graphs.nodes, events, whole, strict=True)
    more_s = [max(0.0, start_s(n + e) - without_s(n)) if together else 0.0 for n, e, together in sizes]
    return [s + more for s, more in zip(graphs.later_s, more_s, strict=True)]


def _handed_over(columns: Columns) -> list[bool]:
    """Of each graph whether its nodes are launched before the first may start, but for those that wait for nothing."""
    assert columns.graphs is not None
    return [gpus == 1 or not known_across(columns.dispatch) for gpus in columns.graphs.gpus]


def _launched(columns: Columns, held: list[int]) -> Columns:
    """`columns` where the thread launches the events of graphs on one GPU, too; nodes start as soon as without."""
    graphs, each_s = columns.graphs, EVENTS * columns.dispatch.graph_launch_event_s
    assert graphs is not None
    own_s, later_s = list(columns.own_s), list(graphs.later_s)
    whole = _handed_over(columns)
    for i in [i for i in held if whole[graphs.of[i]]]:
        own_s[graphs.first[graphs.of[i]]] += each_s
        later_s[graphs.of[i]] -= each_s
    return replace(columns, own_s=own_s, graphs=replace(graphs, later_s=later_s))


def _in_turn(columns: Columns, held: list[int]) -> Columns:
    """`columns` where the events of several lanes of a graph on a device are served one by one."""
    assert columns.graphs is not None
    ends: dict[tuple[int, int], dict[int, int]] = {}  # by graph and device, the last action of each lane
    for i in held:
        ends.setdefault(_where(columns, i), {})[columns.lane[i]] = i
    served = [where for where, lanes in ends.items() if columns.dispatch.graph_event_rate_s(len(lanes))]
    number = {where: k for k, where in enumerate(served)}
    return replace(
        columns,
        event_lanes=[len(ends[where]) for where in served],
        events_of={i: number[where] for i in held if (where := _where(columns, i)) in number},
        event_ends=frozenset(i for where in served for i in ends[where].values()),
    )


def _where(columns: Columns, i: int) -> tuple[int, int]:
    """Graph and device of action `i`."""
    assert columns.graphs is not None
    return columns.graphs.of[i], columns.lanes.queue[columns.lane[i]]

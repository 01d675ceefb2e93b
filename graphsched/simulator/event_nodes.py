"""Timing events inside CUDA graphs, or stamps in their place: nodes that delay the start.

An action has an event before and one behind it. A device serves such nodes of all its lanes one by one, while kernels
of other lanes run. The event behind an action and the one before the next on its lane are taken as one stop, at
the end of the action's work: there it waits for those of other lanes before it, first come, first served.

::

    lane 0   |--work--|==|--work--|   |==|
    lane 1   |--work--|  |==|--work--|   |==|       == : two events of one lane at a time

Stamps are kernels of one thread: they take their time on their lane, and start after nodes of other lanes as any node
does (`simulator.gate`), two more for each action.

Not modelled: events that hold up kernels of other lanes; the two of a stop coming apart; the part of a multiprocessor
that a stamp takes, and its wait for room; stamps around copies, which keep no node of other lanes waiting.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from graphsched.simulator.graph_mode import inside
from graphsched.simulator.lane_costs import CUDA

if TYPE_CHECKING:
    from graphsched.simulator.columns import Columns

EVENTS = 2  # around each action, or stamps


def with_event_nodes(columns: Columns) -> Columns:
    """`columns` of a timed run: graphs have more nodes and start later; events pass in turn, stamps as nodes do."""
    if columns.graphs is None:
        return columns
    held = [i for i, kind in enumerate(columns.kind) if kind == CUDA and inside(columns, i)]
    later = replace(columns.graphs, later_s=_later_s(columns, held))
    if columns.dispatch.graph_stamp_s:
        return replace(columns, graphs=later, launches=_with_stamps(columns, held))
    spacing_s = _spacing_s(columns, held)
    gates = {i: device for i in held if (device := _device(columns, i)) in spacing_s}
    return replace(columns, graphs=later, event_gates=gates, event_spacing_s=spacing_s)


def _with_stamps(columns: Columns, held: list[int]) -> list[int]:
    """Nodes of each action, its stamps included."""
    nodes = list(columns.launches)
    for i in held:
        nodes[i] += EVENTS
    return nodes


def _later_s(columns: Columns, held: list[int]) -> list[float]:
    graphs, start_s = columns.graphs, columns.dispatch.graph_start_s
    assert graphs is not None
    events = [0] * len(graphs.nodes)
    for i in held:
        events[graphs.of[i]] += EVENTS
    more_s = [max(0.0, start_s(n + e) - start_s(n)) for n, e in zip(graphs.nodes, events, strict=True)]
    return [s + more for s, more in zip(graphs.later_s, more_s, strict=True)]


def _spacing_s(columns: Columns, held: list[int]) -> dict[int, float]:
    """By device whose events hold each other up: the least time from one to the next."""
    lanes: dict[int, dict[int, None]] = {}
    for i in held:
        lanes.setdefault(_device(columns, i), {})[columns.lane[i]] = None
    dispatch = columns.dispatch
    found = {device: dispatch.graph_event_rate_s(len(used)) for device, used in lanes.items()}
    return {device: rate_s for device, rate_s in found.items() if rate_s and dispatch.timed_gap_s}


def _device(columns: Columns, i: int) -> int:
    return columns.lanes.queue[columns.lane[i]]

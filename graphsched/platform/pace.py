"""Figures of `Dispatch` that go with the speed of the dispatching thread's core, which changes within minutes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphsched.platform.dispatch import Dispatch

HOST_CALLS = (
    "run_s", "copy_s", "copy_out_s", "peer_copy_s", "change_s", "free_s", "record_s", "wait_s", "device_wait_s",
    "switch_s", "device_switch_s", "timed_record_s", "handoff_s", "start_s", "first_s", "cold_s", "query_s", "asked_s",
    "blocking_in_s", "blocking_out_s", "fresh_out_s", "first_in_s", "first_out_s", "first_peer_s",
    "copy_company_s", "copy_out_company_s", "peer_company_s", "put_s", "step_s", "step_gpu_s",
)  # fmt: skip
"""Fields of `Dispatch` that are host time of the dispatching thread's calls."""

GRAPH_LAUNCHES = (
    "graph_launch_s", "graph_launch_node_s", "graph_across_s", "graph_across_start_s", "graph_across_root_s",
    "graph_across_edge_s", "graph_across_copy_s", "graph_across_more_s", "graph_launch_event_s",
    "graph_step_s",
)  # fmt: skip
"""Fields of `Dispatch` that are the thread's time for launching a CUDA graph."""


def at_pace(costs: Dispatch, call_s: float, colds: tuple[tuple[int, float], ...]) -> Dispatch:
    """See `Dispatch.at`."""
    if not (costs.call_s and call_s):
        return costs
    pace = call_s / costs.call_s
    scaled: dict[str, Any] = {name: getattr(costs, name) * pace for name in HOST_CALLS + GRAPH_LAUNCHES}
    starts = tuple(
        (nodes, seconds + (pace - 1.0) * min(seconds, _launch_s(costs, nodes))) for nodes, seconds in costs.graph_starts
    )
    changes = tuple((k, seconds * pace) for k, seconds in costs.changes)
    colds = colds or tuple((k, seconds * pace) for k, seconds in costs.colds)
    return replace(costs, **scaled, changes=changes, graph_starts=starts, colds=colds, call_s=call_s)


def _launch_s(costs: Dispatch, nodes: int) -> float:
    """What of a graph's start is the thread's: its launch. The rest is the GPU's, and the way there and back."""
    return costs.graph_launch_s + costs.graph_launch_node_s * nodes

"""Figures of `Dispatch` that go with the speed of the dispatching thread's core, which changes within minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphsched.platform.points import Points

if TYPE_CHECKING:
    from graphsched.platform.dispatch import Dispatch

HOST_CALLS = (
    "run_s", "copy_s", "copy_out_s", "peer_copy_s", "change_s", "free_s", "record_s", "wait_s", "device_wait_s",
    "switch_s", "device_switch_s", "timed_record_s", "handoff_s", "start_s", "first_s", "cold_s", "query_s", "asked_s",
    "blocking_in_s", "blocking_out_s", "fresh_out_s", "first_in_s", "first_out_s", "first_peer_s",
    "copy_company_s", "copy_out_company_s", "peer_company_s", "put_s", "step_s", "step_gpu_s",
)  # fmt: skip
"""Fields of `Dispatch` that are host time of the dispatching thread's calls."""

GRAPH_CALLS = ("graph_step_s",)
"""Fields of `Dispatch` that are its time for calls around launches of CUDA graphs."""

LAUNCHES = "graph_launch_s", "graph_launch_node_s", "graph_launch_event_s"
"""Fields of `Dispatch` that are the thread's time for launching a CUDA graph on one GPU."""

LAUNCHES_ACROSS = (
    "graph_across_s", "graph_across_start_s", "graph_across_root_s", "graph_across_edge_s", "graph_across_copy_s",
    "graph_across_more_s",
)  # fmt: skip
"""Fields of `Dispatch` that are what launching takes it longer over several GPUs."""

LAUNCH_COLDS = "graph_colds", "graph_across_colds"
"""Fields of `Dispatch` that are what launches take longer after waits, on one GPU and over several."""


def at_pace(
    costs: Dispatch, call_s: float, colds: Points, launches: Points, launch_colds: Sequence[Points]
) -> Dispatch:
    """See `Dispatch.at`."""
    if not (costs.call_s and call_s):
        return costs
    pace = call_s / costs.call_s
    alone, across = (_launch_pace(costs.graph_launches, launches, gpus, pace) for gpus in (1, 2))
    scaled: dict[str, Any] = {name: getattr(costs, name) * pace for name in HOST_CALLS + GRAPH_CALLS}
    scaled |= {name: getattr(costs, name) * alone for name in LAUNCHES}
    scaled |= {name: getattr(costs, name) * across for name in LAUNCHES_ACROSS}
    longer = alone - 1.0
    starts = tuple((n, seconds + longer * min(seconds, _launch_s(costs, n))) for n, seconds in costs.graph_starts)
    changes = tuple((k, seconds * pace) for k, seconds in costs.changes)
    colds = colds or tuple((k, seconds * pace) for k, seconds in costs.colds)
    launches = launches or tuple((k, seconds * pace) for k, seconds in costs.graph_launches)
    tables: dict[str, Any] = {"changes": changes, "graph_starts": starts, "colds": colds, "graph_launches": launches}
    for k, name in enumerate(LAUNCH_COLDS):
        now = launch_colds[k] if k < len(launch_colds) else ()
        tables[name] = now or tuple((us, seconds * pace) for us, seconds in getattr(costs, name))
    return replace(costs, **scaled, **tables, call_s=call_s)


def _launch_pace(before: Points, now: Points, gpus: int, pace: float) -> float:
    """How many times as long a launch over so many GPUs takes now; `pace` where that was not measured."""
    before_s, now_s = dict(before).get(gpus, 0.0), dict(now).get(gpus, 0.0)
    return now_s / before_s if before_s and now_s else pace


def _launch_s(costs: Dispatch, nodes: int) -> float:
    """What of a graph's start is the thread's: its launch. The rest is the GPU's, and the way there and back."""
    return costs.graph_launch_s + costs.graph_launch_node_s * nodes

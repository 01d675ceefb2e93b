"""Figures of `Dispatch` that go with the speed of the dispatching thread's core, which changes within minutes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from graphsched.platform.points import Points

if TYPE_CHECKING:
    from graphsched.platform.dispatch import Dispatch

HOST_CALLS = (
    "run_s", "copy_s", "copy_out_s", "peer_copy_s", "change_s", "free_s", "record_s", "wait_s", "device_wait_s",
    "switch_s", "device_switch_s", "timed_record_s", "handoff_s", "start_s", "first_s", "cold_s", "query_s", "asked_s",
    "blocking_in_s", "blocking_out_s", "fresh_out_s", "first_in_s", "first_out_s", "first_peer_s",
    "copy_company_s", "copy_out_company_s", "peer_company_s", "put_s", "step_s", "step_gpu_s",
    "message_s", "first_message_s",
)  # fmt: skip
"""Fields of `Dispatch` that are host time of the dispatching thread's calls."""

GRAPH_CALLS = ("graph_step_s",)
"""Fields of `Dispatch` that are its time for calls around launches of CUDA graphs."""

LAUNCHES = "graph_launch_s", "graph_launch_node_s", "graph_launch_event_s", "graph_root_s"
"""Fields of `Dispatch` that are the thread's time for launching a CUDA graph on one GPU."""

LAUNCHES_ACROSS = (
    "graph_across_s", "graph_across_start_s", "graph_across_root_s", "graph_across_edge_s", "graph_across_copy_s",
    "graph_across_host_copy_s", "graph_across_more_s",
)  # fmt: skip
"""Fields of `Dispatch` that are what launching takes it longer over several GPUs."""

POWERS = {
    "copy_s": 1.21, "copy_out_s": 1.22, "free_s": 1.63, "record_s": 1.52, "wait_s": 1.52, "switch_s": 1.77,
    "device_switch_s": 0.96, "timed_record_s": 1.43, "handoff_s": 0.53, "start_s": 1.13, "query_s": 0.62,
    "asked_s": 0.64, "blocking_in_s": 0.85, "blocking_out_s": 0.73, "fresh_out_s": 0.77, "copy_company_s": 1.40,
    "copy_out_company_s": 1.40, "peer_company_s": 1.28, "step_s": 0.96, "graph_step_s": 1.23, "graph_launch_s": 0.98,
    "graph_root_s": 0.80, "graph_launch_event_s": 0.81, "graph_across_s": 0.71, "graph_across_start_s": 0.32,
    "graph_across_root_s": 0.86, "graph_across_edge_s": 0.99, "graph_across_copy_s": 0.83,
}  # fmt: skip
"""As which power of its yardstick a field above goes, where that is known to within `POWER_ERROR`; else in proportion.

Read off calibrations of slow and fast hosts, in which no plan has a part: `python -m tests.simulator.readings`. What
tasks' own calls take goes in proportion, but of what lies between them much more is CUDA's and less is Python's.
"""

POWER_ERROR = 0.2
"""Standard error of a power that is known."""

LANES = "product_s", "sweep_s", "fetch_s", "pinned_s"
"""Fields of `Dispatch` that are yardsticks of CPU lanes."""

LAUNCH_COLDS = "graph_colds", "graph_across_colds"
"""Fields of `Dispatch` that are what launches take longer after waits, on one GPU and over several."""

SLEPT_COLDS = "slept_colds", "graph_slept_colds", "graph_across_slept_colds"
"""What calls, and launches on one GPU and over several, take longer after waits for CPU lanes."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Yardsticks of how fast the dispatching thread and CPU lanes are at some time; 0 or empty where not taken.

    Attributes:
        call_s: A tiny operation (`Dispatch.call_s`).
        product_s, sweep_s: A small product on a CPU lane, and going through memory (`Dispatch`).
        fetch_s: What a copy to a GPU takes longer of what a CPU lane has just written (`Dispatch`).
        pinned_s: What it takes that lane to copy it into pinned memory (`Dispatch`).
        colds: What a call takes longer after a wait (`Dispatch.colds`).
        launches: Launches of CUDA graphs (`Dispatch.graph_launches`).
        launch_colds: What a launch takes longer after a wait, on one GPU and over several (`LAUNCH_COLDS`).
    """

    call_s: float = 0.0
    product_s: float = 0.0
    colds: Points = ()
    launches: Points = ()
    launch_colds: tuple[Points, ...] = ()
    sweep_s: float = 0.0
    fetch_s: float = 0.0
    pinned_s: float = 0.0

    @classmethod
    def of(cls, costs: Dispatch, *, graphs: bool) -> Pace:
        """That of costs of dispatch, of launches only for `graphs`.

        Example:
            >>> from graphsched.platform import Dispatch
            >>> costs = Dispatch(call_s=6e-6, graph_launches=((1, 9e-6),))
            >>> Pace.of(costs, graphs=False).launches, Pace.of(costs, graphs=True).launches
            ((), ((1, 9e-06),))
        """
        lanes = {name: getattr(costs, name) for name in LANES}
        calls = cls(costs.call_s, colds=costs.colds, **lanes)
        if not graphs:
            return calls
        launch_colds = tuple(points for name in LAUNCH_COLDS if (points := getattr(costs, name)))
        return replace(calls, launches=costs.graph_launches, launch_colds=launch_colds)


def at_pace(costs: Dispatch, now: Pace) -> Dispatch:
    """See `Dispatch.at`."""
    if now.product_s:
        lanes: dict[str, Any] = {name: getattr(now, name) for name in LANES}
        costs = replace(costs, **lanes)
    if not (costs.call_s and now.call_s):
        return costs
    pace = now.call_s / costs.call_s
    alone, across = (_launch_pace(costs.graph_launches, now.launches, gpus, pace) for gpus in (1, 2))
    yardsticks = (HOST_CALLS + GRAPH_CALLS, pace), (LAUNCHES, alone), (LAUNCHES_ACROSS, across)
    scaled: dict[str, Any] = {
        name: getattr(costs, name) * slower ** POWERS.get(name, 1.0) for names, slower in yardsticks for name in names
    }
    longer = alone - 1.0
    starts = tuple((n, seconds + longer * min(seconds, _launch_s(costs, n))) for n, seconds in costs.graph_starts)
    changes = tuple((k, seconds * pace) for k, seconds in costs.changes)
    colds = now.colds or tuple((k, seconds * pace) for k, seconds in costs.colds)
    launches = now.launches or tuple((k, seconds * pace) for k, seconds in costs.graph_launches)
    tables: dict[str, Any] = {"changes": changes, "graph_starts": starts, "colds": colds, "graph_launches": launches}
    for k, name in enumerate(LAUNCH_COLDS):
        found = now.launch_colds[k] if k < len(now.launch_colds) else ()
        tables[name] = found or tuple((us, seconds * pace) for us, seconds in getattr(costs, name))
    tables |= {name: tuple((us, seconds * pace) for us, seconds in getattr(costs, name)) for name in SLEPT_COLDS}
    return replace(costs, **scaled, **tables, call_s=now.call_s)


def _launch_pace(before: Points, now: Points, gpus: int, pace: float) -> float:
    """How many times as long a launch over so many GPUs takes now; `pace` where that was not measured."""
    before_s, now_s = dict(before).get(gpus, 0.0), dict(now).get(gpus, 0.0)
    return now_s / before_s if before_s and now_s else pace


def _launch_s(costs: Dispatch, nodes: int) -> float:
    """What of a graph's start is the thread's: its launch. The rest is the GPU's, and the way there and back."""
    return costs.graph_launch_s + costs.graph_launch_node_s * nodes

"""What the time of a prediction goes to: GPUs or the host, kernels alone on their device or side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from graphsched.plan import Plan, stamped
from graphsched.simulator.graph_mode import in_graph
from graphsched.timeline import Timeline

Bound = Literal["gpu", "host"]

GPU_SHARE = 0.5  # a case is bound by what takes most of its critical path


def gpu_share(line: Timeline) -> float:
    """Share of the timed makespan that the critical path spends on lanes of GPUs.

    Of a span there, the time counts in which the thread is no longer busy issuing that action, less
    what its timing events take; what passes in a CUDA graph before it, since the action that it waited
    for, is the GPU's too. Pageable copies, which the thread waits for, do not count.
    """
    path = [i for i in line.critical_path() if _on_gpu(line.plan, i)]
    begins = np.maximum(_begins_s(line, path), line.issue_end_s[path])
    events_s = _events_s(line.plan)
    gpu_s = float(np.maximum(line.end_s[path] - begins - events_s, 0.0).sum())
    return gpu_s / line.timed_makespan_s if line.timed_makespan_s else 0.0


def _begins_s(line: Timeline, path: list[int]) -> NDArray[np.float64]:
    """When each action of the path came next on its lane, its timing event included."""
    starts_s: NDArray[np.float64] = line.start_s[path]
    if line.plan.mode != "graph" or stamped(line.plan) or not path:
        return starts_s
    before_s = np.concatenate((starts_s[:1], line.end_s[path[:-1]]))
    return np.minimum(starts_s, before_s)


def _events_s(plan: Plan) -> float:
    """What two timing events around an action, or the stamps in their place, take on its lane."""
    costs = plan.platform.dispatch
    if plan.mode == "graph":
        costs = in_graph(costs, whole=False, stamps=stamped(plan))
    return costs.timed_gap_s


def shares_device(line: Timeline) -> bool:
    """Whether tasks on two compute lanes of one accelerator run side by side."""
    return any(_overlap(line, lanes) for lanes in _compute_lanes(line.plan))


def _on_gpu(plan: Plan, i: int) -> bool:
    lane = plan.lanes[plan.lane_of[i]]
    if lane.kind == "host" or plan.platform.device(lane.device).kind != "cuda":
        return False
    copy = plan.copies.get(i)
    return copy is None or not plan.platform.link(copy.source, copy.target, copy.memory).blocking


def _compute_lanes(plan: Plan) -> Iterator[set[int]]:
    """Numbers of the compute lanes of each accelerator."""
    for device in plan.platform.accelerators():
        names = plan.lanes_of_device(device)
        if len(names) > 1:
            yield {k for k, lane in enumerate(plan.lanes) if lane in names}


def _overlap(line: Timeline, lanes: set[int]) -> bool:
    """Whether spans of tasks on `lanes`, in order of their starts, reach into each other."""
    plan = line.plan
    tasks = [i for i, lane in enumerate(plan.lane_of) if lane in lanes and plan.kinds[i] in ("run", "collective")]
    tasks.sort(key=lambda i: (line.start_s[i], line.end_s[i]))
    end_s = -math.inf
    for i in tasks:
        if line.start_s[i] < end_s - 1e-9 and line.end_s[i] > line.start_s[i]:
            return True
        end_s = max(end_s, float(line.end_s[i]))
    return False

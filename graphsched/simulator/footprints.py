"""How much memory of each device a plan in graph mode works on: every value and every copy has its own there.

Workspaces count too, each size once on each lane, for a task gives its own back to those behind it. What a replay uses
besides nodes decides whether a cache still holds what the nodes themselves are, when the graph is replayed again: on an
H100 each node of a chain takes 0.95 µs by itself and behind a fill of 16 MB, 1.14 behind one of 100 MB and behind a
convolution whose workspace is large.

Not modelled: values that no task reads or makes any more when others are made; workspaces in memory that results had.
"""

from __future__ import annotations

from collections import Counter

from graphsched.plan import Plan


def memory_of(plan: Plan) -> Counter[str]:
    """Bytes of inputs, states, results, copies and workspaces by device; views lie in what they look into.

    Example:
        >>> from graphsched import Device, Platform, TensorSpec, Workload, schedule
        >>> work = Workload()
        >>> x = work.input("x", TensorSpec((4, 4)), device="cuda:0")
        >>> y = work.task(lambda x: x, x, name="y", outputs=[TensorSpec((2, 4))], device="cuda:0", duration_s=1.0)
        >>> memory_of(schedule(work, Platform("here", [Device("cuda:0", "cuda")])))
        Counter({'cuda:0': 96})
    """
    found: Counter[str] = Counter()
    for value in plan.work.values.values():
        if value.root == value.name:
            found[plan.homes[value.name]] += value.nbytes
    for i, copy in plan.copies.items():
        if plan.names[i] not in plan.work.graph:  # those that are, make values
            found[copy.target] += copy.read.value.nbytes
    for (lane, _), nbytes in _workspaces(plan).items():
        found[plan.lanes[lane].device] += nbytes
    return found


def _workspaces(plan: Plan) -> dict[tuple[int, int], int]:
    """Bytes of each workspace of a size on a lane, by lane and size; those of tasks whose costs are known."""
    if not plan.costs:
        return {}
    models = [plan.platform.device(lane.device).model if lane.kind == "compute" else None for lane in plan.lanes]
    found: dict[tuple[int, int], int] = {}
    for lane, task in zip(plan.lane_of, plan.tasks, strict=True):
        model = models[lane]
        cost = plan.costs.get(task.signature, model) if task is not None and model is not None else None
        if cost is not None and cost.workspace_bytes:
            found[lane, cost.workspace_bytes] = cost.workspace_bytes
    return found

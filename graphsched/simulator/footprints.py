"""How much memory of each device a plan in graph mode works on: every value and every copy has its own there.

Workspaces count too, each size once on each lane, for a task gives its own back to those behind it. So does what an
operation pushes out of a cache beyond what it works on, where that was measured (`calibration.graph_pushes`): the
second convolution of LeNet, on 64 images, works on 4 MB and pushes out as much as a fill of 37 does. What a replay uses
besides nodes decides whether a cache still holds what the nodes themselves are, when the graph is replayed again: on an
H100 each node of a chain takes 0.95 µs by itself and behind a fill of 16 MB, 1.14 behind one of 100 MB and behind a
convolution whose workspace is large.

Not modelled: values that no task reads or makes any more when others are made; workspaces in memory that results had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from graphsched.costs import TaskCost
from graphsched.plan import Plan
from graphsched.workload import Task


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
    costs = _costs(plan)
    found.update(_workspaces(plan, costs))
    for i, cost in costs.items():
        found[_device(plan, i)] += pushed_beyond(plan.tasks[i], cost)
    return found


def pushed_beyond(task: Task | None, cost: TaskCost) -> int:
    """Bytes that a task pushes out of a cache beyond those of its inputs, results and workspace, which count anyway.

    Example:
        >>> from graphsched import TensorSpec, Workload
        >>> from graphsched.costs import CacheStates
        >>> work = Workload()
        >>> x = work.input("x", TensorSpec((4, 4)), device="cuda:0")
        >>> _ = work.task(lambda x: x, x, name="y", outputs=[TensorSpec((2, 4))], device="cuda:0", duration_s=1.0)
        >>> pushed_beyond(work["y"], TaskCost(1.0, cache=CacheStates(pushed_bytes=100), workspace_bytes=3))
        1
    """
    if task is None or cost.cache is None or not cost.cache.pushed_bytes:
        return 0
    values = {read.value.name: read.value.nbytes for read in task.reads} | {v.name: v.nbytes for v in task.outputs}
    return max(0, cost.cache.pushed_bytes - sum(values.values()) - cost.workspace_bytes)


def _costs(plan: Plan) -> dict[int, TaskCost]:
    """Costs that are known of tasks on lanes that compute, by action."""
    if not plan.costs:
        return {}
    models = [plan.platform.device(lane.device).model if lane.kind == "compute" else None for lane in plan.lanes]
    found: dict[int, TaskCost] = {}
    for i, (lane, task) in enumerate(zip(plan.lane_of, plan.tasks, strict=True)):
        model = models[lane]
        cost = plan.costs.get(task.signature, model) if task is not None and model is not None else None
        if cost is not None:
            found[i] = cost
    return found


def _workspaces(plan: Plan, costs: Mapping[int, TaskCost]) -> Counter[str]:
    """Bytes of workspaces by device: each size once on each lane."""
    sizes = {(plan.lane_of[i], cost.workspace_bytes) for i, cost in costs.items() if cost.workspace_bytes}
    found: Counter[str] = Counter()
    for lane, nbytes in sizes:
        found[plan.lanes[lane].device] += nbytes
    return found


def _device(plan: Plan, i: int) -> str:
    return plan.lanes[plan.lane_of[i]].device

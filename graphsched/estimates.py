"""The cost of a task on a device: given, measured, or else estimated from operations and bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from graphsched.costs import Costs, TaskCost, check_seconds
from graphsched.platform import Device
from graphsched.workload import Task

LAUNCH_S = {"cuda": 3e-6, "worker": 5e-6, "cpu": 5e-6}
DISPATCH_S = {"cuda": 6e-6, "worker": 0.0, "cpu": 0.0}


def task_cost(task: Task, device: Device, costs: Costs | None) -> TaskCost:
    """Cost of `task` alone on `device`.

    In this order: the duration that the user gave; the measured cost; an estimate (`source` is then
    ``estimated``): the longer of operations at the device's arithmetic rate and bytes at its memory
    rate, plus a launch.

    Raises:
        CostError: Durations were given, but none for this device or its kind.

    Example:
        >>> task = Task("a", duration_s={"cpu": 2.0, "cuda": 0.5})
        >>> task_cost(task, Device("cuda:0", "cuda"), None).device_s
        0.5
    """
    measured = costs.get(task.signature, device.model) if costs is not None else None
    given = task.duration_s
    if given is not None:
        if isinstance(given, Mapping):
            given = given.get(device.name, given.get(device.kind))
        seconds = check_seconds(
            given, f"duration of task {task.name!r} on {device.name} (given for other devices only?)"
        )
        dispatch = measured.dispatch_s if measured else DISPATCH_S[device.kind] if task.operation else 0.0
        return TaskCost(seconds, dispatch, source="given")
    if measured is not None:
        return measured
    flops = task.operation.flops if task.operation else 0
    seconds = max(flops / device.flop_per_s, task.nbytes / device.bytes_per_s) + LAUNCH_S[device.kind]
    return TaskCost(seconds, DISPATCH_S[device.kind], source="estimated")


def dispatched(cost: TaskCost, device: Device) -> TaskCost:
    """`cost` where a thread makes the call; an estimate, if what that takes was left out.

    Example:
        >>> cost = dispatched(TaskCost(1e-5, host_left_out=True), Device("cuda:0", "cuda"))
        >>> cost.dispatch_s, cost.source
        (6e-06, 'estimated')
    """
    return replace(cost, dispatch_s=DISPATCH_S[device.kind], source="estimated") if cost.host_left_out else cost

"""The cost of a task on a device: given, measured, or else estimated from operations and bytes.

A collective that was not measured alone is estimated as a ring over its devices: of n bytes on each of k an all-reduce
sends 2 (k-1)/k n through every port in 2 (k-1) steps, a reduce-scatter half of that, an all-gather (k-1) n in k-1. On
devices in one host's memory whose ranks are one process, a thread reads and writes all values instead.

Source: R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH, 2005.

Not modelled: trees, multicast and other protocols that a library takes for small or large values; multiprocessors and
links that it takes from what runs beside it; rings in both directions at once.
"""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from graphsched.costs import Costs, TaskCost, check_seconds
from graphsched.errors import CostError
from graphsched.platform import Device, Link, Platform
from graphsched.workload import Task

# The order of what a small kernel and a call take on hosts that were measured; what is measured takes their place.
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
            given = _given_for(device, task.name, given)
        seconds = check_seconds(given, f"duration of task {task.name!r} on {device.name}")
        dispatch = measured.dispatch_s if measured else DISPATCH_S[device.kind] if task.operation else 0.0
        return TaskCost(seconds, dispatch, source="given")
    if measured is not None:
        return measured
    flops = task.operation.flops if task.operation else 0
    seconds = max(flops / device.flop_per_s, task.nbytes / device.bytes_per_s) + LAUNCH_S[device.kind]
    return TaskCost(seconds, DISPATCH_S[device.kind], source="estimated")


def _given_for(device: Device, task: str, durations: Mapping[str, float]) -> float:
    found = durations.get(device.name, durations.get(device.kind))
    if found is None:
        known = reprlib.repr(list(durations))
        raise CostError(
            f"task {task!r} has no duration on {device.name}: it has those of {known}; give one of {device.name!r} or "
            f"{device.kind!r}, or choose devices that it has"
        )
    return found


def collective_cost(task: Task, platform: Platform, costs: Costs | None, mode: str = "eager") -> TaskCost:
    """Cost of a collective alone, all of its devices there at once: given, measured, or else estimated.

    The measured cost is filed under the model of its first device. `mode`: how the plan runs; in ``distributed`` groups
    of CPU threads have memory of their own, and what one process takes for them does not count.

    Raises:
        CostError: Durations were given, but none for the first device or its kind.
        PlatformError: No link leads from a device to the next.

    Example:
        >>> from graphsched.workload import TensorSpec, Workload
        >>> work = Workload()
        >>> values = [work.input(f"x{k}", TensorSpec((40_000_000,)), device=f"cuda:{k}") for k in range(4)]
        >>> _ = work.collective("all_reduce", values, devices=[value.device for value in values], name="sum")
        >>> cost = collective_cost(work["sum"], Platform.load("h200-x4"), None)
        >>> 6e-4 < cost.device_s < 8e-4, cost.source
        (True, 'estimated')
    """
    device = platform.device(task.devices[0])
    here = device.kind == "cuda" or mode != "distributed"
    if task.duration_s is not None or (here and costs is not None and costs.get(task.signature, device.model)):
        return task_cost(task, device, costs if here else None)
    seconds = LAUNCH_S[device.kind]
    if device.kind == "cuda" or mode == "distributed":
        seconds += _ring_s(task, platform)
        if mode != "distributed":  # streams of one process wait for each other before and after
            seconds += 2 * platform.dispatch.other_device_s
    else:
        seconds += task.nbytes / device.bytes_per_s
    return TaskCost(seconds, len(task.devices) * DISPATCH_S[device.kind], source="estimated")


def _ring_s(task: Task, platform: Platform) -> float:
    """Seconds of a ring: each step its largest latency, and the bytes of a port at the rate of the slowest link."""
    assert task.operation is not None
    count, nbytes = len(task.devices), task.reads[0].value.nbytes
    rounds = 2 if task.operation.name == "all_reduce" else 1
    through = (count - 1) * nbytes * (1 if task.operation.name == "all_gather" else rounds / count)
    links = [platform.link(a, b) for a, b in zip(task.devices, (*task.devices[1:], task.devices[0]), strict=True)]
    crossing = Counter(name for link in links for name in link.crosses)

    def rate(link: Link) -> float:
        shares = (platform.capacities[name] / crossing[name] for name in link.crosses)
        return min([link.bandwidth_bytes_per_s, *shares])

    latency_s = max(link.latency_s for link in links)
    return rounds * (count - 1) * latency_s + through / min(map(rate, links))


def dispatched(cost: TaskCost, device: Device) -> TaskCost:
    """`cost` where a thread makes the call; an estimate, if what that takes was left out.

    Example:
        >>> cost = dispatched(TaskCost(1e-5, host_left_out=True), Device("cuda:0", "cuda"))
        >>> cost.dispatch_s, cost.source
        (6e-06, 'estimated')
    """
    return replace(cost, dispatch_s=DISPATCH_S[device.kind], source="estimated") if cost.host_left_out else cost

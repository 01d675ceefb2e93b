"""What copies that no plan can do without take of the capacities that they share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graphsched.plan import lies_pageable
from graphsched.platform import Platform
from graphsched.schedulers.placing.candidates import find_candidates
from graphsched.workload import Memory, Read, Value, Workload


def link_bound(work: Workload, platform: Platform) -> float:
    """Seconds that the busiest shared capacity needs for the bytes that cross it in any plan, at its highest rate.

    Or, if that is more, the seconds of pageable copies: the thread issues one when the other is over.

    Those are the copies that the workload asks for, and those of values that tasks on another device
    need (once a device and version), where the workload leaves no choice of either end.

    Not modelled: copies whose source or target the plan may choose; latencies; the host memory's kind
    where a plan chooses it.

    Raises:
        PlatformError: A copy that no plan can do without has no link.

    Example:
        >>> from graphsched.platform import Device, Link
        >>> from graphsched.workload import TensorSpec
        >>> down = Link("cuda:0", "cpu", "pinned", 0.0, 100.0, crosses=("out",))
        >>> devices = (Device("cuda:0", "cuda"), Device("cpu", "cpu"))
        >>> work = Workload()
        >>> x = work.input("x", TensorSpec((50,)), device="cuda:0")
        >>> for _ in range(3):
        ...     copied = work.copy(x, to="cpu")
        >>> link_bound(work, Platform("desk", devices, (down,), {"out": 60.0}))
        10.0
    """
    nbytes: dict[str, int] = {}
    held_s = 0.0
    for read, source, target, memory in _forced_copies(work, platform):
        link = platform.link(source, target, memory)
        for name in link.crosses:
            nbytes[name] = nbytes.get(name, 0) + read.value.nbytes
        if link.blocking and "cuda" in (platform.device(source).kind, platform.device(target).kind):
            held_s += link.duration_s(read.value.nbytes)
    rates = capacity_rates(platform)
    return max([held_s, *(amount / rates[name] for name, amount in nbytes.items())])


def capacity_rates(platform: Platform) -> dict[str, float]:
    """The highest rate of each shared capacity, in bytes per second."""
    return dict(platform.capacities)


def _forced_copies(work: Workload, platform: Platform) -> Iterator[tuple[Read, str, str, Memory]]:
    """Copies of every plan: what is read, source, target and kind of host memory."""
    devices = find_candidates(work, platform).devices
    only = {name: found[0] for name, found in devices.items() if len(found) == 1}
    seen: set[tuple[str, str]] = set()
    for task in work.tasks:
        target = task.outputs[0].device if task.kind == "copy" else only.get(task.name)
        for read in task.reads if target is not None else ():
            source = _home(read.value, only)
            key = (str(read), str(target))
            if source is None or target is None or (task.kind == "run" and (source == target or key in seen)):
                continue
            if task.kind == "run":
                seen.add(key)
            to_gpu = source == "cpu" and platform.device(target).kind == "cuda"
            pageable = to_gpu and lies_pageable(work, read.value)
            yield read, source, target, "pageable" if pageable else task.memory


def _home(value: Value, only: Mapping[str, str]) -> str | None:
    """Where a value lives in every plan; None where plans differ."""
    if value.kind == "output" and value.device is None and value.producer is not None:
        return only.get(value.producer)
    return value.device

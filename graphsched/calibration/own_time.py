"""The executors' own time for one action, beside the calls that the plan needs."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

from graphsched.plan import Placement, build_plan
from graphsched.platform import Device, Platform
from graphsched.workload import TensorSpec, Workload

ACTIONS = 1000


def own_time_s(repeats: int = 21) -> float:
    """Host seconds that running a task takes the executors beyond the call itself; median.

    A task that does nothing is run from a loop as in the executors, and then called directly.
    """
    from graphsched.executors.buffers import Buffers
    from graphsched.executors.calls import task_call

    work = Workload()
    values = [work.input(name, TensorSpec((2, 2))) for name in ("a", "b")]
    work.task(_first, *values, name="task", outputs=[TensorSpec((2, 2))])
    plan = build_plan(work, Platform("here", (Device("cpu", "cpu"),)), None, Placement(["task"], {"task": "cpu/w0"}),
                      scheduler="by hand")  # fmt: skip
    buffers = Buffers(plan)
    run = task_call(work["task"], "cpu", buffers)
    tensors = [buffers.slots[buffers.slot(v.name)] for v in values]
    whole = median([_loop_s(run) for _ in range(repeats)])
    return max(0.0, whole - median([_loop_s(partial(_first, *tensors)) for _ in range(repeats)]))


def _loop_s(call: Callable[[], Any]) -> float:
    calls = [call] * ACTIONS
    start = time.perf_counter()
    for position, each in enumerate(calls):  # noqa: B007
        each()
    return (time.perf_counter() - start) / ACTIONS


def _first(a: Any, _: Any) -> Any:
    """Stands for an operation that takes no time."""
    return a

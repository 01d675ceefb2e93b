"""Results of tasks on the CPU that GPUs read: copied into pinned memory by the lane that made them.

From there a copy engine takes them while every thread goes on, and a CUDA graph can hold the copy. Out of the memory
that a task returned them in, the dispatching thread would move them itself, piece by piece, and wait: 16.8 MB take it
2.7 to 3.2 ms on hosts of an H200; a lane of 16 threads takes 0.3 to 0.5, the way from there 0.3 (docs/readings.md).

Left where they are: results of which a workload asks for a copy out of pageable memory, and in mode ``distributed``
those that go to another rank's GPU by a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphsched.platform import Platform
from graphsched.workload import Read, Value, Workload

if TYPE_CHECKING:
    from graphsched.plan.model import Copy, Plan


def pinned_results(plan: Plan, *, local: bool = False) -> dict[str, tuple[Read, ...]]:
    """By task, in the plan's order of copies: what it wrote and its lane copies into pinned memory.

    That is a result of its own, or of another task that it updated. In mode ``distributed`` copies to GPUs of other
    ranks are messages, unless `plan` is the `local` one of a rank.

    Example:
        >>> from graphsched.plan import Placement, build_plan
        >>> from graphsched.platform import Device, Link, Platform
        >>> from graphsched.workload import TensorSpec, Workload
        >>> work = Workload()
        >>> mean = work.task(abs, name="mean", outputs=[TensorSpec((4,))], device="cpu")
        >>> _ = work.task(abs, mean, name="use", outputs=[], device="cuda:0")
        >>> devices = Device("cpu", "cpu"), Device("cuda:0", "cuda")
        >>> here = Platform("here", devices, (Link("cpu", "cuda:0", "pinned", 1e-5, 1e10),))
        >>> lanes = {"mean": "cpu/w0", "use": "cuda:0/s0"}
        >>> plan = build_plan(work, here, None, Placement(list(lanes), lanes), scheduler="by hand")
        >>> {task: [str(read) for read in reads] for task, reads in pinned_results(plan).items()}
        {'mean': ['mean']}
    """
    found: dict[str, dict[str, Read]] = {}
    for copy in plan.copies.values():
        message = not local and by_message(plan.mode, plan.platform, copy.target)
        if copy.read.source is not None and not message and takes_pinned(plan, copy):
            found.setdefault(copy.read.source, {})[str(copy.read)] = copy.read
    return {task: tuple(reads.values()) for task, reads in found.items()}


def takes_pinned(plan: Plan, copy: Copy) -> bool:
    """Whether `copy` brings a result of a task on the CPU to a GPU out of pinned memory."""
    to_gpu = copy.source == "cpu" and plan.platform.device(copy.target).kind == "cuda"
    return to_gpu and copy.memory == "pinned" and made_by_task(plan.work, copy.read.value)


def just_written(plan: Plan, copy: Copy) -> bool:
    """Whether `copy` brings to a GPU, out of pinned memory, what a task on the CPU wrote: a result or an update."""
    to_gpu = copy.source == "cpu" and plan.platform.device(copy.target).kind == "cuda"
    wrote = plan.work[copy.read.source] if copy.read.source is not None else None
    pinned = to_gpu and copy.memory == "pinned" and not by_message(plan.mode, plan.platform, copy.target)
    return pinned and wrote is not None and wrote.kind == "run"


def by_message(mode: str, platform: Platform, target: str) -> bool:
    """Whether a result of the CPU goes to GPU `target` by a message, which takes it from where it lies.

    So it does to the GPUs of other ranks than the first, which has the CPU.
    """
    return mode == "distributed" and target not in platform.accelerators(1)


def made_by_task(work: Workload, value: Value) -> bool:
    """Whether a task returned `value`: no copy, nor a collective, and it was not there before."""
    return value.producer is not None and work[value.producer].kind == "run"


def lies_pageable(work: Workload, value: Value) -> bool:
    """Whether a copy of `value` from the CPU to a GPU is out of pageable memory, unless a workload asks for it.

    So are results of copies into memory that is not pinned, and of collectives. Inputs and states lie in pinned memory
    where a plan uses CUDA; results of tasks are copied there.
    """
    if value.producer is None or made_by_task(work, value):
        return False
    producer = work[value.producer]
    return producer.kind != "copy" or producer.memory != "pinned"

"""Whether the spans of a plan's tasks in graph mode come from stamps, which are kernels, or from timing events.

A stamp is a kernel of one thread that writes down a GPU's clock. It costs less than an event, those of several lanes do
not wait for each other, and copies from the host do not keep it waiting; but it stands in the queue of blocks like any
kernel: behind a kernel of another lane that waits for room it waits too. So there are stamps where no kernel ever waits
for room, and none around copies, whose lanes have events.

Not modelled: that lanes of a plan may have no kernels at the same time. Priority, which would let stamps pass the
queue: a graph of two priorities was launched many times more slowly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil

from graphsched.costs import Kernel, Multiprocessors
from graphsched.estimates import task_cost
from graphsched.plan.model import Plan
from graphsched.plan.segments import captured
from graphsched.workload import Task

Room = tuple[int, ...]
"""Registers, threads, shared bytes and places for blocks of a multiprocessor."""

STAMP: Room = (1024, 32, 1024, 1)  # of a block: one warp, with some to spare
NOTHING: Room = (0, 0, 0, 0)


def stamped(plan: Plan) -> bool:
    """Whether stamps stand around the tasks that CUDA graphs hold, in the place of timing events.

    That takes graph mode and a platform on which a stamp was measured. On a GPU with one lane of tasks in use stamps
    always have room. With several all kernels there must be known, and the largest of every lane have room together.

    Example:
        >>> from dataclasses import replace
        >>> from graphsched.plan import Placement, build_plan
        >>> from graphsched.platform import Device, Dispatch, Platform
        >>> from graphsched.workload import TensorSpec, Workload
        >>> work = Workload()
        >>> x = work.input("x", TensorSpec((2,)), device="cuda:0")
        >>> tasks = [work.task(abs, x, name=name, outputs=[TensorSpec((2,))]) for name in "ab"]
        >>> devices = (Device("cpu", "cpu"), Device("cuda:0", "cuda"))
        >>> def plan(lane, stamp_s):
        ...     here = Platform("here", devices, dispatch=Dispatch(graph_stamp_s=stamp_s))
        ...     lanes = Placement(["a", "b"], {"a": "cuda:0/s0", "b": lane})
        ...     return replace(build_plan(work, here, None, lanes, scheduler="by hand"), mode="graph")
        >>> stamped(plan("cuda:0/s0", 1e-6)), stamped(plan("cuda:0/s0", 0.0))
        (True, False)
        >>> stamped(plan("cuda:0/s1", 1e-6))  # nothing is known of the kernels
        False
    """
    if plan.mode != "graph" or not plan.platform.dispatch.graph_stamp_s:
        return False
    lanes: dict[str, set[int]] = {}
    for lane, inside in zip(plan.lane_of, captured(plan), strict=True):
        if inside and plan.lanes[lane].kind == "compute":
            lanes.setdefault(plan.lanes[lane].device, set()).add(lane)
    return bool(lanes) and all(_has_room(plan, device, used) for device, used in lanes.items() if len(used) > 1)


def _has_room(plan: Plan, device: str, lanes: set[int]) -> bool:
    """Whether a stamp finds room on a GPU with these `lanes` in use, whatever they are at."""
    here, kernels = plan.platform.device(device), dict[int, list[Kernel]]()
    processors: Multiprocessors | None = None
    for lane, task in _tasks(plan, lanes):
        cost = task_cost(task, here, plan.costs).in_graph()
        if cost.processors is not None and cost.kernels:
            processors = cost.processors
            kernels.setdefault(lane, []).extend(cost.kernels)
        elif cost.launches:
            return False
    return processors is None or leaves_room(processors, list(kernels.values()))


def _tasks(plan: Plan, lanes: set[int]) -> Iterable[tuple[int, Task]]:
    """On each of `lanes` one task of each operation."""
    tasks = dict(plan.work.graph.nodes(data="task"))
    here = (
        (lane, tasks[name])
        for name, lane, kind in zip(plan.names, plan.lane_of, plan.kinds, strict=True)
        if kind == "run" and lane in lanes
    )
    return {(lane, task.signature): (lane, task) for lane, task in here}.values()


def leaves_room(processors: Multiprocessors, lanes: Sequence[Sequence[Kernel]]) -> bool:
    """Whether kernels of every one of `lanes` fit at once and leave room for a stamp.

    So it is where there is a multiprocessor for each of their blocks and one more. Else blocks are spread evenly, and
    what is the most that a lane's kernels take of a multiprocessor must fit for all lanes together.

    Example:
        >>> processors = Multiprocessors(4, 65536, 2048, 233472, 32)
        >>> wide, small = Kernel(8, 16384, 128, 0), Kernel(1, 65536, 1024, 0)
        >>> leaves_room(processors, [[small], [small], [small]]), leaves_room(processors, [[small]] * 4)
        (True, False)
        >>> leaves_room(processors, [[wide], []]), leaves_room(processors, [[wide], [wide]])
        (True, False)
    """
    if sum(max((k.blocks for k in kernels), default=0) for kernels in lanes) < processors.count:
        return True
    used = [_most([_on_each(kernel, processors) for kernel in kernels]) for kernels in lanes]
    return all(sum(takes) <= free for free, *takes in zip(_room(processors), STAMP, *used, strict=True))


def _on_each(kernel: Kernel, processors: Multiprocessors) -> Room:
    """What a kernel takes of the multiprocessor that has most of its blocks."""
    blocks = ceil(kernel.blocks / processors.count)
    return tuple(blocks * one for one in (kernel.registers, kernel.threads, kernel.shared_bytes, 1))


def _most(rooms: Sequence[Room]) -> Room:
    return tuple(map(max, zip(NOTHING, *rooms, strict=True)))


def _room(processors: Multiprocessors) -> Room:
    return processors.registers, processors.threads, processors.shared_bytes, processors.blocks

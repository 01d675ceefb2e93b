"""Whether the spans of a plan in graph mode come from stamps, which are kernels, or from timing events.

A stamp is a kernel of one thread that writes down a GPU's clock. It costs less than an event, and those of several
lanes do not wait for each other, but it needs room on a multiprocessor: while the blocks of other lanes fill all of
them, it starts only when a block ends. So there are stamps where that is soon or never.

Not modelled: that lanes of a plan may have no kernels at the same time; multiprocessors that kernels of few blocks
leave empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from graphsched.costs import Kernel, Multiprocessors, TaskCost
from graphsched.estimates import task_cost
from graphsched.plan.model import Plan
from graphsched.plan.segments import captured
from graphsched.workload import Task

SHORT_BLOCK_S = 3e-6  # a stamp waits no longer than this for a block to end
STAMP = (1024, 32, 1024, 1)  # registers, threads, shared bytes and places of a block: one warp, with some to spare
MOST_MIXES = 10_000  # of blocks on a multiprocessor, beyond which events are taken

Room = tuple[int, ...]
"""Registers, threads, shared bytes and places for blocks."""


def stamped(plan: Plan) -> bool:
    """Whether stamps stand around the actions that CUDA graphs hold, in the place of timing events.

    That takes graph mode and a platform on which a stamp was measured. On a GPU with one lane in use stamps always
    have room. With several all kernels there must be known, and each either have blocks of `SHORT_BLOCK_S` at most,
    or leave room for a stamp beside any mix of blocks that are longer.

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
        if inside:
            lanes.setdefault(plan.lanes[lane].device, set()).add(lane)
    return all(_has_room(plan, device, used) for device, used in lanes.items() if len(used) > 1)


def _has_room(plan: Plan, device: str, lanes: set[int]) -> bool:
    """Whether a stamp on a GPU with these `lanes` in use soon finds room, whatever they are at."""
    here, long = plan.platform.device(device), dict[Multiprocessors, dict[Room, int]]()
    for task in _tasks(plan, lanes):
        cost = task_cost(task, here, plan.costs).in_graph()
        processors = cost.processors
        if processors is None or not cost.kernels:
            if cost.launches:
                return False
            continue
        for kernel in cost.kernels:
            if block_s(cost, kernel, processors) > SHORT_BLOCK_S:
                of, need = long.setdefault(processors, {}), _need(kernel, processors)
                of[need] = max(kernel.blocks, of.get(need, 0))
    return all(leaves_room(_room(where), tuple(of.items()), len(lanes)) for where, of in long.items())


def _tasks(plan: Plan, lanes: set[int]) -> Iterable[Task]:
    """One task of each operation on `lanes`."""
    tasks = dict(plan.work.graph.nodes(data="task"))
    here = (
        tasks[name]
        for name, lane, kind in zip(plan.names, plan.lane_of, plan.kinds, strict=True)
        if kind == "run" and lane in lanes
    )
    return {task.signature: task for task in here}.values()


def block_s(cost: TaskCost, kernel: Kernel, processors: Multiprocessors) -> float:
    """How long a block of one of the operation's kernels takes, alone on the device.

    Example:
        >>> processors = Multiprocessors(4, 65536, 2048, 233472, 32)
        >>> block_s(TaskCost(6.0), Kernel(24, 32768, 128, 0), processors)  # eight at a time
        2.0
        >>> block_s(TaskCost(6.0), Kernel(3, 32768, 128, 0, share=0.5), processors)
        3.0
    """
    at_once = _fit(_room(processors), _need(kernel, processors)) * processors.count
    return cost.device_s * kernel.share / max(1.0, kernel.blocks / at_once)


@lru_cache(maxsize=1024)
def leaves_room(room: Room, kernels: tuple[tuple[Room, int], ...], lanes: int) -> bool:
    """Whether any mix of blocks that fits into `room` leaves a stamp its own.

    Args:
        room: Of a multiprocessor.
        kernels: What a block of each takes, and how many it has.
        lanes: How many kernels there may be at once.

    Example:
        >>> leaves_room((65536, 2048, 233472, 32), (((40000, 1024, 100000, 1), 132),), 2)
        True
        >>> leaves_room((65536, 2048, 233472, 32), (((32768, 128, 0, 1), 132),), 2)  # two take all registers
        False
    """
    left = {(room, 0)}
    for need, blocks in kernels:
        for free, mixed in tuple(left):
            most = min(_fit(free, need), lanes * blocks) if mixed < lanes else 0
            for number in range(1, most + 1):
                left.add((tuple(f - number * n for f, n in zip(free, need, strict=True)), mixed + 1))
        if len(left) > MOST_MIXES or any(not _fit(free, STAMP) for free, _ in left):
            return False
    return True


def _room(processors: Multiprocessors) -> Room:
    return processors.registers, processors.threads, processors.shared_bytes, processors.blocks


def _need(kernel: Kernel, processors: Multiprocessors) -> Room:
    """What a block takes; one that asks for more than there is gets all there is."""
    wanted = (kernel.registers, kernel.threads, kernel.shared_bytes, 1)
    return tuple(min(pair) for pair in zip(wanted, _room(processors), strict=True))


def _fit(room: Room, need: Room) -> int:
    """How many blocks there is room for."""
    return min(free // takes for free, takes in zip(room, need, strict=True) if takes)

"""Which work of a replayed graph is which action's, where the profiler numbers the graph's nodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from graphsched.executors.fill_kernel import KERNEL
from graphsched.formats.profiler_trace import RESOLUTION_S, DeviceWork, gpu_number
from graphsched.plan import Plan

Works = dict[int, tuple[DeviceWork, ...]]


def by_nodes(plan: Plan, work: Sequence[DeviceWork], launches: Mapping[int, tuple[str, ...]]) -> Works | None:
    """Work by its place in the order of the nodes; None if that order is not told, or is not the plan's.

    Nodes are numbered as they are captured, which is in the plan's order, and graphs are launched in it; but kernels in
    the place of fills are numbered behind all others. That holds if all names agree, and if on each lane no action's
    work begins before that of the action before it is over.
    """
    numbered = sorted((piece.correlation, piece.node, k) for k, piece in enumerate(work) if piece.node is not None)
    if len(numbered) < len(work) or len({number[:2] for number in numbered}) < len(work):
        return None
    order = [i for i in range(len(plan)) if i in launches]
    pieces = _as_captured([work[k] for *_, k in numbered], [what for i in order for what in launches[i]])
    if pieces is None:
        return None
    found, place = Works(), 0
    for i in order:
        found[i] = tuple(pieces[place : place + len(launches[i])])
        place += len(launches[i])
    return found if _in_order(plan, found) else None


def _as_captured(numbered: Sequence[DeviceWork], wanted: Sequence[str]) -> list[DeviceWork] | None:
    """Work in the order of the capture, which was of what is `wanted`; None if it cannot have been."""
    late = deque(piece for piece in numbered if piece.name == KERNEL)
    others = deque(piece for piece in numbered if piece.name != KERNEL)
    found = []
    for what in wanted:
        source = others if others and others[0].what == what else late
        if not source or source[0].what != what:
            return None
        found.append(source.popleft())
    return found if len(found) == len(numbered) else None


def _in_order(plan: Plan, found: Works) -> bool:
    """Whether on every lane work begins only when all before it is over, and is on the lane's device."""
    over: dict[int, float] = {}
    for i, pieces in found.items():
        lane = plan.lane_of[i]
        if i not in plan.copies and any(piece.device != gpu_number(plan.lanes[lane].device) for piece in pieces):
            return False
        if min(piece.start_s for piece in pieces) < over.get(lane, float("-inf")) - RESOLUTION_S:
            return False
        over[lane] = max(piece.end_s for piece in pieces)
    return True

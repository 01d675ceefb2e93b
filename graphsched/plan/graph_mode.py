"""What a plan must be for graph mode: one CUDA graph holds every action of it.

Not modelled: plans that tasks on a CPU cut into several graphs.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphsched.errors import CaptureError
from graphsched.plan.model import Copy, Plan


def check_capturable(plan: Plan) -> None:
    """Make sure, before anything is captured, that a CUDA graph can hold every action of `plan`.

    Raises:
        CaptureError: It has tasks or states on a CPU, copies that block, or no GPU; names them.
    """
    kinds = [plan.platform.device(lane.device).kind if lane.kind != "host" else "cuda" for lane in plan.lanes]
    outside = [plan.names[i] for i, lane in enumerate(plan.lane_of) if kinds[lane] != "cuda" and i not in plan.copies]
    if outside:
        raise CaptureError(
            f"graph mode takes plans whose tasks all run on GPUs; on the CPU: {_some(outside)}: "
            "schedule them for GPUs, or run in eager mode"
        )
    blocking = [plan.names[i] for i, copy in plan.copies.items() if _blocks(plan, copy)]
    if blocking:
        raise CaptureError(
            f"no CUDA graph holds copies that pass by pageable memory: {_some(blocking)}: "
            "make them with work.copy(..., pinned=True), or run in eager mode"
        )
    if not any(kind == "cuda" and lane.kind != "host" for kind, lane in zip(kinds, plan.lanes, strict=True)):
        raise CaptureError("graph mode needs a plan on GPUs: this one has none")


def _blocks(plan: Plan, copy: Copy) -> bool:
    """Whether the thread would wait for `copy`, or a CPU lane makes it."""
    kinds = [plan.platform.device(end).kind for end in (copy.source, copy.target)]
    return kinds != ["cuda", "cuda"] and (copy.memory != "pinned" or "cuda" not in kinds)


def _some(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more

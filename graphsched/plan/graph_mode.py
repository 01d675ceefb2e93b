"""What a plan must be for graph mode: CUDA graphs hold at least some of its actions."""

from __future__ import annotations

from graphsched.errors import CaptureError
from graphsched.plan.model import Plan
from graphsched.plan.segments import captured


def check_capturable(plan: Plan) -> None:
    """Make sure, before anything is captured, that graph mode has something to capture.

    Tasks on a CPU, and copies that pass by pageable memory, run between the graphs: see `segments_of`.

    Raises:
        CaptureError: The plan does nothing on a GPU that a CUDA graph can hold, or has collectives.
    """
    if "collective" in plan.kinds:
        raise CaptureError(
            f"graph mode does not capture collectives yet: {_some(plan.work.collectives)}: run in eager or distributed "
            "mode, or take another algorithm of graphsched.collectives, which is copies and sums"
        )
    if any(captured(plan)):
        return
    outside = [name for name, kind in zip(plan.names, plan.kinds, strict=True) if kind != "wait"]
    raise CaptureError(
        f"graph mode needs tasks on GPUs, or copies between them and pinned memory; this plan has {_some(outside)}: "
        "schedule tasks for GPUs, or run in eager mode"
    )


def _some(names: list[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more if names else "no task at all"

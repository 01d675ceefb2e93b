"""Plans of one action on the first GPU: what a run takes that holds nothing else.

Not modelled: copies that block.
"""

from __future__ import annotations

from graphsched.calibration.tiny_plans import page_on
from graphsched.calibration.tiny_tasks import KINDS, add_task, device_of
from graphsched.workload import Value, Workload


def one_task(work: Workload, inputs: list[Value]) -> dict[str, str]:
    """A task."""
    device = device_of(inputs[0])
    add_task(work, KINDS[0], inputs[0], "t0")
    return {"t0": f"{device}/s0"}


def one_copy_in(work: Workload, inputs: list[Value]) -> dict[str, str]:
    """A copy of pinned host memory to the GPU."""
    work.copy(page_on(work, "cpu"), to=device_of(inputs[0]), pinned=True, name="c0")
    return {}


def one_copy_out(work: Workload, inputs: list[Value]) -> dict[str, str]:
    """A copy from the GPU to pinned host memory."""
    work.copy(page_on(work, device_of(inputs[0])), to="cpu", pinned=True, name="c0")
    return {}


def one_copy_across(work: Workload, inputs: list[Value]) -> dict[str, str]:
    """A copy to another GPU."""
    work.copy(page_on(work, device_of(inputs[0])), to=device_of(inputs[1]), name="c0")
    return {}

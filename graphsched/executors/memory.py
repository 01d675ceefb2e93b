"""Whether the memory that a plan needs is there, before any is taken.

Not modelled: devices that share one memory (workers and their host are held against it one by one); memory that
something else takes between the check and the run.
"""

from __future__ import annotations

from functools import partial

from graphsched.errors import OutOfMemoryError
from graphsched.executors.lanes import device_index, is_cuda
from graphsched.plan import Peak, Plan
from graphsched.quantities import bytes_text

NAMED = 5  # of what is alive at a peak, the largest


def check_memory(plan: Plan) -> None:
    """Make sure that `plan` fits the memory of its devices, in its mode, before any is taken.

    Raises:
        OutOfMemoryError: It does not: names the device, what is needed and there, and what is alive at the peak.
    """
    if not plan.work.values and not plan.costs:  # a row that is measured: nothing is known that needs memory
        return
    rooms = {device: available_bytes(plan, device) for device in devices_of(plan)}
    if any(rooms.values()):
        for device, peak in plan.peak_memory.items():
            if 0 < rooms.get(device, 0) < peak.nbytes:
                raise OutOfMemoryError(_refusal(plan, device, peak, rooms[device]))


def available_bytes(plan: Plan, device: str) -> int:
    """Memory of `device` that a program can have; 0: unknown.

    The platform's figure or, of a GPU that is here, what is free now if that is less. What torch holds for tensors to
    come is free.
    """
    import torch

    known = plan.platform.device(device).memory_bytes
    if not is_cuda(device) or not torch.cuda.is_available():
        return known
    index = device_index(device)
    free = torch.cuda.mem_get_info(index)[0] + torch.cuda.memory_reserved(index) - torch.cuda.memory_allocated(index)
    return min(known or free, free)


def devices_of(plan: Plan) -> list[str]:
    """Devices that a program of `plan` may hold memory on."""
    used = [lane.device for lane in plan.lanes if lane.kind != "host"]
    return list(dict.fromkeys([*used, *plan.homes.values(), *(copy.target for copy in plan.copies.values())]))


_sized = partial(bytes_text, digits=4)  # what is needed may be little more than what is there


def _refusal(plan: Plan, device: str, peak: Peak, room: int) -> str:
    largest = ", ".join(
        f"{held.name} ({_sized(held.nbytes)}{f', of task {held.task!r}' if held.task else ''})"
        for held in peak.alive[:NAMED]
    )
    more = len(peak.alive) - NAMED
    at = f" at {peak.action!r}" if peak.action else ""
    workspace = f", {_sized(peak.workspace_bytes)} of them workspace" if peak.workspace_bytes else ""
    eager = "mode='eager', which gives memory back, " if plan.mode == "graph" else ""
    return (
        f"the plan does not fit {device}: its peak{at} is {_sized(peak.nbytes)}{workspace}, there are {_sized(room)}. "
        f"Inputs and states take {_sized(peak.resident_bytes)}. The largest alive then: {largest}"
        f"{f' and {more} more' if more > 0 else ''}: use "
        f"{eager}a smaller batch or more devices, or keep fewer values"
    )

"""One lane a device, in the order of the workload: with a wait after each task, or with none."""

from __future__ import annotations

from graphsched.costs import Costs
from graphsched.plan import Placement
from graphsched.platform import Platform
from graphsched.schedulers.placing.candidates import Devices, assign, find_candidates
from graphsched.schedulers.placing.lanes import Copies, lane_name
from graphsched.schedulers.registry import register
from graphsched.workload import Task, Workload


@register("sequential")
def sequential(work: Workload, platform: Platform, costs: Costs, *, copies: Copies = "own") -> Placement:  # noqa: ARG001
    """Each task on the first device where it may run; the dispatching thread waits after each, copies included.

    What a program does that synchronises after every call.
    """
    waits = frozenset(t.name for t in work.tasks if t.kind != "barrier")
    return Placement(list(work.graph), _first_lanes(work, platform), waits, copies)


@register("one_stream")
def one_stream(work: Workload, platform: Platform, costs: Costs, *, copies: Copies = "own") -> Placement:  # noqa: ARG001
    """Each task on the first device where it may run, with no waits but the workload's own.

    What plain PyTorch does on its default stream.
    """
    return Placement(list(work.graph), _first_lanes(work, platform), copies=copies)


def _first_lanes(work: Workload, platform: Platform) -> dict[str, str]:
    names = {device.name: lane_name(device, 0) for device in platform.devices}

    def first(task: Task, devices: Devices) -> tuple[str, str]:  # noqa: ARG001
        return devices[0], names[devices[0]]

    return assign(find_candidates(work, platform), work.tasks, first)

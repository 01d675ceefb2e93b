"""Which operations of a workload are to be measured, on which devices. No hardware is touched here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from graphsched.calibration.graph_operations import LONG_S
from graphsched.costs import Costs, TaskCost
from graphsched.platform import Device, Platform
from graphsched.workload import Task, Workload


def missing(
    work: Workload, platform: Platform, known: Costs, mode: str = "eager", *, concurrency: bool = True
) -> dict[str, list[Task]]:
    """Tasks to measure by device (the first of each model): one a signature, in the workload's order.

    Left out are copies and barriers, tasks without code, those whose duration is given, and those in `known`; but for
    `mode` ``graph`` not those that `lacks_graph` says more could be known of, for other modes not those whose costs
    of the host were left out, and with `concurrency` not those whose curve was.

    Example:
        >>> work = Workload()
        >>> platform = Platform("here", (Device("cpu", "cpu", "EPYC"),))
        >>> missing(work, platform, Costs())
        {}
    """
    first = first_of_model(platform)
    found: dict[str, dict[str, Task]] = {}
    for task in work.tasks:
        for device in allowed(task, platform):
            cost = known.get(task.signature, device.model)
            wanted = cost is None or lacks_more(cost, device, mode) or (concurrency and cost.curve_left_out)
            if wanted and not is_given(task, device):
                found.setdefault(first[device.model], {}).setdefault(task.signature, task)
    return {device: list(tasks.values()) for device, tasks in found.items()}


def lacks_more(cost: TaskCost, device: Device, mode: str) -> bool:
    """Whether more than its curve is still to be measured of an operation, for plans in this mode.

    Example:
        >>> gpu, of_graphs = Device("cuda:0", "cuda"), TaskCost(1e-5, graph_tried=True, host_left_out=True)
        >>> [lacks_more(of_graphs, gpu, mode) for mode in ("graph", "eager")]
        [False, True]
    """
    return lacks_graph(cost, device) if mode == "graph" else cost.host_left_out


def lacks_graph(cost: TaskCost, device: Device) -> bool:
    """Whether what an operation takes inside a CUDA graph was never looked for, though it may differ there.

    Example:
        >>> gpu = Device("cuda:0", "cuda")
        >>> lacks_graph(TaskCost(1e-5), gpu), lacks_graph(TaskCost(1e-5, graph_tried=True), gpu)
        (True, False)
        >>> lacks_graph(TaskCost(1e-5, graph_s=9e-6), gpu), lacks_graph(TaskCost(1e-3), gpu)
        (False, False)
    """
    if device.kind != "cuda" or cost.graph_tried or cost.graph_s is not None:
        return False
    return cost.device_s < LONG_S


def allowed(task: Task, platform: Platform) -> list[Device]:
    """Devices that a task with code may run on, accelerators first."""
    if task.kind != "run" or task.operation is None or task.operation.function is None:
        return []
    return [platform.device(name) for name in platform.matching(task.devices)]


def first_of_model(platform: Platform) -> dict[str, str]:
    """Name of the first device of each model.

    Example:
        >>> first_of_model(Platform("two", (Device("cuda:0", "cuda", "H200"), Device("cuda:1", "cuda", "H200"))))
        {'H200': 'cuda:0'}
    """
    first: dict[str, str] = {}
    for device in platform.devices:
        first.setdefault(device.model, device.name)
    return first


def is_given(task: Task, device: Device) -> bool:
    """Whether the user gave the task's duration on this device.

    Example:
        >>> is_given(Task("a", duration_s={"cuda": 1.0}), Device("cpu", "cpu"))
        False
    """
    given = task.duration_s
    if isinstance(given, Mapping):
        return device.name in given or device.kind in given
    return given is not None


def needed_for(work: Workload, tasks: Iterable[Task]) -> list[Task]:
    """`tasks` and all whose results they read, directly or not, in the workload's order.

    Example:
        >>> from graphsched.workload import Read, Value
        >>> needed_for(Workload(), [])
        []
    """
    names: set[str] = set()
    pending = [t.name for t in tasks]
    while pending:
        name = pending.pop()
        if name in names:
            continue
        names.add(name)
        for read in work[name].reads:
            pending += [n for n in (read.source, read.value.producer) if n is not None]
    return [t for t in work.tasks if t.name in names]


def relevant(work: Workload, platform: Platform, costs: Costs) -> Costs:
    """Those of `costs` that tasks of `work` have on devices of `platform`, in the workload's order."""
    keys: dict[tuple[str, str], None] = {}
    for task in work.tasks:
        first = task.devices[:1] if task.kind == "collective" else ()
        for device in (*allowed(task, platform), *map(platform.device, first)):
            keys[task.signature, device.model] = None
    return costs.chosen(keys)

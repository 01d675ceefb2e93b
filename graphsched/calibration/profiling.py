"""Measuring the operations of a workload, each alone, and those that a plan lets run side by side in pairs.

Arguments are the real ones of a serial run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

from graphsched.calibration.choosing import missing, relevant
from graphsched.calibration.collectives import measure_collectives, unmeasured_collectives
from graphsched.calibration.cost_cache import keep_costs, kept_costs
from graphsched.calibration.cpu_operations import SETS, measure_on_cpu
from graphsched.calibration.host import host_facts
from graphsched.calibration.meeting import unmeasured
from graphsched.calibration.pairing import measure_meetings
from graphsched.calibration.serial_run import SerialRun, failures_named
from graphsched.costs import Costs, TaskCost
from graphsched.errors import PlatformError
from graphsched.executors.collector import left_alone, no_collector
from graphsched.plan import Plan
from graphsched.platform import Platform
from graphsched.schedulers.scheduling import check_mode
from graphsched.workload import Task, Workload

Tasks = Mapping[str, Sequence[Task]]
"""To measure, by device."""


def profile(
    work: Workload | Plan,
    platform: Platform | None = None,
    *,
    repeats: int = 20,
    refresh: bool = False,
    concurrency: bool = True,
    mode: str | None = None,
) -> Costs:
    """Costs of the distinct operations of `work` on each model of device that they may run on.

    Each is measured alone, with the arguments of one serial run on clones of inputs and states, so
    that the user's tensors and random numbers stay as they are. Results are kept in the cache folder
    and used again while software and arithmetic flags are the same.

    For mode ``graph`` what calls cost the host is left out, which takes longer than all else; other modes
    measure it then.

    Of a plan, the pairs of operations that it lets run side by side on a GPU are measured too, and no
    others; those with most work first, for at most 25 s.

    Args:
        work: Tasks whose duration is given are left out, as are copies and barriers.
        platform: Of this host; default: the plan's.
        repeats: Least number of samples of each operation.
        refresh: Measure what is kept as well.
        concurrency: On GPUs, measure operations below 5 ms beside copies of themselves, and pairs.
        mode: How the plan is to run; default: as the plan says, else ``eager``. For ``graph``, what was kept before
            operations were measured inside CUDA graphs is measured again; what could not be captured is not.

    Raises:
        PlatformError: The platform is another host's, or there is none.
        ScheduleError: There is no such mode.
        TaskFailedError: A task raised; names it, its device and its inputs' shapes.
    """
    plan = work if isinstance(work, Plan) else None
    platform = plan.platform if platform is None and plan is not None else platform
    work = work.work if isinstance(work, Plan) else work
    if platform is None:
        raise PlatformError("profile of a workload needs a platform: that of gs.local_platform()")
    known = Costs() if refresh else kept_costs(platform)
    mode = mode or (plan.mode if plan is not None else "eager")
    check_mode(mode)
    wanted = missing(work, platform, known, mode, concurrency=concurrency)
    known = _with_operations(work, platform, known, wanted, repeats, concurrency, hosts=mode != "graph")
    known = _with_collectives(work, platform, known, repeats, mode)
    if plan is not None and concurrency:
        known = _with_pairs(replace(plan, costs=known, mode=mode), known)
    return relevant(work, platform, known)


def _with_operations(
    work: Workload,
    platform: Platform,
    known: Costs,
    wanted: Tasks,
    repeats: int,
    concurrency: bool,
    *,
    hosts: bool,
) -> Costs:
    """`known` and the costs that are `wanted`, which are kept."""
    for device in wanted:
        check_is_here(platform, device)
    for device, tasks in wanted.items():
        measured = _measure_on(work, platform, device, tasks, repeats, concurrency, hosts)
        keep_costs(measured)
        known = known.merged(measured)
    return known


def _with_collectives(work: Workload, platform: Platform, known: Costs, repeats: int, mode: str) -> Costs:
    """`known` and the collectives of `work` that it lacks, which are kept; those of ranks on CPUs are estimated."""
    wanted = unmeasured_collectives(work, platform, known)
    if mode == "distributed":
        wanted = [task for task in wanted if platform.device(task.devices[0]).kind == "cuda"]
    if not wanted:
        return known
    for device in dict.fromkeys(device for task in wanted for device in task.devices):
        check_is_here(platform, device)
    with no_collector():
        measured = measure_collectives(platform, wanted, repeats)
    keep_costs(measured)
    return known.merged(measured)


def _with_pairs(plan: Plan, known: Costs) -> Costs:
    """`known` and the pairs of `plan` that it lacks, which are kept."""
    wanted = unmeasured(plan, known)
    for device in dict.fromkeys(pair.device for pair in wanted):
        check_is_here(plan.platform, device)
    if not wanted:
        return known
    measured = measure_meetings(plan, wanted, known)
    keep_costs(measured)
    return known.merged(measured)


def check_is_here(platform: Platform, name: str) -> None:
    """Make sure that a device of `platform` is one of this host's.

    Raises:
        PlatformError: It is not.
    """
    device = platform.device(name)
    gpus = host_facts().gpus
    if device.kind != "cuda":
        return
    index = int(name.partition(":")[2] or 0)
    here = gpus[index] if index < len(gpus) else "no such GPU"
    if here != device.model:
        raise PlatformError(
            f"platform {platform.name!r} says that {name} is {device.model!r}, this host has {here}: "
            "measure with the platform of gs.local_platform()"
        )


def _measure_on(
    work: Workload,
    platform: Platform,
    device: str,
    tasks: Sequence[Task],
    repeats: int,
    concurrency: bool,
    hosts: bool,
) -> Costs:
    """Costs of `tasks` on one device; without `hosts` not what their calls cost the host, on GPUs."""
    import torch

    cuda = [int(device.partition(":")[2])] if device.startswith("cuda") else []
    model = platform.device(device).model
    with torch.random.fork_rng(devices=cuda), torch.no_grad(), left_alone(), no_collector():
        if cuda:
            found = _on_cuda(work, platform, device, cuda[0], tasks, repeats, concurrency, hosts)
        else:
            found = _on_cpu(work, platform, device, tasks, repeats)
    return Costs({(signature, model): cost for signature, cost in found.items()})


def _on_cpu(
    work: Workload, platform: Platform, device: str, tasks: Sequence[Task], repeats: int
) -> dict[str, TaskCost]:
    threads, found = platform.device(device).threads, {}
    for step in SerialRun(work, platform, device, tasks).steps():
        with failures_named(step.task, step.device):
            calls = [step.bound() for _ in range(SETS)]
            found[step.task.signature] = measure_on_cpu(calls, threads, repeats)
    return found


def _on_cuda(
    work: Workload,
    platform: Platform,
    device: str,
    index: int,
    tasks: Sequence[Task],
    repeats: int,
    concurrency: bool,
    hosts: bool,
) -> dict[str, TaskCost]:
    import torch

    from graphsched.calibration.cuda_clock import Spinner
    from graphsched.calibration.cuda_operations import measure_on_cuda
    from graphsched.calibration.host_costs import company_on

    spinner, found = Spinner(index), {}
    with company_on(index) if hosts else nullcontext() as company:
        for step in SerialRun(work, platform, device, tasks).steps():
            torch.cuda.synchronize(index)
            with failures_named(step.task, step.device):
                found[step.task.signature] = measure_on_cuda(
                    step, spinner, repeats, concurrency=concurrency, company=company
                )
    return found

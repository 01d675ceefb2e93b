"""Measuring the operations of a workload, each alone, and those that a plan lets run side by side in pairs.

Arguments are the real ones of a serial run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from numbers import Integral

from graphsched.calibration.choosing import lacks_more, missing, relevant
from graphsched.calibration.collectives import measure_collectives, unmeasured_collectives
from graphsched.calibration.cost_cache import keep_costs, kept_costs
from graphsched.calibration.cpu_operations import SETS, Sampled, measure_on_cpu, sets_on_cpu
from graphsched.calibration.fetched_operands import fetched
from graphsched.calibration.host import host_facts
from graphsched.calibration.lane_pace import Yardsticks
from graphsched.calibration.meeting import unmeasured
from graphsched.calibration.pairing import measure_meetings
from graphsched.calibration.serial_run import SerialRun, Step, failures_named
from graphsched.costs import Costs, TaskCost
from graphsched.errors import PlatformError, ScheduleError
from graphsched.executors.collector import left_alone, no_collector
from graphsched.executors.kept_memory import keep_memory
from graphsched.plan import Plan
from graphsched.platform import Device, Platform
from graphsched.schedulers.scheduling import check_mode, check_request
from graphsched.workload import Task, Workload

Tasks = Mapping[str, Sequence[Task]]
"""To measure, by device."""

Found = tuple[str, TaskCost]
"""An operation's signature and cost."""

Report = Callable[[str, int, int], None]
"""Called with a task's name, how many are begun with it, and how many there are."""


def profile(
    work: Workload | Plan,
    platform: Platform | None = None,
    *,
    repeats: int = 20,
    refresh: bool = False,
    concurrency: bool = True,
    mode: str | None = None,
    report: Report | None = None,
) -> Costs:
    """Costs of the distinct operations of `work` on each model of device that they may run on.

    Each is measured alone, with the arguments of one serial run on clones of inputs and states, so
    that the user's tensors and random numbers stay as they are. Results are kept in the cache folder
    and used again while software and arithmetic flags are the same; those measured before an error or
    Ctrl-C are kept, too.

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
        report: Called as each operation that has to be measured is begun, with the name of its task, its number
            from 1, and how many there are; pairs are not counted.

    Raises:
        PlatformError: The platform is another host's, or there is none.
        ScheduleError: There is no such mode, `work` is no workload, or `repeats` no number of samples.
        TaskFailedError: A task raised; names it, its device and its inputs' shapes.
    """
    plan = work if isinstance(work, Plan) else None
    platform = plan.platform if platform is None and plan is not None else platform
    work = work.work if isinstance(work, Plan) else work
    keep_memory()
    if platform is None:
        raise PlatformError("profile of a workload needs a platform: that of gs.local_platform()")
    check_request(work, platform)
    if isinstance(repeats, bool) or not isinstance(repeats, Integral) or repeats < 1:
        raise ScheduleError(f"repeats is {repeats!r}: a whole number, 1 or more, is needed")
    known = Costs() if refresh else kept_costs(platform)
    mode = mode or (plan.mode if plan is not None else "eager")
    check_mode(mode)
    wanted = missing(work, platform, known, mode, concurrency=concurrency)
    how = _How(repeats, concurrency, mode, begin=_counting(wanted, report))
    known = _with_operations(work, platform, known, wanted, how)
    known = _with_collectives(work, platform, known, repeats, mode)
    if plan is not None and concurrency:
        known = _with_pairs(replace(plan, costs=known, mode=mode), known)
    return relevant(work, platform, known)


@dataclass(frozen=True)
class _How:
    """How operations are measured.

    Attributes:
        repeats: Least number of samples of each.
        concurrency: Their curves too.
        mode: Of the plans that they are measured for; but for ``graph``, what calls cost the host is measured too.
        begin: Called with each task that is begun.
    """

    repeats: int
    concurrency: bool
    mode: str
    begin: Callable[[Task], None]


def _counting(wanted: Tasks, report: Report | None) -> Callable[[Task], None]:
    """A function that tells `report` of each task as it is begun."""
    count, total = itertools.count(1), sum(map(len, wanted.values()))
    return lambda task: report(task.name, next(count), total) if report is not None else None


def _with_operations(work: Workload, platform: Platform, known: Costs, wanted: Tasks, how: _How) -> Costs:
    """`known` and the costs that are `wanted`, which are kept: after an error, and Ctrl-C, those that are there."""
    for device in wanted:
        check_is_here(platform, device)
    for device, tasks in wanted.items():
        model = platform.device(device).model
        measured: dict[tuple[str, str], TaskCost] = {}
        try:
            with closing(_measured_on(work, platform, device, tasks, known, how)) as found:
                for signature, cost in found:
                    measured[signature, model] = cost
        finally:
            if measured:
                keep_costs(Costs(measured))
        known = known.merged(Costs(measured))
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
    device, facts = platform.device(name), host_facts()
    if device.kind == "cuda":
        number = name.partition(":")[2] or "0"
        index = int(number) if number.isdecimal() else len(facts.gpus)
        said, here = device.model, facts.gpus[index] if index < len(facts.gpus) else "no such GPU"
    else:  # one that was written by hand does not say whose it is
        stored = platform.provenance.get("fingerprint")
        here = facts.processor
        said = stored.get("processor", here) if isinstance(stored, Mapping) else here
    if here != said:
        raise PlatformError(
            f"platform {platform.name!r} says that {name} is {said!r}, this host has {here}: "
            "measure with the platform of gs.local_platform()"
        )


def _measured_on(
    work: Workload, platform: Platform, device: str, tasks: Sequence[Task], known: Costs, how: _How
) -> Generator[Found, None, None]:
    """Signatures and costs of `tasks` on one device, one after the other."""
    import torch

    cuda = [int(device.partition(":")[2])] if device.startswith("cuda") else []
    with torch.random.fork_rng(devices=cuda), torch.no_grad(), left_alone(), no_collector():
        steps = SerialRun(work, platform, device, tasks).steps()
        if cuda:
            yield from _on_cuda(steps, cuda[0], _without_curve(tasks, platform.device(device), known, how.mode), how)
        else:
            yield from _on_cpu(steps, platform.device(device).threads, how)


def _without_curve(tasks: Sequence[Task], device: Device, known: Costs, mode: str) -> dict[str, TaskCost]:
    """Those costs of `tasks`, by signature, that lack nothing but their curve."""
    costs = {task.signature: known.get(task.signature, device.model) for task in tasks}
    return {
        signature: cost for signature, cost in costs.items() if cost is not None and not lacks_more(cost, device, mode)
    }


def _on_cpu(steps: Iterator[Step], threads: int, how: _How) -> Iterator[Found]:
    yardsticks = Yardsticks(threads)
    for step in steps:
        how.begin(step.task)
        with failures_named(step.task, step.device):
            cost = measure_on_cpu(_sampled(step, threads), yardsticks, how.repeats, step.task.nbytes)
        yield step.task.signature, cost


def _sampled(step: Step, threads: int) -> list[Sampled]:
    """The step's call on sets of operands.

    For a lane of several threads beside a GPU, which brings them anew, they are more than caches hold.
    """
    if threads == 1 or not host_facts().gpus:
        return [Sampled(step.bound()) for _ in range(SETS)]
    sets = fetched(step.tensors, sets_on_cpu(sum(t.nbytes for t in step.tensors)))
    return [Sampled(step.bound(one.tensors), one.fetch, one.fetch_s) for one in sets]


def _on_cuda(steps: Iterator[Step], index: int, without_curve: Mapping[str, TaskCost], how: _How) -> Iterator[Found]:
    import torch

    from graphsched.calibration.cuda_clock import Spinner
    from graphsched.calibration.cuda_operations import measure_on_cuda, with_curve
    from graphsched.calibration.host_costs import company_on

    spinner = Spinner(index)
    with company_on(index) if how.mode != "graph" else nullcontext() as company:
        for step in steps:
            how.begin(step.task)
            torch.cuda.synchronize(index)
            known = without_curve.get(step.task.signature)
            with failures_named(step.task, step.device):
                if known is not None:
                    cost = with_curve(known, step, spinner)
                else:
                    cost = measure_on_cuda(step, spinner, how.repeats, concurrency=how.concurrency, company=company)
            yield step.task.signature, cost

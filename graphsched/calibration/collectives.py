"""What collectives take, each alone, by plans of a few in a row in one process.

In a row, and on GPUs behind tasks that take longer than issuing all of them: a small sum is over before the thread has
launched it on the last GPU, and would be taken for as long as that takes (LeNet's gradients on two H200s: 44 and 67 µs,
their call 47 and 72, and both together 66 in a run). The first does not count. Calls go with the thread's yardstick.
Between ranks on CPUs Gloo does what a plain sum does in one process: that is not measured here, and estimated.

Not modelled: collectives beside other work; ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from statistics import median
from typing import Any, NamedTuple

from graphsched.calibration.cuda_calls import Yardstick
from graphsched.calibration.sampling import cost_of
from graphsched.costs import Costs, TaskCost
from graphsched.executors.program import Program
from graphsched.executors.timed_runs import Clocks, on_host_clock
from graphsched.plan import Placement, Plan, build_plan
from graphsched.platform import Platform
from graphsched.workload import Task, TensorSpec, Workload

IN_A_ROW = 4
BUSY = 4096  # rows of a product of some milliseconds, far longer than the calls of a row
WARMUP = 2


def unmeasured_collectives(work: Workload, platform: Platform, known: Costs) -> list[Task]:
    """One collective of each signature whose cost is neither known nor given."""
    found: dict[tuple[str, str], Task] = {}
    for name in work.collectives:
        task = work[name]
        model = platform.device(task.devices[0]).model
        if task.duration_s is None and known.get(task.signature, model) is None:
            found.setdefault((task.signature, model), task)
    return list(found.values())


def measure_collectives(platform: Platform, tasks: Sequence[Task], repeats: int) -> Costs:
    """Costs of collectives on devices of this host.

    Raises:
        TaskFailedError: One failed; names it.
    """
    return Costs({(task.signature, platform.device(task.devices[0]).model): _cost(platform, task, repeats)
                  for task in tasks})  # fmt: skip


def _cost(platform: Platform, task: Task, repeats: int) -> TaskCost:
    if platform.device(task.devices[0]).kind == "cuda":
        return _on_gpus(platform, task, repeats)
    runs = _runs(_plan(platform, task), repeats)
    return cost_of([seconds for run in runs for seconds in run.spans_s])


def _on_gpus(platform: Platform, task: Task, repeats: int) -> TaskCost:
    """Beyond their timing events; what the thread takes is told by yardsticks that are taken by turns."""
    costs, gpu = platform.dispatch, int(task.devices[0].partition(":")[2])
    with closing(Yardstick(gpu)) as yardstick:
        runs = _runs(_plan(platform, task), repeats, yardstick.sample_s)
    spans_s = [max(0.0, seconds - costs.timed_gap_s) for run in runs for seconds in run.spans_s]
    calls = median([seconds / run.unit_s for run in runs for seconds in run.issues_s])
    stamps = 2 * costs.timed_record_s / costs.call_s if costs.call_s else 0.0
    call_s = median([run.unit_s for run in runs])
    return replace(cost_of(spans_s), dispatch_s=max(0.0, calls - stamps) * call_s, call_s=call_s)


def _plan(platform: Platform, task: Task) -> Plan:
    """The collective some times in a row, on values that are there before; on GPUs behind a long task on each."""
    assert task.operation is not None
    work = Workload("collective")
    values, lanes = list[Any](), {}
    for k, (read, device) in enumerate(task.reads_on("")):
        value: Any = work.input(f"x{k}", read.value.spec, device=device)
        if platform.device(device).kind == "cuda":
            page, name = work.input(f"page{k}", TensorSpec((BUSY, BUSY)), device=device), f"busy{k}"
            value = work.task(_behind_product, value, page, name=name, device=device, outputs=[value.spec])
            lanes[name] = f"{device}/s0"
        values.append(value)
    for name in _names(task):
        work.collective(task.operation.name, values, devices=task.devices, name=name)  # type: ignore[arg-type]
    order = [*lanes, *_names(task)]
    return build_plan(work, platform, None, Placement(order, lanes), scheduler="alone")


def _names(task: Task) -> list[str]:
    assert task.operation is not None
    return [f"{task.operation.name}{i}" for i in range(IN_A_ROW)]


def _behind_product(value: Any, page: Any) -> Any:
    """A copy of `value`, behind a product of `page`."""
    page.mm(page)
    return value.clone()


class _Run(NamedTuple):
    """Seconds of each collective but the first of a run, of issuing it, and of the yardstick just before."""

    spans_s: list[float]
    issues_s: list[float]
    unit_s: float


def _runs(plan: Plan, repeats: int, unit_s: Callable[[], float] = float) -> list[_Run]:
    import torch

    found: list[_Run] = []
    given = {name: torch.ones(v.spec.shape, dtype=getattr(torch, v.spec.dtype))
             for name, v in plan.work.values.items() if v.kind == "input" and v.spec is not None}  # fmt: skip
    counted = [plan.index_of[name] for name in plan.work.collectives][1:]
    with Program(plan) as program:
        program.load(given)
        for _ in range(WARMUP):
            program.time_once()
        while sum(len(run.spans_s) for run in found) < repeats:
            now_s = unit_s()
            clocks = Clocks(program)
            stamps, _, _ = program.time_spans()
            clocks.finish()
            start, end = on_host_clock(program, stamps, clocks)
            spans_s = [float(end[i] - start[i]) for i in counted]
            found.append(_Run(spans_s, [stamps.issue_end[i] - stamps.issue_start[i] for i in counted], now_s))
    return found

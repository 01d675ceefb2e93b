"""What collectives take, each alone, by plans of a few in a row in one process.

In a row, so that on GPUs the next waits on the streams while one is under way; the first does not count. Between ranks
on CPUs Gloo does what a plain sum does in one process: that is not measured here, and estimated.

Not modelled: collectives beside other work; ranks.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

from graphsched.costs import Costs, TaskCost
from graphsched.executors.program import Program
from graphsched.executors.timed_runs import Clocks, on_host_clock
from graphsched.plan import Placement, Plan, build_plan
from graphsched.platform import Platform
from graphsched.workload import Task, Workload

IN_A_ROW = 4
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
    spans_s, issues_s = _spans(_plan(platform, task), repeats)
    costs, on_gpus = platform.dispatch, platform.device(task.devices[0]).kind == "cuda"
    low, middle, high = (max(0.0, float(x) - on_gpus * costs.timed_gap_s) for x in np.percentile(spans_s, (25, 50, 75)))
    dispatch_s = max(0.0, statistics.median(issues_s) - 2 * costs.timed_record_s) if on_gpus else 0.0
    return TaskCost(middle, dispatch_s, quartiles_s=(low, high), samples=len(spans_s))


def _plan(platform: Platform, task: Task) -> Plan:
    """The collective some times in a row, on values that are there before."""
    assert task.operation is not None
    work = Workload("collective")
    values = [work.input(f"x{k}", r.value.spec, device=d) for k, (r, d) in enumerate(task.reads_on(""))]
    names = [f"{task.operation.name}{i}" for i in range(IN_A_ROW)]
    for name in names:
        work.collective(task.operation.name, values, devices=task.devices, name=name)  # type: ignore[arg-type]
    return build_plan(work, platform, None, Placement(names, {}), scheduler="alone")


def _spans(plan: Plan, repeats: int) -> tuple[list[float], list[float]]:
    """Seconds of each collective but the first of every run, and seconds of issuing it."""
    import torch

    spans_s: list[float] = []
    issues_s: list[float] = []
    given = {name: torch.ones(v.spec.shape, dtype=getattr(torch, v.spec.dtype))
             for name, v in plan.work.values.items() if v.kind == "input" and v.spec is not None}  # fmt: skip
    with Program(plan) as program:
        program.load(given)
        for _ in range(WARMUP):
            program.time_once()
        while len(spans_s) < repeats:
            clocks = Clocks(program)
            stamps, _, _ = program.time_spans()
            clocks.finish()
            start, end = on_host_clock(program, stamps, clocks)
            spans_s += [float(seconds) for seconds in (end - start)[1:]]
            issues_s += [b - a for a, b in zip(stamps.issue_start, stamps.issue_end, strict=True)][1:]
    return spans_s, issues_s

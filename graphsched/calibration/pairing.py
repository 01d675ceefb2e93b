"""Measuring the pairs of operations that meet in a plan, with the real arguments of a serial run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from graphsched.calibration.meeting import Meeting
from graphsched.calibration.serial_run import SerialRun, Step, failures_named
from graphsched.costs import Beside, Costs
from graphsched.plan import Plan
from graphsched.workload import Task

if TYPE_CHECKING:
    from graphsched.calibration.cuda_pairs import Operation

TAKES_S = 25.0
"""No pair is begun after so many seconds."""


def measure_meetings(plan: Plan, pairs: Sequence[Meeting], costs: Costs, takes_s: float = TAKES_S) -> Costs:
    """What the operations of `pairs` cost each other: those that can be measured, in this order, while there is time.

    Raises:
        TaskFailedError: A task raised; names it, its device and its inputs' shapes.
    """
    found: dict[tuple[str, str, str], Beside] = {}
    until = time.perf_counter() + takes_s
    for device in dict.fromkeys(pair.device for pair in pairs):
        here = [pair for pair in pairs if pair.device == device]
        found |= _measured_on(device, plan, here, costs, until)
    return Costs(pairs=found)


def _measured_on(
    device: str, plan: Plan, pairs: Sequence[Meeting], costs: Costs, until: float
) -> dict[tuple[str, str, str], Beside]:
    import torch

    from graphsched.calibration.cuda_clock import Spinner
    from graphsched.calibration.cuda_pairs import copies_in_graph, measure_pair

    index, found = int(device.partition(":")[2]), {}
    model = plan.platform.device(device).model
    with torch.random.fork_rng(devices=[index]), torch.no_grad(), torch.cuda.device(index):
        operations = _operations(plan, device, model, {s for pair in pairs for s in pair.signatures}, costs)
        spinner = Spinner(index)
        for pair in pairs:
            if time.perf_counter() > until:
                break
            first, second = pair.signatures
            mine, other = operations[first], operations[second]
            both = _known(pair, costs) or measure_pair(mine, other, spinner)
            if both is None:
                continue
            if pair.in_graph:
                both = (copies_in_graph(mine, both[0], index),) * 2
            found[first, second, model], found[second, first, model] = both
    return found


def _known(pair: Meeting, costs: Costs) -> tuple[Beside, Beside] | None:
    """Of an operation beside itself that was measured in streams and is asked for in graphs; else None."""
    there = costs.get_pair(*pair.signatures, pair.model) if pair.in_graph else None
    curve = costs[pair.signatures[0], pair.model].concurrency
    return (there, there) if there is not None and (there.copies or not curve) else None


def _operations(plan: Plan, device: str, model: str, signatures: set[str], costs: Costs) -> dict[str, Operation]:
    """Operations by signature, each with its arguments."""
    steps = SerialRun(plan.work, plan.platform, device, _one_of_each(plan.work.tasks, signatures)).steps()
    return {step.task.signature: _operation(step, costs, model) for step in steps}


def _operation(step: Step, costs: Costs, model: str) -> Operation:
    from graphsched.calibration.cuda_pairs import Operation

    with failures_named(step.task, step.device):
        return Operation((step.bound(), step.bound()), costs[step.task.signature, model])


def _one_of_each(tasks: Iterable[Task], signatures: set[str]) -> list[Task]:
    """The first task of each signature."""
    found: dict[str, Task] = {}
    for task in tasks:
        if task.signature in signatures:
            found.setdefault(task.signature, task)
    return list(found.values())

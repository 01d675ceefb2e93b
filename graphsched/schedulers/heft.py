"""Heterogeneous earliest finish time: by upward rank, each task to the lane where it is over first."""

from __future__ import annotations

from collections.abc import Mapping
from operator import mul

import numpy as np

from graphsched.costs import Costs
from graphsched.garbage import collector_off
from graphsched.plan import Placement
from graphsched.platform import Platform
from graphsched.schedulers.placing.candidates import Candidates, Devices, find_candidates
from graphsched.schedulers.placing.durations import Durations, Transfers
from graphsched.schedulers.placing.forecast import Forecast
from graphsched.schedulers.placing.incoming import Alone, Queued
from graphsched.schedulers.placing.lanes import Copies, lane_counts
from graphsched.schedulers.placing.queues import Queues
from graphsched.schedulers.registry import register
from graphsched.workload import Task, Workload

ROUNDING = 1e-12  # ranks that differ by less, as a share of the largest, are equal


@register("heft")
@collector_off()
def heft(
    work: Workload,
    platform: Platform,
    costs: Costs,
    *,
    lanes: int = 1,
    copies: Copies = "own",
    contention: bool = True,
) -> Placement:
    """Tasks by upward rank, each to the lane (of `lanes` on each device) where it is over first.

    A task may go into a gap between tasks placed before. A value reaches a device once, for all readers there; its copy
    is agreed on when the first of them is placed, and asked about while devices are compared. A state that the workload
    does not place lives where the first task goes that reads or updates it. The dispatch order is that of predicted
    starts.

    Args:
        work: What to run.
        platform: What to run it on.
        costs: Costs of its tasks.
        lanes: Compute lanes on each device.
        copies: Lanes of the copies that the workload asks for.
        contention: Whether copies queue for lanes, engines and shared capacities (`placing.queues`). Without, as in the
            paper, each takes its link's time alone, but for those that the workload asks for, which queue for their
            lane.

    Source: H. Topcuoglu, S. Hariri, M.-Y. Wu: Performance-effective and low-complexity task scheduling
    for heterogeneous computing. IEEE TPDS 13 (3), 2002, section 4.1; of the queues O. Sinnen, L. Sousa: Communication
    contention in task scheduling. IEEE TPDS 16 (6), 2005.

    Not modelled: dispatch; lanes that share a device; the thread that pageable copies block; queues in the ranks.

    Raises:
        ScheduleError: More lanes than a device may have.
        PlatformError: No link brings a task's values to a device where it may run.
    """
    forecast = forecast_heft(work, platform, costs, lanes=lanes, copies=copies, contention=contention)
    order = sorted(forecast.start_s, key=forecast.start_s.__getitem__)
    return Placement(order, forecast.lanes(), copies=copies)


def forecast_heft(
    work: Workload, platform: Platform, costs: Costs, *, lanes: int, copies: Copies, contention: bool
) -> Forecast:
    """The times and lanes that `heft` finds, tasks in the order of their ranks."""
    candidates = find_candidates(work, platform)
    counts = lane_counts(platform, candidates.used(), lanes)
    durations, transfers = Durations(platform, costs), Transfers(platform, counts)
    ranks = upward_ranks(work, candidates, counts, durations, transfers)
    incoming = Queued(Queues(platform), transfers) if contention else Alone(transfers)
    forecast = Forecast(work, platform, candidates, counts, durations, transfers, copies, incoming)
    grain = max(ranks.values(), default=0.0) * ROUNDING or 1.0
    tasks = work.tasks
    steps = np.rint(np.array([ranks[task.name] for task in tasks]) / grain)
    for k in np.argsort(-steps, kind="stable").tolist():  # ties: order of the workload
        forecast.place(tasks[k])
    return forecast


def upward_ranks(
    work: Workload, candidates: Candidates, counts: dict[str, int], durations: Durations, transfers: Transfers
) -> dict[str, float]:
    """Mean seconds of the longest path from the start of each task to the end of the workload.

    Durations are averaged over the lanes where a task may run (`counts` by device), transfers over
    pairs of such lanes. A copy that the workload asks for is a node of the path, not an edge.
    """
    devices, group_of = candidates.devices, candidates.group_of
    kinds = _Kinds(work, candidates, counts)
    successors = dict(work.graph.adjacency())
    means: list[list[tuple[float, float] | None]] = [[None] * len(kinds.lanes) for _ in kinds.lanes]
    known: dict[str, tuple[float, int]] = {}  # rank, and kind if it reads what others send
    for task in reversed(work.tasks):
        name, below = task.name, 0.0
        kind, group = kinds.of.get(name, -1), group_of.get(name, -1)
        mean_to = means[kind] if kind >= 0 else []
        for after, edge in successors[name].items():
            length, reader = known[after]
            if reader >= 0 and edge["values"] and (group < 0 or group_of.get(after) != group):
                mean = mean_to[reader]
                if mean is None:
                    mean = mean_to[reader] = transfers.mean(kinds.where[name], kinds.where[after])
                length += mean[0] + edge["nbytes"] * mean[1]
            if length > below:
                below = length
        if task.kind == "run":
            number, lanes = kinds.lanes[kind]
            row = durations.row(task, devices[name])
            known[name] = (sum(map(mul, lanes, row)) if lanes else sum(row)) / number + below, kind
        else:
            known[name] = (_mean_copy_s(task, kinds.where, transfers) if task.kind == "copy" else 0.0) + below, -1
    return {name: rank for name, (rank, _) in known.items()}


class _Kinds:
    """Tasks by where their outputs may be made: few kinds, as numbers, for a tuple of names takes long to look up.

    Attributes:
        where: Devices where the outputs of each task may be made; none for barriers.
        of: Kind of each of these tasks.
        lanes: Of each kind the number of lanes in all, and on each of its devices; none of these where each has one.
    """

    def __init__(self, work: Workload, candidates: Candidates, counts: Mapping[str, int]) -> None:
        self.where: dict[str, Devices] = dict(candidates.devices)
        self.where.update((task.name, (str(task.outputs[0].device),)) for task in work.tasks if task.kind == "copy")
        numbers = {devices: k for k, devices in enumerate(dict.fromkeys(self.where.values()))}
        self.of = {name: numbers[devices] for name, devices in self.where.items()}
        lanes = [[counts.get(device, 0) for device in devices] for devices in numbers]
        self.lanes = [(sum(row), row if set(row) != {1} else []) for row in lanes]


def _mean_copy_s(task: Task, where: Mapping[str, Devices], transfers: Transfers) -> float:
    read = task.reads[0]
    sources = where[read.source] if read.source else (read.value.device or "cpu",)
    return transfers.mean_asked_s(sources, where[task.name][0], task.memory, read.value.nbytes)

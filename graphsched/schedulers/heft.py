"""Heterogeneous earliest finish time: by upward rank, each task to the lane where it is over first."""

from __future__ import annotations

from graphsched.costs import Costs
from graphsched.plan import Placement
from graphsched.platform import Platform
from graphsched.schedulers.candidates import Candidates, Devices, find_candidates
from graphsched.schedulers.durations import Durations, Transfers
from graphsched.schedulers.forecast import Forecast
from graphsched.schedulers.lanes import Copies, lane_counts
from graphsched.schedulers.registry import register
from graphsched.workload import Task, Workload

ROUNDING = 1e-12  # ranks that differ by less, as a share of the largest, are equal


@register("heft")
def heft(work: Workload, platform: Platform, costs: Costs, *, lanes: int = 1, copies: Copies = "own") -> Placement:
    """Tasks by upward rank, each to the lane (of `lanes` on each device) where it is over first.

    A task may go into a gap between tasks placed before. A copy that the workload asks for occupies
    its lane; any other value reaches a device once, after its link's time alone, for all readers there.
    A state that the workload does not place lives where the first task goes that reads or updates it.
    The dispatch order is that of predicted starts.

    Source: H. Topcuoglu, S. Hariri, M.-Y. Wu: Performance-effective and low-complexity task scheduling
    for heterogeneous computing. IEEE TPDS 13 (3), 2002, section 4.1.

    Not modelled: dispatch; lanes that share a device; inserted copies that queue or share links.

    Raises:
        ScheduleError: More lanes than a device may have.
        PlatformError: No link brings a task's values to a device where it may run.
    """
    candidates = find_candidates(work, platform)
    counts = lane_counts(platform, candidates.used(), lanes)
    durations, transfers = Durations(platform, costs), Transfers(platform, counts)
    tasks = work.tasks
    ranks = upward_ranks(work, candidates, counts, durations, transfers)
    forecast = Forecast(work, platform, candidates, counts, durations, transfers, copies)
    grain = max(ranks.values(), default=0.0) * ROUNDING or 1.0
    by_rank = sorted(tasks, key=lambda task: -round(ranks[task.name] / grain))  # ties: order of the workload
    for task in by_rank:
        forecast.place(task)
    order = sorted((task.name for task in by_rank), key=forecast.start_s.__getitem__)
    return Placement(order, forecast.lanes(), copies=copies)


def upward_ranks(
    work: Workload, candidates: Candidates, counts: dict[str, int], durations: Durations, transfers: Transfers
) -> dict[str, float]:
    """Mean seconds of the longest path from the start of each task to the end of the workload.

    Durations are averaged over the lanes where a task may run (`counts` by device), transfers over
    pairs of such lanes. A copy that the workload asks for is a node of the path, not an edge.
    """
    where = {task.name: _homes(task, candidates) for task in work.tasks}
    group_of = candidates.group_of
    ranks: dict[str, float] = {}
    for task in reversed(work.tasks):
        name, below = task.name, 0.0
        group = group_of.get(name, -1)
        for after, edge in work.graph.succ[name].items():
            length = ranks[after]
            if edge["values"] and after in candidates.devices and (group < 0 or group_of.get(after) != group):
                length += transfers.mean_s(where[name], where[after], edge["nbytes"])
            if length > below:
                below = length
        ranks[name] = _mean_s(task, where, counts, durations, transfers) + below
    return ranks


def _homes(task: Task, candidates: Candidates) -> Devices:
    """Devices where the outputs of `task` may be made."""
    if task.kind == "copy":
        return (str(task.outputs[0].device),)
    return candidates.devices.get(task.name, ())


def _mean_s(
    task: Task, where: dict[str, Devices], counts: dict[str, int], durations: Durations, transfers: Transfers
) -> float:
    if task.kind == "barrier":
        return 0.0
    if task.kind == "copy":
        read = task.reads[0]
        home = read.value.device or "cpu"
        sources = where[read.source] if read.source else (home,)
        return transfers.mean_asked_s(sources, where[task.name][0], task.memory, read.value.nbytes)
    devices = where[task.name]
    seconds = durations.row(task, devices)
    lanes = [counts[d] for d in devices]
    return sum(n * s for n, s in zip(lanes, seconds, strict=True)) / sum(lanes)

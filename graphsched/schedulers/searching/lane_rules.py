"""Rules that spread tasks over several lanes of the devices that they have been assigned to.

Not modelled: time beside others on the device, and dispatch: what a rule is worth a simulation must say.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from graphsched.costs import Costs, TaskCost
from graphsched.estimates import task_cost
from graphsched.plan import Lane, Placement
from graphsched.platform import Platform
from graphsched.schedulers.heft import ROUNDING, upward_ranks
from graphsched.schedulers.placing.candidates import find_candidates
from graphsched.schedulers.placing.durations import Durations, Transfers
from graphsched.schedulers.placing.lanes import Copies, lane_name
from graphsched.simulator.blocks import shape_of
from graphsched.workload import Workload

FULL = 0.75
"""A task that takes up this part of its device leaves little room beside it."""

MANY_BLOCKS = 2**40

Numbers = dict[str, int]
"""Number of each task's lane among those of its device."""


@dataclass(frozen=True, eq=False)
class Assigned:
    """A workload whose tasks have devices.

    Attributes:
        copies: Lanes of the copies that the workload asks for, as in a `Placement`.
        device_of: Device of each task of kind ``run``.
        seconds: Of each of these alone on its device.
        shares: Part of the device that each of these takes up.
        by_rank: All tasks, those with the longest way to the end first.
        by_level: All tasks, those with the fewest tasks on the way to them first.
    """

    work: Workload
    platform: Platform
    copies: Copies
    device_of: Mapping[str, str]
    seconds: Mapping[str, float]
    shares: Mapping[str, float]
    by_rank: Sequence[str]
    by_level: Sequence[str]

    def counts(self, lanes: int) -> dict[str, int]:
        """Lanes of each device in use: `lanes`, or as many as it may have."""
        return {name: min(lanes, self.platform.device(name).lanes) for name in dict.fromkeys(self.device_of.values())}

    def lanes_for(self, name: str, most: int) -> list[str]:
        """Lanes of the device of a task: `most`, or as many as it may have."""
        device = self.platform.device(self.device_of[name])
        return [lane_name(device, number) for number in range(min(most, device.lanes))]

    def placed(self, order: Sequence[str], labels: Mapping[str, Hashable]) -> Placement:
        """Tasks of one label on one lane, numbered on each device in the order of their first use; no waits."""
        known: dict[str, dict[Hashable, str]] = {}
        lanes = {}
        for name in order:
            if name in self.device_of:
                device = self.platform.device(self.device_of[name])
                names = known.setdefault(device.name, {})
                lanes[name] = names.setdefault(labels[name], lane_name(device, len(names)))
        return Placement(order, lanes, copies=self.copies)


def assigned(work: Workload, platform: Platform, costs: Costs, base: Placement) -> Assigned:
    """`work` with the devices and the lanes of copies of `base`."""
    device_of = {name: Lane.named(lane).device for name, lane in base.lanes.items()}
    found = {name: task_cost(work[name], platform.device(device), costs) for name, device in device_of.items()}
    return Assigned(
        work,
        platform,
        base.copies,
        device_of,
        seconds={name: cost.device_s for name, cost in found.items()},
        shares={name: share_of(cost) for name, cost in found.items()},
        by_rank=_by_rank(work, platform, costs),
        by_level=_by_level(work),
    )


def _by_rank(work: Workload, platform: Platform, costs: Costs) -> list[str]:
    candidates = find_candidates(work, platform)
    counts = dict.fromkeys(candidates.used(), 1)
    ranks = upward_ranks(work, candidates, counts, Durations(platform, costs), Transfers(platform, counts))
    grain = max(ranks.values(), default=0.0) * ROUNDING or 1.0
    return sorted(work.graph, key=lambda name: -round(ranks[name] / grain))  # ties: order of the workload


def _by_level(work: Workload) -> list[str]:
    level: dict[str, int] = {}
    for name in work.graph:
        level[name] = max((level[before] + 1 for before in work.graph.pred[name]), default=0)
    return sorted(work.graph, key=level.__getitem__)


def share_of(cost: TaskCost) -> float:
    """Part of a device that a task takes up: by the blocks of its kernels, else by its curve, else all of it.

    Example:
        >>> share_of(TaskCost(1.0, concurrency=((2, 1.0), (4, 2.0)))), share_of(TaskCost(1.0))
        (0.5, 1.0)
    """
    total = sum(kernel.share for kernel in cost.kernels)
    if cost.processors is None or not total:
        return min([1.0, *(slowdown / k for k, slowdown in cost.concurrency if k > 0)])
    filled = 0.0
    for kernel in cost.kernels:
        most = shape_of(replace(kernel, blocks=MANY_BLOCKS), cost.processors).resident
        filled += kernel.share * min(1.0, kernel.blocks / most)
    return filled / total


# -- rules -----------------------------------------------------------------------------------


def placements(tasks: Assigned, lane_numbers: Sequence[int]) -> Iterator[Placement]:
    """What each rule makes of each of these numbers of lanes a device, in several orders of dispatch.

    A search that ends early has seen the rules that are best most often.
    """
    by_work = tuple(tasks.work.graph)
    yield tasks.placed(tasks.by_rank, dict.fromkeys(tasks.device_of, 0))
    for order in (tasks.by_rank, by_work, tasks.by_level):
        yield from (tasks.placed(order, paths(tasks, lanes)) for lanes in lane_numbers)
    if len({share >= FULL for share in tasks.shares.values()}) > 1:
        yield from (tasks.placed(tasks.by_rank, beside(tasks, lanes)) for lanes in lane_numbers)
    for order in (by_work, tasks.by_rank, tasks.by_level):
        yield from (tasks.placed(order, turns(tasks, order, lanes)) for lanes in lane_numbers)


def turns(tasks: Assigned, order: Iterable[str], lanes: int) -> Numbers:
    """In this order, each task to the next lane of its device."""
    counts = tasks.counts(lanes)
    turn = dict.fromkeys(counts, -1)
    numbers: Numbers = {}
    for name in order:
        if name in tasks.device_of:
            device = tasks.device_of[name]
            numbers[name] = turn[device] = (turn[device] + 1) % counts[device]
    return numbers


def paths(tasks: Assigned, lanes: int) -> Numbers:
    """The longest path to one lane, the longest of what is left to the next: each to where least is to do."""
    return _by_paths(tasks, [name for name in tasks.by_rank if name in tasks.device_of], tasks.counts(lanes))


def beside(tasks: Assigned, lanes: int) -> Numbers:
    """Tasks that fill their device to its first lane, the others by paths to the lanes beside it."""
    counts = tasks.counts(lanes)
    small = [name for name in tasks.by_rank if name in tasks.device_of and tasks.shares[name] < FULL]
    numbers = _by_paths(tasks, small, {device: max(1, n - 1) for device, n in counts.items()})
    return {name: min(numbers.get(name, -1) + 1, counts[device] - 1) for name, device in tasks.device_of.items()}


def _by_paths(tasks: Assigned, by_rank: Sequence[str], counts: Mapping[str, int]) -> Numbers:
    place = {name: i for i, name in enumerate(by_rank)}
    todo = dict.fromkeys(by_rank)
    filled_s = {device: [0.0] * n for device, n in counts.items()}
    numbers: Numbers = {}
    for name in by_rank:
        if name in todo:
            path = _taken(tasks, name, todo, place)
            lanes_s = filled_s[tasks.device_of[name]]
            lane = min(range(len(lanes_s)), key=lanes_s.__getitem__)
            lanes_s[lane] += sum(tasks.seconds[each] for each in path)
            numbers.update(dict.fromkeys(path, lane))
    return numbers


def _taken(tasks: Assigned, name: str, todo: dict[str, None], place: Mapping[str, int]) -> list[str]:
    """The path from `name` taken out of `todo`: always on to the first there by rank, on the same device."""
    path: list[str] = []
    after = [name]
    while after:
        path.append(min(after, key=place.__getitem__))
        del todo[path[-1]]
        following = tasks.work.graph.succ[path[-1]]
        after = [each for each in following if each in todo and tasks.device_of[each] == tasks.device_of[name]]
    return path

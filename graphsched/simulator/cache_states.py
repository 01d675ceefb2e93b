"""What tasks in CUDA graphs take longer or shorter by what the GPU's caches hold when they start.

Replays repeat, and each writes every value again. Of an input that the graph writes the lines are there as the last
kernel left them, unless so many others were used since that the cache has lost them; of one that it only reads they may
be there since the replay before. How many were used in between is counted in the order of the plan, each once, a
value's own and workspaces too (`simulator.reuse`). What became of their code: see `simulator.instruction_cache`.

Not modelled: lanes that run beside each other, whose actions come in the order of the plan; that an input was read by
another task since it was written; workspaces in memory that results had; lines that a copy only reads.

Source: counting what came in between is the reuse distance of Mattson et al., Evaluation techniques for storage
hierarchies, IBM Systems Journal 9 (1970).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from graphsched.costs import TaskCost
from graphsched.plan import Plan
from graphsched.simulator.footprints import pushed_beyond
from graphsched.simulator.reuse import Recency
from graphsched.workload import Task

Sizes = Mapping[str, int]
"""Bytes of values by name."""


class Cache(NamedTuple):
    """Bytes that a cache holds for sure, and of which it holds none."""

    held: int
    lost: int

    def lost_of(self, distance: float) -> float:
        """Part of a value that is lost when so many bytes were used since each of its own was.

        Example:
            >>> [Cache(100, 300).lost_of(distance) for distance in (50, 200, 400)], Cache(100, 100).lost_of(101)
            ([0.0, 0.5, 1.0], 1.0)
        """
        if distance <= self.held:
            return 0.0
        return 1.0 if distance >= self.lost else (distance - self.held) / (self.lost - self.held)


class Use(NamedTuple):
    """What one action on a GPU reads and writes there, what it needs beside these while it runs, and how much of what
    it takes longer without its inputs each of them is worth."""

    action: int
    reads: Sizes
    writes: Sizes
    works_in: Sizes
    worth: Mapping[str, float]


def inputs_longer_s(plan: Plan, costs: Mapping[int, TaskCost]) -> dict[int, float]:
    """Seconds by action that tasks take longer for where their inputs are; of those where that was measured.

    Args:
        plan: In graph mode.
        costs: Of its tasks on GPUs.
    """
    found: dict[int, float] = {}
    for uses in uses_by_device(plan, costs).values():
        cache = cache_of(costs[use.action] for use in uses if use.action in costs)
        if cache is not None:
            written = {name for use in uses for name in use.writes}
            for action, (fresh, lost) in _parts(uses, cache, written).items():
                states = costs[action].cache if action in costs else None
                if states is not None:
                    found[action] = states.inputs_s(fresh, lost)
    return found


def _parts(uses: Sequence[Use], cache: Cache, written: set[str]) -> dict[int, tuple[float, float]]:
    """Of each task's inputs, the part that is there and was written by the graph, and the part that is lost.

    The second of two rounds counts, which finds what the first has left.
    """
    recency, parts = Recency(), {}
    for _ in range(2):
        for use in uses:
            whole = sum(use.worth.values()) or 1.0
            lost = sum(worth * cache.lost_of(recency.distance(name)) for name, worth in use.worth.items()) / whole
            _use(use, recency)
            fresh = sum(worth for name, worth in use.worth.items() if name in written)
            parts[use.action] = (1.0 - lost) * fresh / whole, lost
    return parts


def _use(use: Use, recency: Recency) -> None:
    for sizes in (use.reads, use.works_in, use.writes):
        for name, nbytes in sizes.items():
            recency.use(name, nbytes)


def codes_lost(plan: Plan, costs: Mapping[int, TaskCost], codes: Mapping[int, Collection[str]]) -> dict[int, float]:
    """Part of each task's code that the cache of data has lost since it was used last; where a cache is known.

    Code comes through that cache on its way to the instruction cache, and leaves it for data as data does.

    Args:
        plan: In graph mode.
        costs: Of its tasks on GPUs.
        codes: Names of the code of each of these tasks.
    """
    found: dict[int, float] = {}
    for uses in uses_by_device(plan, costs).values():
        cache = cache_of(costs[use.action] for use in uses if use.action in costs)
        if cache is not None:
            found |= _codes_lost(uses, cache, codes)
    return found


def _codes_lost(uses: Sequence[Use], cache: Cache, codes: Mapping[int, Collection[str]]) -> dict[int, float]:
    recency, found = Recency(), dict[int, float]()
    for _ in range(2):  # the second round finds what the first has left
        for use in uses:
            names = [f"code of {name}" for name in codes.get(use.action, ())]
            gone = [cache.lost_of(recency.distance(name)) for name in names]
            found[use.action] = sum(gone) / max(1, len(gone))
            _use(use, recency)
            for name in names:
                recency.use(name, 0)
    return found


def cache_of(costs: Iterable[TaskCost]) -> Cache | None:
    """The cache of a GPU, by the amounts of memory that its operations were measured with."""
    points = [nbytes for cost in costs if cost.cache is not None for nbytes, _ in cost.graph_memory]
    return Cache(min(points), max(points)) if points else None


def tasks_by_device(plan: Plan, costs: Mapping[int, TaskCost]) -> dict[str, list[int]]:
    """Tasks on GPUs in the order of the plan, by device."""
    found: dict[str, list[int]] = {}
    for i in costs:
        found.setdefault(plan.lanes[plan.lane_of[i]].device, []).append(i)
    return found


def uses_by_device(plan: Plan, costs: Mapping[int, TaskCost]) -> dict[str, list[Use]]:
    """What tasks and copies use, by the GPU that they use it on, in the order of the plan."""
    devices = tasks_by_device(plan, costs)
    found: dict[str, list[Use]] = {device: [] for device in devices}
    where = {i: device for device, actions in devices.items() for i in actions}
    values = plan.work.values
    for i, task in enumerate(plan.tasks):
        if i in where and task is not None:
            reads = {read.value.root: values[read.value.root].nbytes for read in task.reads}
            made = [values[value.root] for value in (*task.outputs, *task.updates)]
            lane, nbytes = plan.lanes[plan.lane_of[i]].name, costs[i].workspace_bytes
            works_in = {f"workspace of {nbytes} bytes on {lane}": nbytes} if nbytes else {}
            if beyond := pushed_beyond(task, costs[i]):
                works_in[f"pushed out by {task.signature} on {lane}"] = beyond
            writes = {value.name: value.nbytes for value in made}
            found[where[i]].append(Use(i, reads, writes, works_in, _worth(plan, task, costs[i])))
        elif i in plan.copies and plan.copies[i].target in found:
            value = values[plan.copies[i].read.value.root]
            names = [value.name, *(made.name for made in (task.outputs if task is not None else ()))]
            found[plan.copies[i].target].append(Use(i, {}, dict.fromkeys(names, value.nbytes), {}, {}))
    return found


def _worth(plan: Plan, task: Task, cost: TaskCost) -> dict[str, float]:
    """What each value that a task reads is worth; views count as what they look into."""
    roots = [read.value.root for read in task.reads]
    nbytes = [plan.work.values[root].nbytes for root in roots]
    found: dict[str, float] = {}
    for root, worth in zip(roots, cost.cache.weights(nbytes) if cost.cache is not None else nbytes, strict=True):
        found[root] = found.get(root, 0.0) + worth
    return found

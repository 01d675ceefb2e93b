"""Replicas of one workload put into another in turns, with sums of gradients where they overlap with the rest.

A task comes as soon as the traced order has it and all that it depends on is there; what depends on a sum waits for it.
When a bucket is full its next step comes at once, and one more step of each bucket before it: so the copies between
two steps of a sum have the backward pass up to the next full bucket to hide behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from graphsched.errors import WorkloadError
from graphsched.partition.buckets import Bucket, Replica, add_task, in_buckets, weighted
from graphsched.partition.reducing import Method
from graphsched.workload import Task, Value, Workload


class Interleaving:
    """The tasks of all replicas in one workload.

    Attributes:
        replicas: Without tasks at first; their sources have the same tasks.
        shares: Of the whole loss, the weight of each replica's; empty: no result is one.
    """

    def __init__(self, replicas: Sequence[Replica], shares: Sequence[float], method: Method, bucket_bytes: int) -> None:
        self.replicas, self.shares = replicas, shares
        self._method = method
        self._pattern = replicas[0].copier.source
        self._differentiated = differentiated(self._pattern)
        before = sums_before(self._pattern) if len(replicas) > 1 else {}
        made = [(level, self._pattern.values[name]) for name, level in before.items()]
        self._missing = {b: {g.producer for g in b.gradients} for b in in_buckets(made, bucket_bytes)}
        self._to_be_summed = set(before)
        self._there: set[str] = set()
        self._waiting: list[str] = []
        self._under_way: list[tuple[Bucket, Iterator[None]]] = []

    def emit(self) -> None:
        """Add all tasks and keep what the traced workload keeps."""
        for name in self._pattern.graph:
            self._task(name)
        self._loss()
        while self._under_way:
            self._go_on()
        self._loss()
        assert not self._waiting
        for value in self._pattern.returned():
            for replica in self.replicas:
                replica.copier.target.keep(replica.copier.values[value.name])

    def _task(self, name: str) -> None:
        """The task of every replica, if what it depends on is there; else it waits."""
        if not self._is_ready(name):
            self._waiting.append(name)
            return
        for replica in self.replicas:
            replica.add(name, reads_sums=name not in self._differentiated)
        self._there.add(name)
        for bucket in [bucket for bucket, producers in self._missing.items() if name in producers]:
            self._missing[bucket].discard(name)
            if not self._missing[bucket]:
                del self._missing[bucket]
                self._start(bucket)

    def _is_ready(self, name: str) -> bool:
        is_summed = all(r.value.name not in self._to_be_summed for r in self._pattern[name].reads)
        is_there = all(other in self._there for other in self._pattern.graph.predecessors(name))
        return is_there and (is_summed or name in self._differentiated)

    def _start(self, bucket: Bucket) -> None:
        steps = self._method(bucket, self.replicas)
        next(steps)
        self._go_on()
        self._under_way.insert(0, (bucket, steps))

    def _go_on(self) -> None:
        """One more step of each sum under way, the newest first; then what has waited for those that are over."""
        under_way, self._under_way = self._under_way, []
        for bucket, steps in under_way:
            if next(steps, "over") == "over":
                self._to_be_summed -= {gradient.name for gradient in bucket.gradients}
            else:
                self._under_way.append((bucket, steps))
        names, self._waiting = self._waiting, []
        for name in names:
            self._task(name)

    def _loss(self) -> None:
        """The loss of the whole batch, once it is known, on the first device; there the last sums are waited for."""
        target = self.replicas[0].copier.target
        known = "loss" in self._pattern.kept and "loss" in self.replicas[0].copier.values
        if self.shares and known and "loss" not in target.graph:
            parts = [replica.copier.values["loss"] for replica in self.replicas]
            device = self.replicas[0].device
            whole = add_task(target, weighted(parts, self.shares), name="loss", device=device, phase="forward")
            target.keep(whole)


def differentiated(work: Workload) -> set[str]:
    """Tasks of the backward pass, and those of the forward pass that lead to one whose gradient it computes.

    They read each replica's own gradients: a loss that is made of some (a penalty on them) is that of its own rows.
    """
    phases = dict(work.graph.nodes(data="phase"))
    found = {name for name in work.graph if phases[name] == "backward"}
    through = {work.graph.nodes[name].get("forward") for name in found}
    for name in reversed(list(work.graph)):
        leads = any(phases[other] == "forward" and other in found for other in work.graph.successors(name))
        if phases[name] == "forward" and (leads or name in through):
            found.add(name)
    return found


def sums_before(work: Workload) -> dict[str, int]:
    """The gradients of `work` in the order in which they are made, each with the sums on the way to it.

    A gradient is what the backward pass makes and a task reads that is not `differentiated`.
    """
    phases, own = dict(work.graph.nodes(data="phase")), differentiated(work)
    made: dict[str, list[Value]] = {}
    for task in work.tasks:
        for read in task.reads:
            value = read.value
            if value.producer and phases[value.producer] == "backward" and task.name not in own:
                made.setdefault(value.producer, []).append(value)
    level: dict[str, int] = {}
    for name in work.graph:
        level[name] = max(
            (level[other] + (phases[other] == "backward" and name not in own)
             for other in work.graph.predecessors(name)), default=0,
        )  # fmt: skip
    return {v.name: level[name] for name in work.graph if name in made for v in work[name].outputs if v in made[name]}


def check_updates_alike(work: Workload, inputs: Iterable[str]) -> None:
    """Make sure that replicas of `work` change parameters alike: by sums of gradients, and by what is equal on all.

    Args:
        work: The step of one replica.
        inputs: Names of those that are not the same on all.

    Raises:
        WorkloadError: A parameter is changed by what a replica makes of its own rows otherwise, or by random numbers.
    """
    phases, own = dict(work.graph.nodes(data="phase")), differentiated(work)
    apart = set(inputs)
    for task in work.tasks:
        read = [read.value for read in task.reads]
        summed = [v.name for v in read if v.producer and phases[v.producer] == "backward" and task.name not in own]
        if not _is_random(task) and all(value.name in summed or value.name not in apart for value in read):
            continue
        if phases[task.name] == "update" and task.updates:
            raise WorkloadError(
                f"task {task.name!r} changes {task.updates[0].root!r} by what each replica makes of its own rows or "
                "draws by itself, so that replicas would go apart: only gradients of loss.backward() are summed over "
                "them; update by these alone"
            )
        apart.update(value.name for value in (*task.outputs, *task.updates))


def _is_random(task: Task) -> bool:
    import torch

    assert task.operation is not None
    steps = getattr(task.operation.function, "steps", (task.operation,))
    return any(torch.Tag.nondeterministic_seeded in getattr(step.function, "tags", ()) for step in steps)

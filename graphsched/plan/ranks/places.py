"""Which rank has which device of a plan, and between which ranks each action takes place.

Rank i has accelerator i of the platform, and rank 0 the host. Every rank is a process with host memory of its own, so
two things on the host need no message: inputs, and states that no task updates, lie in every rank's host memory before
time 0; and what is copied to the host stays with the rank that copies it, if nobody else reads it there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from graphsched.plan.model import Copy, Plan
from graphsched.platform import Platform
from graphsched.workload import Value

EVERYWHERE = -1  # in place of a rank: all of them


@dataclass(frozen=True)
class Places:
    """Where the actions and values of a plan are.

    Attributes:
        rank_of: Rank of each device.
        ends: Of each action the rank where it begins (of a copy: its source's) and the one where it is over (its
            target's); both are `EVERYWHERE` for waits of the dispatching thread, and of a collective its first rank.
        members: Ranks of each collective, in the order of its lanes.
        holder: Rank whose memory holds each value's own buffer; `EVERYWHERE`: all of them do.
    """

    rank_of: Mapping[str, int]
    ends: Sequence[tuple[int, int]]
    holder: Mapping[str, int]
    members: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def needed(self) -> int:
        """How many ranks the plan needs."""
        used = [rank for ranks in (*self.ends, *self.members.values()) for rank in ranks]
        return max([0, *used, *self.holder.values()]) + 1


def rank_of_devices(platform: Platform) -> dict[str, int]:
    """Rank of each device: accelerator i has rank i, and a host's cpu that of the first accelerator in this host.

    Example:
        >>> rank_of_devices(Platform.load("h200-x2"))
        {'cuda:0': 0, 'cuda:1': 1, 'cpu': 0}
    """
    found = {name: rank for rank, name in enumerate(platform.accelerators())}
    firsts: dict[str, int] = {}
    for name, rank in found.items():
        firsts.setdefault(platform.device(name).host, rank)
    hosts = [device for device in platform.devices if not device.is_accelerator]
    return found | {device.name: firsts.get(device.host, 0) for device in hosts}


def find_places(plan: Plan) -> Places:
    """The places of `plan`."""
    return _Finder(plan).places()


class _Finder:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._rank_of = rank_of_devices(plan.platform)
        self._updated = {value.root for task in plan.work.tasks for value in task.updates}
        self._readers = self._find_readers()
        self._members: dict[int, tuple[int, ...]] = {}
        self._holder = {v.name: self._given(v) for v in plan.work.values.values() if v.producer is None}

    def places(self) -> Places:
        ends = [self._ends(i) for i in range(len(self._plan))]
        return Places(self._rank_of, ends, self._holder, self._members)

    def _given(self, value: Value) -> int:
        home = self._plan.homes[value.name]
        constant = value.kind == "input" or value.name not in self._updated
        on_host = not self._plan.platform.device(home).is_accelerator
        return EVERYWHERE if constant and on_host else self._rank_of[home]

    def _ends(self, i: int) -> tuple[int, int]:
        plan = self._plan
        copy = plan.copies.get(i)
        if copy is not None:
            source, target = self._ends_of_copy(i, copy)
            if copy.task:
                self._holder[plan.names[i]] = target
            return source, target
        if plan.kinds[i] == "wait":
            return EVERYWHERE, EVERYWHERE
        rank = self._rank_of[plan.lanes[plan.lane_of[i]].device]
        task = plan.task(i)
        if plan.kinds[i] == "collective" and task is not None:
            ranks = self._members[i] = tuple(self._rank_of[device] for device in task.devices)
            self._holder.update({value.name: k for k, value in zip(ranks, task.outputs, strict=True)})
            return rank, rank
        self._holder.update({value.name: rank for value in task.outputs} if task else {})
        return rank, rank

    def _ends_of_copy(self, i: int, copy: Copy) -> tuple[int, int]:
        target = self._rank_of[copy.target]
        source = self._holder[copy.read.value.name]
        if source == EVERYWHERE:
            return target, target
        on_host = not self._plan.platform.device(copy.target).is_accelerator
        if copy.task and on_host and self._readers.get(self._plan.names[i], {source}) <= {source}:
            return source, source
        return source, target

    def _find_readers(self) -> dict[str, set[int]]:
        """Ranks that read each value where its own buffer is, as far as devices tell."""
        plan = self._plan
        found: dict[str, set[int]] = {}
        for i, kind in enumerate(plan.kinds):
            if kind == "copy":
                copy = plan.copies[i]
                found.setdefault(copy.read.value.name, set()).add(self._rank_of[copy.target])
            elif kind in ("run", "collective") and (task := plan.task(i)) is not None:
                for read, device in task.reads_on(plan.lanes[plan.lane_of[i]].device):
                    if plan.homes[read.value.name] == device:
                        found.setdefault(read.value.name, set()).add(self._rank_of[device])
        return found

"""From a placement (what runs where, in which order) to a plan: copies, waits, frees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from graphsched.costs import Costs
from graphsched.errors import ScheduleError
from graphsched.garbage import collector_off
from graphsched.plan.dependencies import Columns, find_homes, reduce_waits, required_actions
from graphsched.plan.frees import find_frees
from graphsched.plan.model import HOST_LANE, Copy, Lane, Plan, comm_lane, copy_lane
from graphsched.plan.pinning import by_message, lies_pageable, made_by_task
from graphsched.platform import Platform
from graphsched.workload import Memory, Read, Task, Workload, ancestors_first


@dataclass(frozen=True)
class Placement:
    """What a scheduler decides.

    Attributes:
        order: All tasks, copies and barriers included, in dispatch order (a topological order).
        lanes: Compute lane of every task of kind ``run``.
        wait_after: Tasks after which the dispatching thread waits for everything issued.
        copies: Copies asked for by the user go to lanes of their ``own``, or stay on the ``compute``
            lane that made the value (what ``tensor.to`` on the current stream does).
        note: A few words of the scheduler about it, which the plan repeats behind the scheduler's name.
        bound_s: Seconds that the scheduler has proven any plan to take at least; None: it has proven nothing.
    """

    order: Sequence[str]
    lanes: Mapping[str, str]
    wait_after: Collection[str] = frozenset()
    copies: Literal["own", "compute"] = "own"
    note: str = ""
    bound_s: float | None = None


@dataclass
class _Builder:
    work: Workload
    platform: Platform
    placement: Placement
    homes: dict[str, str]
    mode: str
    columns: Columns = field(default_factory=Columns)
    lanes: dict[str, int] = field(default_factory=lambda: {HOST_LANE: 0})
    made: set[str] = field(default_factory=set)
    waits: int = 0

    def lane(self, name: str) -> int:
        return self.lanes.setdefault(name, len(self.lanes))

    def build(self) -> None:
        for name in self.placement.order:
            task = self.work[name]
            if task.kind == "barrier":
                self.columns.add("wait", name, 0)
            elif task.kind == "copy":
                self.explicit_copy(task)
            elif task.kind == "collective":
                self.collective(task)
            else:
                lane = self.placement.lanes[name]
                for read in task.reads:
                    self.bring(read, Lane.named(lane).device)
                self.columns.add("run", name, self.lane(lane))
            if name in self.placement.wait_after and task.kind != "barrier":
                while f"wait{self.waits}" in self.work.graph:
                    self.waits += 1
                self.columns.add("wait", f"wait{self.waits}", 0)
                self.waits += 1

    def host_memory(self, read: Read, source: str, target: str, asked: Memory) -> Memory:
        """Kind of host memory of a copy: to a GPU pageable where the value lies so, whatever was asked for."""
        if source != "cpu" or self.platform.device(target).kind != "cuda":
            return asked
        sent = by_message(self.mode, self.platform, target) and made_by_task(self.work, read.value)
        return "pageable" if sent or lies_pageable(self.work, read.value) else asked

    def bring(self, read: Read, device: str) -> None:
        """Insert the copy of `read` to `device`, once."""
        home = self.homes[read.value.name]
        name = f"{read}>{device}"
        if home == device or name in self.made:
            return
        self.made.add(name)
        memory = self.host_memory(read, home, device, "pinned")
        self.platform.link(home, device, memory)
        copy = Copy(read, home, device, memory, task=False)
        self.columns.add("copy", name, self.lane(copy_lane(home, device)), copy)

    def collective(self, task: Task) -> None:
        for read, device in task.reads_on(""):
            self.bring(read, device)
        first, *others = [self.lane(comm_lane(device)) for device in task.devices]
        self.columns.add("collective", task.name, first, more_lanes=tuple(others))

    def explicit_copy(self, task: Task) -> None:
        read, target = task.reads[0], task.outputs[0].device
        assert target is not None
        source = self.homes[read.value.name]
        memory = self.host_memory(read, source, target, task.memory)
        self.platform.link(source, target, memory)
        lane = copy_lane(source, target)
        if self.placement.copies == "compute":
            lane = self.compute_lane(read.source, source, target) or lane
        self.columns.add("copy", task.name, self.lane(lane), Copy(read, source, target, memory, task=True))

    def compute_lane(self, producer: str | None, source: str, target: str) -> str | None:
        made = self.placement.lanes.get(producer) if producer else None
        device = source if source != "cpu" else target
        if made and Lane.named(made).device == device:
            return made
        return next(
            (n for n in self.lanes if Lane.named(n).kind == "compute" and Lane.named(n).device == device),
            None,
        )


@collector_off()
def build_plan(
    work: Workload,
    platform: Platform,
    costs: Costs | None,
    placement: Placement,
    *,
    scheduler: str,
    mode: str = "eager",
) -> Plan:
    """Make the plan of `placement`: insert copies, derive minimal waits, decide what is freed when.

    Raises:
        ScheduleError: The order is no topological order, or a lane is missing or on a device where
            the task may not run.
        PlatformError: A device or link does not exist.
    """
    _check_placement(work, platform, placement)
    device_of = {task: Lane.named(lane).device for task, lane in placement.lanes.items()}
    homes = find_homes(work, device_of, platform)
    builder = _Builder(work, platform, placement, homes, mode)
    builder.build()
    columns = builder.columns
    lanes = tuple(Lane.named(name) for name in builder.lanes)
    required = required_actions(work, platform, columns, lanes, homes)
    waits, clocks = reduce_waits(columns, required, len(lanes))
    return Plan(
        work=work,
        platform=platform,
        costs=costs if costs is not None else platform.costs,
        scheduler=scheduler,
        mode=mode,
        lanes=lanes,
        kinds=columns.kinds,
        names=columns.names,
        lane_of=columns.lane_of,
        waits=waits,
        copies=columns.copies,
        frees=find_frees(work, columns, lanes, homes, clocks),
        homes=homes,
        more_lanes=columns.more_lanes,
        bound_s=placement.bound_s,
    )


def _check_placement(work: Workload, platform: Platform, placement: Placement) -> None:
    if not ancestors_first(work.graph, placement.order):
        raise ScheduleError("the order of a placement must hold every task once, each after those it depends on")
    used: dict[str, None] = {}
    for task in work.tasks:
        if task.kind == "copy":
            platform.device(str(task.outputs[0].device))
        elif task.kind == "collective":
            check_members(task.name, task.devices, platform)
        elif task.kind == "run":
            used[_checked_lane(task, placement.lanes.get(task.name), work, platform)] = None
    for device, lanes in Counter(Lane.named(name).device for name in used).items():
        most = platform.device(device).lanes
        if lanes > most:
            raise ScheduleError(f"{device} has {most} compute lanes, {lanes} are asked for: use fewer")


def check_members(name: str, members: Sequence[str], platform: Platform) -> None:
    """Make sure that the devices of a collective are there, and that one library serves all of them.

    Raises:
        ScheduleError: Some are GPUs, others are not.
        PlatformError: One does not exist.
    """
    kinds = {device: platform.device(device).kind for device in members}
    if len({kind == "cuda" for kind in kinds.values()}) > 1:
        told = ", ".join(f"{device} ({kind})" for device, kind in kinds.items())
        raise ScheduleError(f"collective {name!r} is on {told}: all must be GPUs, or none of them")


def _checked_lane(task: Task, lane: str | None, work: Workload, platform: Platform) -> str:
    if lane is None:
        raise ScheduleError(f"task {task.name!r} has no lane in the placement")
    where = Lane.named(lane)
    if where.kind != "compute" or where.device not in allowed_devices(task, platform, work):
        raise ScheduleError(
            f"task {task.name!r} may not run on lane {lane!r}: it is for "
            f"{', '.join(task.devices) or 'any compute lane'}"
        )
    return lane


def allowed_devices(task: Task, platform: Platform, work: Workload) -> tuple[str, ...]:
    """Devices where `task` may run, accelerators first: its constraints, and the homes of states it updates.

    Raises:
        PlatformError: A constraint names no device of the platform.
    """
    allowed = platform.matching(task.devices)
    for home in _given_homes(task, work):
        platform.device(home)
        allowed = tuple(d for d in allowed if d == home)
        if not allowed:
            raise ScheduleError(f"task {task.name!r} updates a state that lives on {home!r}, but may not run there")
    return allowed


def _given_homes(task: Task, work: Workload) -> Iterable[str]:
    roots = [v.root for v in task.updates]
    roots += [v.root for v in task.outputs if v.root != v.name and work.values[v.root].kind == "state"]
    return (home for root in dict.fromkeys(roots) if (home := work.values[root].device) is not None)

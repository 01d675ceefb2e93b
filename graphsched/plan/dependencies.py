"""Which actions must come before which, by data, memory and barriers; minimal waits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from graphsched.errors import PlanError, ScheduleError
from graphsched.plan.model import ActionKind, Copy, Lane
from graphsched.platform import Platform
from graphsched.workload import Task, Workload

Clock = tuple[int, ...]  # for each lane the last action known to be over; -1 for none


@dataclass
class Columns:
    """The columns of a plan in the making."""

    kinds: list[ActionKind] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    lane_of: list[int] = field(default_factory=list)
    copies: dict[int, Copy] = field(default_factory=dict)
    more_lanes: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def add(
        self, kind: ActionKind, name: str, lane: int, copy: Copy | None = None, more_lanes: tuple[int, ...] = ()
    ) -> None:
        """Append one action."""
        if copy is not None:
            self.copies[len(self.names)] = copy
        if more_lanes:
            self.more_lanes[len(self.names)] = more_lanes
        self.kinds.append(kind)
        self.names.append(name)
        self.lane_of.append(lane)


def find_homes(work: Workload, device_of: Mapping[str, str], platform: Platform) -> dict[str, str]:
    """Device where each value's own buffer lives.

    An input or placed state: where it was given; an output: where its task runs; a copy's output:
    its target; a free state: where it is updated, else where it is first read.

    Raises:
        ScheduleError: Tasks that update one state, or make a view of it, are on different devices.
        PlatformError: A value was given on a device that does not exist here.
    """
    homes = {v.name: v.device for v in work.values.values() if v.device is not None}
    for device in dict.fromkeys(homes.values()):
        platform.device(device)
    readers: dict[str, str] = {}
    for task in work.tasks:
        if task.kind == "collective":
            for read, there in task.reads_on(""):
                readers.setdefault(read.value.name, there)
        if task.kind != "run":
            continue
        here = device_of[task.name]
        views = [v for v in task.outputs if v.root != v.name and work.values[v.root].kind == "state"]
        for root in dict.fromkeys(v.root for v in (*task.updates, *views)):
            if homes.setdefault(root, here) != here:
                raise ScheduleError(
                    f"state {root!r} lives on {homes[root]}, but task {task.name!r}, which updates it or makes a "
                    f"view of it, is placed on {here}: place all of these tasks on one device"
                )
        for value in task.outputs:
            homes[value.name] = value.device or here
        for read in task.reads:
            readers.setdefault(read.value.name, here)
    for value in work.values.values():
        if value.name not in homes:
            homes[value.name] = readers.get(value.name, "cpu")
    return homes


def required_actions(
    work: Workload, platform: Platform, columns: Columns, lanes: Sequence[Lane], homes: Mapping[str, str]
) -> list[list[int]]:
    """For each action the actions that must be over before it starts.

    Raises:
        PlanError: A value is read on a device where no copy of it has been made.
    """
    index = {name: i for i, name in enumerate(columns.names)}
    copied: dict[str, list[int]] = defaultdict(list)  # root -> inserted copies of its present version
    tails: dict[int, int] = {}
    required: list[list[int]] = []
    for i, kind in enumerate(columns.kinds):
        before: list[int] = []
        if kind == "wait":
            before = list(tails.values())
        elif kind == "copy":
            copy = columns.copies[i]
            if copy.read.source is not None:
                before.append(_find(index, copy.read.source, columns.names[i]))
            if copy.task:
                before += _before_copy(work[columns.names[i]], i, platform, columns, index)
            copied[copy.read.value.root].append(i)
        elif kind == "collective":
            before = _before_collective(work[columns.names[i]], i, homes, columns, index)
        else:
            task = work[columns.names[i]]
            device = lanes[columns.lane_of[i]].device
            for read in task.reads:
                if homes[read.value.name] == device:
                    if read.source is not None:
                        before.append(_find(index, read.source, task.name))
                else:
                    before.append(_find(index, f"{read}>{device}", task.name, i))
            before += _ordering(task, device, work, columns, lanes, index)
            for root in dict.fromkeys(v.root for v in task.updates):
                before += [c for c in copied.pop(root, ()) if c != i]
        required.append(sorted(set(before)))
        if kind != "wait":
            tails[columns.lane_of[i]] = i
            for lane in columns.more_lanes.get(i, ()):
                tails[lane] = i
    return required


def _before_collective(
    task: Task, i: int, homes: Mapping[str, str], columns: Columns, index: Mapping[str, int]
) -> list[int]:
    """What makes or brings the value of each member, and what else the workload puts before them."""
    before = []
    for read, device in task.reads_on(""):
        if homes[read.value.name] != device:
            before.append(_find(index, f"{read}>{device}", task.name, i))
        elif read.source is not None:
            before.append(_find(index, read.source, task.name))
    return before + _named(task, i, columns, index)


def _before_copy(task: Task, i: int, platform: Platform, columns: Columns, index: Mapping[str, int]) -> list[int]:
    """What the workload puts before a copy; another copy only where the engine of one GPU makes both."""
    return [
        j
        for j in _named(task, i, columns, index)
        if columns.kinds[j] != "copy" or _share_engine(columns.copies[i], columns.copies[j], platform)
    ]


def _share_engine(one: Copy, other: Copy, platform: Platform) -> bool:
    source = platform.device(one.source)
    ends = {platform.device(end).host for end in (one.source, one.target, other.target)}
    return one.source == other.source and source.peer_engines == 1 and len(ends) == 1


def _named(task: Task, i: int, columns: Columns, index: Mapping[str, int]) -> list[int]:
    """What action i, a copy or a collective, comes after without data; the thread has waited for barriers before."""
    return [_find(index, name, task.name) for name in task.after if columns.kinds[index.get(name, i)] != "wait"]


def _find(index: Mapping[str, int], name: str, reader: str, limit: int | None = None) -> int:
    found = index.get(name)
    if found is None or (limit is not None and found > limit):
        raise PlanError(f"{reader!r} needs {name!r}, which no action before it makes: insert that copy or task")
    return found


def _ordering(
    task: Task, device: str, work: Workload, columns: Columns, lanes: Sequence[Lane], index: Mapping[str, int]
) -> list[int]:
    """Predecessors that pass no data; readers of a copy elsewhere do not hold back an update."""
    roots = {v.root for v in task.updates}
    before = []
    for name in task.after:
        other = work[name]
        if other.kind == "barrier":
            continue  # the thread has waited before this action was issued
        i = _find(index, name, task.name)
        reads_copy = other.kind == "run" and lanes[columns.lane_of[i]].device != device
        if not (reads_copy and any(r.value.root in roots for r in other.reads)):
            before.append(i)
    return before


def reduce_waits(
    columns: Columns, required: Sequence[Sequence[int]], n_lanes: int
) -> tuple[list[tuple[int, ...]], list[Clock]]:
    """The fewest waits that, with the order of each lane and the thread's own waits, imply `required`.

    Returns:
        Waits of each action, and each action's clock: for each lane the last action known to be over.
    """
    nothing: Clock = (-1,) * n_lanes
    lane_clock: list[Clock] = [nothing] * n_lanes
    thread = nothing
    thread_waits = 0
    seen = [0] * n_lanes
    waits: list[tuple[int, ...]] = []
    clocks: list[Clock] = []
    more = columns.more_lanes
    over: dict[int, Clock] = {}  # of collectives: what is known to be over when they are
    for i, lane in enumerate(columns.lane_of):
        clock = lane_clock[lane]
        if seen[lane] != thread_waits:
            clock, seen[lane] = merge(clock, thread), thread_waits
        for other in more.get(i, ()):
            clock = merge(clock, lane_clock[other])
        kept: list[int] = []
        for j in reversed(required[i]):
            other = columns.lane_of[j]
            if (other == lane and columns.kinds[i] != "wait") or clock[other] >= j:
                continue
            kept.append(j)
            clock = merge(clock, over.get(j) or clocks[j], other, j)
        waits.append(tuple(reversed(kept)))
        clocks.append(clock)
        lane_clock[lane] = clock
        if i in more:
            over[i] = end_together(clock, i, (lane, *more[i]), lane_clock)
        if columns.kinds[i] == "wait":
            thread, thread_waits = clock, thread_waits + 1
            seen[lane] = thread_waits
    return waits, clocks


def end_together(clock: Clock, i: int, lanes: Sequence[int], lane_clock: list[Clock]) -> Clock:
    """What is known when collective `i`, which started at `clock`, is over; so is it on all its lanes then."""
    for lane in lanes:
        clock = merge(clock, clock, lane, i)
    for lane in lanes:
        lane_clock[lane] = clock
    return clock


def merge(clock: Clock, other: Clock, lane: int = -1, action: int = -1) -> Clock:
    """The later of two clocks on every lane; with `action` on `lane` over as well."""
    merged = list(map(max, clock, other))
    if lane >= 0:
        merged[lane] = max(merged[lane], action)
    later = tuple(merged)
    return clock if later == clock else later  # a plan holds many equal clocks: share them

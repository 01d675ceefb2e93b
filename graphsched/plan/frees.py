"""When the buffers of a plan can be given back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from graphsched.plan.dependencies import Clock, Columns
from graphsched.plan.model import Lane
from graphsched.workload import Task, Workload


@dataclass(eq=False)
class Buffer:
    """Memory that an action makes.

    Attributes:
        number: In order of making.
        lane: Where it was made, and goes back to.
        names: The value or inserted copy, and views of it.
        lasts: Last action that makes or uses it, by lane.
    """

    number: int
    lane: int
    names: list[str]
    lasts: dict[int, int]

    def in_use(self, clock: Clock) -> tuple[int, int] | None:
        """A lane and its action that `clock` does not know to be over; None: the maker's lane may free it."""
        return next(((at, j) for at, j in self.lasts.items() if at != self.lane and clock[at] < j), None)


def find_frees(
    work: Workload, columns: Columns, lanes: Sequence[Lane], homes: Mapping[str, str], clocks: Sequence[Clock]
) -> dict[int, tuple[str, ...]]:
    """Buffers that can be given back once an action is issued.

    A buffer goes back to the lane that made it, when that lane is past every reader, directly or
    through waits; buffers for which that never happens stay until the end of the run, as do
    inputs, states and returned values.
    """
    ending: dict[int, list[Buffer]] = defaultdict(list)
    for buffer in find_buffers(work, columns, lanes, homes):
        ending[max(buffer.lasts.values())].append(buffer)
    waiting = _Waiting(len(lanes))
    frees: dict[int, tuple[str, ...]] = {}
    for i, lane in enumerate(columns.lane_of):
        ready = waiting.past(lane, clocks[i])
        for other in columns.more_lanes.get(i, ()):
            ready += waiting.past(other, clocks[i])
        for buffer in ending.get(i, ()):
            if buffer.lane != lane and buffer.lane not in columns.more_lanes.get(i, ()):
                waiting.park(buffer, lane, i)
            elif waiting.free(buffer, clocks[i]):
                ready.append(buffer)
        if ready:
            ready.sort(key=lambda buffer: buffer.number)
            frees[i] = tuple(name for buffer in ready for name in buffer.names)
    return frees


class _Waiting:
    """Buffers past their last use, each parked under one action that its maker's lane must still wait for."""

    def __init__(self, n_lanes: int) -> None:
        self.parked: list[dict[int, list[tuple[int, int, Buffer]]]] = [{} for _ in range(n_lanes)]

    def park(self, buffer: Buffer, at: int, action: int) -> None:
        heappush(self.parked[buffer.lane].setdefault(at, []), (action, buffer.number, buffer))

    def free(self, buffer: Buffer, clock: Clock) -> bool:
        """Whether `buffer` is free for a lane at `clock`; if not, it is parked."""
        blocking = buffer.in_use(clock)
        if blocking is not None:
            self.park(buffer, *blocking)
        return blocking is None

    def past(self, lane: int, clock: Clock) -> list[Buffer]:
        """Buffers that became free because `lane` is at `clock`."""
        ready = []
        for at, heap in list(self.parked[lane].items()):
            while heap and heap[0][0] <= clock[at]:
                buffer = heappop(heap)[2]
                if self.free(buffer, clock):
                    ready.append(buffer)
        return ready


def find_buffers(work: Workload, columns: Columns, lanes: Sequence[Lane], homes: Mapping[str, str]) -> list[Buffer]:
    """The buffers of a plan that may be given back; views count as uses of the memory they look into."""
    finder = _Finder(homes)
    for i, name in enumerate(columns.names):
        lane = columns.lane_of[i]
        copy = columns.copies.get(i)
        if copy is not None:
            finder.use(copy.read.value.name, lane, i)
            finder.make(name, lane, i)
        elif columns.kinds[i] == "run":
            finder.run(work[name], lanes[lane].device, lane, i)
        elif columns.kinds[i] == "collective":
            finder.collective(work[name], (lane, *columns.more_lanes[i]), i)
    staying = finder.staying | {finder.owners[v.name].number for v in work.returned() if v.name in finder.owners}
    return [b for b in finder.buffers if b.number not in staying]


@dataclass
class _Finder:
    homes: Mapping[str, str]
    buffers: list[Buffer] = field(default_factory=list)
    owners: dict[str, Buffer] = field(default_factory=dict)  # value, view or inserted copy -> its memory
    staying: set[int] = field(default_factory=set)

    def make(self, name: str, lane: int, i: int) -> None:
        self.owners[name] = Buffer(len(self.buffers), lane, [name], {lane: i})
        self.buffers.append(self.owners[name])

    def use(self, name: str, lane: int, i: int) -> Buffer | None:
        buffer = self.owners.get(name)
        if buffer is not None:
            buffer.lasts[lane] = i
        return buffer

    def run(self, task: Task, device: str, lane: int, i: int) -> None:
        seen: dict[str, list[Buffer | None]] = defaultdict(list)  # root -> memory it is read from
        for read in task.reads:
            local = read.value.name if self.homes[read.value.name] == device else f"{read}>{device}"
            buffer = self.use(local, lane, i)
            if buffer not in seen[read.value.root]:
                seen[read.value.root].append(buffer)
        for value in task.outputs:
            if value.root == value.name:
                self.make(value.name, lane, i)
            else:
                self.view(value.name, seen[value.root])

    def collective(self, task: Task, lanes: Sequence[int], i: int) -> None:
        for lane, (read, device), value in zip(lanes, task.reads_on(""), task.outputs, strict=True):
            self.use(read.value.name if self.homes[read.value.name] == device else f"{read}>{device}", lane, i)
            self.make(value.name, lane, i)

    def view(self, name: str, into: list[Buffer | None]) -> None:
        """A view into one buffer shares it; where it may be into one of several, all stay."""
        if len(into) > 1:
            self.staying.update(buffer.number for buffer in into if buffer is not None)
        elif into and into[0] is not None:
            self.owners[name] = into[0]
            into[0].names.append(name)

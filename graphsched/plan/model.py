"""A plan: the schedule of one workload on one platform, as columns indexed by integers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal

from graphsched.costs import Costs
from graphsched.errors import PlanError
from graphsched.platform import Platform
from graphsched.workload import Memory, Read, Task, Workload

if TYPE_CHECKING:
    from graphsched.plan.holding import Peak
    from graphsched.plan.joins import Join

ActionKind = Literal["run", "copy", "wait", "collective"]
LaneKind = Literal["compute", "h2d", "d2h", "peer", "local", "comm", "host"]

MODES = ("eager", "graph", "distributed")
"""How a plan may be executed: call by call, in CUDA graphs, by one process a device."""

HOST_LANE = "host/py"
HEAD_LINES = 5  # lines of a plan's text before the first lane: version, workload, platform, scheduler, 'lanes'


@dataclass(frozen=True, slots=True)
class Lane:
    """Where actions queue in order: a CUDA stream, a copy stream, a CPU worker.

    ``cuda:0/s1`` and ``cpu/w0`` compute; ``cuda:0/h2d`` and ``cuda:0/d2h`` copy from and to the host;
    ``cuda:0>cuda:1`` copies between devices; ``cuda:0/local`` inside one; ``cuda:0/comm`` takes part in collectives;
    ``host/py`` dispatches.

    Example:
        >>> Lane.named("cuda:0>cuda:1")
        Lane(name='cuda:0>cuda:1', device='cuda:0', kind='peer', target='cuda:1')
    """

    name: str
    device: str
    kind: LaneKind
    target: str = ""

    @classmethod
    @lru_cache(maxsize=4096)
    def named(cls, name: str) -> Lane:
        """The lane of this name.

        Raises:
            PlanError: The name is not of the form ``device/lane`` or ``device>device``.
        """
        source, _, target = name.partition(">")
        if source and target:
            return cls(name, source, "peer", target)
        device, _, rest = name.rpartition("/")
        if ">" in name or not device or not rest:
            raise PlanError(f"lane {name!r} is neither 'device/lane' nor 'device>device'")
        if name == HOST_LANE:
            return cls(name, device, "host")
        return cls(name, device, rest if rest in ("h2d", "d2h", "local", "comm") else "compute")  # type: ignore[arg-type]


def copy_lane(source: str, target: str) -> str:
    """Name of the lane of its own for copies from `source` to `target`.

    Example:
        >>> copy_lane("cuda:1", "cpu"), copy_lane("cpu", "cuda:0"), copy_lane("cuda:0", "cuda:1")
        ('cuda:1/d2h', 'cuda:0/h2d', 'cuda:0>cuda:1')
    """
    if source == target:
        return f"{source}/local"
    if target == "cpu":
        return f"{source}/d2h"
    if source == "cpu":
        return f"{target}/h2d"
    return f"{source}>{target}"


def comm_lane(device: str) -> str:
    """Name of the lane of its own on which `device` takes part in collectives, one after another.

    Example:
        >>> comm_lane("cuda:0")
        'cuda:0/comm'
    """
    return f"{device}/comm"


@dataclass(frozen=True, slots=True)
class Copy:
    """What a copy action moves: a read, from the device that is its home to another.

    `task` is true for a copy that the user asked for (the action bears the task's name); inserted
    copies are named ``value>device`` and shared by all readers there.
    """

    read: Read
    source: str
    target: str
    memory: Memory
    task: bool


@dataclass(frozen=True, slots=True)
class Action:
    """A view of one step of a plan.

    Attributes:
        index: Place in dispatch order.
        kind: ``run``, ``copy``, ``wait`` or ``collective``.
        name: The task's; ``value>device`` of an inserted copy; the barrier's, or ``wait`` and a number.
        lanes: Lanes that it occupies (one, but for collectives).
        waits: Indices of the actions on other lanes that it waits for; transitively reduced.
        frees: Buffers whose last use this is, or that its lane is now known to be past.
    """

    index: int
    kind: ActionKind
    name: str
    lanes: tuple[Lane, ...]
    waits: tuple[int, ...]
    frees: tuple[str, ...]
    task: Task | None
    copy: Copy | None


@dataclass(frozen=True, eq=False)
class Plan:
    """The schedule of `work` on `platform`: actions in dispatch order, lanes, waits and frees.

    Columns are indexed by action; lanes by lane number. `Action` objects are views.

    Attributes:
        kinds, names: Kind and name of each action.
        lane_of: Number of the lane that it occupies.
        more_lanes: Further lanes of collectives, by action.
        waits: Actions on other lanes that it waits for.
        copies: What copy actions move, by action.
        frees: Buffers given back after an action is issued: names of values, or of inserted copies.
        homes: Device where each value's own buffer lives.
        bound_s: Seconds that the scheduler has proven any plan to take at least; None: it has proven nothing.
    """

    work: Workload
    platform: Platform
    costs: Costs
    scheduler: str
    mode: str
    lanes: tuple[Lane, ...]
    kinds: Sequence[ActionKind]
    names: Sequence[str]
    lane_of: Sequence[int]
    waits: Sequence[tuple[int, ...]]
    copies: Mapping[int, Copy]
    frees: Mapping[int, tuple[str, ...]]
    homes: Mapping[str, str]
    more_lanes: Mapping[int, tuple[int, ...]]
    bound_s: float | None = None

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Action:
        return Action(
            index=index,
            kind=self.kinds[index],
            name=self.names[index],
            lanes=tuple(self.lanes[k] for k in self.lanes_of(index)),
            waits=self.waits[index],
            frees=self.frees.get(index, ()),
            task=self.task(index),
            copy=self.copies.get(index),
        )

    def __iter__(self) -> Iterator[Action]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"Plan({self.scheduler}, {len(self)} actions on {len(self.lanes)} lanes of {self.platform.name})"

    def lanes_of(self, index: int) -> tuple[int, ...]:
        """Numbers of the lanes that an action occupies: one, but for collectives."""
        return self.lane_of[index], *self.more_lanes.get(index, ())

    def task(self, index: int) -> Task | None:
        """The task of an action; None for inserted copies and the scheduler's own waits."""
        node = self.work.graph.nodes.get(self.names[index])
        return None if node is None else node["task"]

    @cached_property
    def tasks(self) -> list[Task | None]:
        """The task of each action, as `task` has it."""
        task_of = {task.name: task for task in self.work.tasks}
        return [task_of.get(name) for name in self.names]

    @cached_property
    def index_of(self) -> dict[str, int]:
        """Action number by name."""
        return {name: i for i, name in enumerate(self.names)}

    def buffer(self, read: Read, device: str) -> str:
        """Name of the buffer that holds `read` on `device`: the value's own, or an inserted copy's."""
        return read.value.name if self.homes[read.value.name] == device else f"{read}>{device}"

    def lanes_of_device(self, device: str) -> list[Lane]:
        """Compute lanes of a device."""
        return [lane for lane in self.lanes if lane.device == device and lane.kind == "compute"]

    @cached_property
    def joins(self) -> tuple[Join, ...]:
        """Concatenations whose parts are made in their places; see `plan.joins`."""
        from graphsched.plan.joins import joins

        return tuple(joins(self))

    @cached_property
    def peak_memory(self) -> Mapping[str, Peak]:
        """The most memory in use at once by device, and what lies there then; see `plan.memory`."""
        from graphsched.plan.memory import peak_memory

        return peak_memory(self)

    def check(self) -> None:
        """Make sure that the plan runs `work` correctly and cannot get stuck.

        Raises:
            PlanError: An action, lane, copy or dependency is missing or wrong; names the line.
            DeadlockError: Actions wait for each other in a circle.
        """
        from graphsched.plan.check import check

        check(self)

    @property
    def text(self) -> str:
        """The plan as text that a person can read; see `from_text`."""
        from graphsched.plan.text import to_text

        return to_text(self)

    @classmethod
    def from_text(cls, text: str, work: Workload, platform: Platform, costs: Costs | None = None) -> Plan:
        """The plan that `text` describes, checked.

        Raises:
            PlanError: A line cannot be read, or the plan is one of another workload or platform.
        """
        from graphsched.plan.text import from_text

        return from_text(text, work, platform, costs)


def line_of(plan: Plan, index: int) -> int:
    """Line number of action `index` in the plan's text, from 1."""
    return HEAD_LINES + len(plan.lanes) + 2 + index

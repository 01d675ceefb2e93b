"""What happened when: spans of actions, predicted or measured, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from graphsched.errors import FileFormatError, PlanError
from graphsched.plan import Plan

Seconds = NDArray[np.float64]
Bounds = tuple[float, float]
Interval = tuple[float, float]
Halves = Mapping[tuple[int, int], Interval]
HALVES = "halves"  # the column that only timelines of messages between ranks have


@dataclass(frozen=True, slots=True)
class Span:
    """When one action was issued and when it ran, in seconds from time 0.

    `start` is when its lane passes the event before it, `end` when it passes the event after; both
    are those of the thread for waits.
    """

    action: str
    lane: str
    issue_start_s: float
    issue_end_s: float
    start_s: float
    end_s: float

    @property
    def duration_s(self) -> float:
        """Time between start and end."""
        return self.end_s - self.start_s


@dataclass(frozen=True, eq=False)
class Timeline:
    """The spans of a plan's actions, as columns of shape (actions,), in seconds from time 0.

    Time 0 is when the dispatching thread begins the first action; the makespan ends when that
    thread knows that all lanes are done.

    Attributes:
        plan: What was predicted or run.
        source: ``predicted`` or ``measured``.
        issue_start_s, issue_end_s: When the thread began and ended issuing each action.
        start_s, end_s: When each action ran on its lane.
        halves_s: When another rank than the one that a message or collective begins on began and ended issuing its
            half, by action and rank; empty where there is no such rank, and where that was not kept.
        makespan_s: Time of one run without timing events (measured: the median of `samples_s`).
        timed_makespan_s: Time of the run that the spans are of, timing events included.
        samples_s: Measured makespans; empty for a prediction.
        clock_uncertainty_s: How far spans of different devices may be off each other.
        estimated: Names of tasks whose costs are estimates.
        notes: What a reader of the figures must know.
        find_interval: How to find `interval_s`, or the bounds themselves; None for measured timelines.
    """

    plan: Plan
    source: Literal["predicted", "measured"]
    issue_start_s: Seconds
    issue_end_s: Seconds
    start_s: Seconds
    end_s: Seconds
    makespan_s: float
    timed_makespan_s: float
    samples_s: tuple[float, ...] = ()
    clock_uncertainty_s: float = 0.0
    estimated: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
    find_interval: Callable[[], Bounds] | Bounds | None = field(default=None, repr=False)
    halves_s: Halves = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.start_s)

    def __getitem__(self, index: int) -> Span:
        return Span(
            self.plan.names[index],
            self.plan.lanes[self.plan.lane_of[index]].name,
            float(self.issue_start_s[index]),
            float(self.issue_end_s[index]),
            float(self.start_s[index]),
            float(self.end_s[index]),
        )

    def __iter__(self) -> Iterator[Span]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"Timeline({self.source}, {len(self)} actions, makespan {self.makespan_s:.6g} s)"

    @property
    def spread(self) -> float | None:
        """Half the distance between the quartiles of the samples, as a share of their median."""
        if len(self.samples_s) < 4:
            return None
        low, middle, high = np.percentile(self.samples_s, (25, 50, 75))
        return float((high - low) / 2 / middle)

    @cached_property
    def interval_s(self) -> Bounds | None:
        """Of a prediction, bounds that a measured makespan lies between nine times in ten.

        They follow from the spread of the figures that the prediction rests on, and are found when first
        asked for: the plan is simulated three times more.
        """
        return self.find_interval() if callable(self.find_interval) else self.find_interval

    def busy_s(self) -> dict[str, float]:
        """Seconds that each lane spends on its actions (runs and copies)."""
        busy = {lane.name: 0.0 for lane in self.plan.lanes}
        for i, kind in enumerate(self.plan.kinds):
            for lane in self.plan.lanes_of(i) if kind != "wait" else ():
                busy[self.plan.lanes[lane].name] += float(self.end_s[i] - self.start_s[i])
        return busy

    def utilisation(self) -> dict[str, float]:
        """Share of the timed makespan that each lane spends on its actions."""
        whole = self.timed_makespan_s or 1.0
        return {lane: busy / whole for lane, busy in self.busy_s().items()}

    def overlap_s(self, first: Sequence[str], second: Sequence[str]) -> float:
        """Seconds in which a lane of `first` and a lane of `second` (names) are busy at once."""
        a, b = self._covered(set(first)), self._covered(set(second))
        shared, i, j = 0.0, 0, 0
        while i < len(a) and j < len(b):
            shared += max(0.0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
            if a[i][1] <= b[j][1]:
                i += 1
            else:
                j += 1
        return shared

    def _covered(self, lanes: set[str]) -> list[Interval]:
        wanted = {k for k, lane in enumerate(self.plan.lanes) if lane.name in lanes}
        return merge(
            (float(self.start_s[i]), float(self.end_s[i]))
            for i in range(len(self.plan))
            if not wanted.isdisjoint(self.plan.lanes_of(i))
        )

    def critical_path(self) -> list[int]:
        """Actions, first to last, each of which ended last among what the next one waited for.

        What an action waits for is the action before it on its lane, its waits, and the thread's
        last wait before it was issued.
        """
        if not len(self):
            return []
        before = predecessors(self.plan)
        path = [int(np.argmax(self.end_s))]
        while before[path[-1]]:
            path.append(max(before[path[-1]], key=lambda j: (self.end_s[j], -j)))
        return path[::-1]

    def to_dict(self) -> dict[str, Any]:
        """Figures and columns for JSON; the plan is stored by its own text."""
        return {
            "source": self.source,
            "makespan_s": self.makespan_s,
            "timed_makespan_s": self.timed_makespan_s,
            "samples_s": list(self.samples_s),
            "clock_uncertainty_s": self.clock_uncertainty_s,
            "estimated": list(self.estimated),
            "notes": list(self.notes),
            "interval_s": list(self.interval_s) if self.interval_s else None,
            "spans": {name: column.tolist() for name, column in self.columns().items()},
        }

    def columns(self) -> dict[str, Seconds]:
        """The spans by the names of their columns, seconds by action.

        Where there are halves, these are there too: rows of action, rank, begin and end.
        """
        found: dict[str, Seconds] = {name: getattr(self, name) for name in COLUMNS}
        rows = [[*half, *times] for half, times in sorted(self.halves_s.items())]
        return found | ({HALVES: np.array(rows, dtype=np.float64)} if rows else {})

    @classmethod
    def from_dict(cls, data: dict[str, Any], plan: Plan) -> Timeline:
        """The timeline of `to_dict`.

        Raises:
            FileFormatError: Entries are missing or wrong, or the spans are not those of `plan`.
        """
        try:
            columns = {name: np.asarray(data["spans"][name], dtype=np.float64) for name in COLUMNS}
            if any(column.shape != (len(plan),) for column in columns.values()):
                raise ValueError(f"{len(plan)} spans are needed, one an action of the plan")
            return cls(
                plan=plan,
                source=data["source"],
                makespan_s=data["makespan_s"],
                timed_makespan_s=data["timed_makespan_s"],
                samples_s=tuple(data["samples_s"]),
                clock_uncertainty_s=data["clock_uncertainty_s"],
                estimated=tuple(data["estimated"]),
                notes=tuple(data["notes"]),
                find_interval=_pair(data.get("interval_s")),
                halves_s=halves_in(data["spans"], len(plan)),
                **columns,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(f"not a timeline: {type(error).__name__}: {error}") from error


COLUMNS = ("issue_start_s", "issue_end_s", "start_s", "end_s")


def check_timeline(line: Timeline) -> None:
    """Make sure that `line` is a timeline.

    Raises:
        PlanError: It is something else.
    """
    if not isinstance(line, Timeline):
        raise PlanError(
            f"a {type(line).__name__} was given: a timeline is needed, which gs.predict and gs.execute make of a plan"
        )


def halves_in(spans: Mapping[str, Any], actions: int) -> dict[tuple[int, int], Interval]:
    """`Timeline.halves_s` of a plan of so many actions, from `Timeline.columns`; none where that column is missing.

    Raises:
        FileFormatError: A row is of no action of the plan, or of no rank.

    Example:
        >>> halves_in({"halves": [[3, 1, 0.5, 0.75]]}, 4), halves_in({}, 4)
        ({(3, 1): (0.5, 0.75)}, {})
    """
    found = {}
    for action, rank, start_s, end_s in np.asarray(spans.get(HALVES, ()), dtype=np.float64).tolist():
        if not (0 <= action < actions and rank >= 0 and action.is_integer() and rank.is_integer()):
            raise FileFormatError(
                f"a half is of action {action:g} on rank {rank:g}; the plan has {actions} actions, from 0"
            )
        found[int(action), int(rank)] = start_s, end_s
    return found


def _pair(bounds: Sequence[float] | None) -> Bounds | None:
    """Two bounds as JSON gives them; files from before there were any have none."""
    if bounds is None:
        return None
    low, high = bounds
    return float(low), float(high)


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """The same moments as intervals that are apart from each other, in order.

    Example:
        >>> merge([(2.0, 3.0), (0.0, 1.0), (0.5, 1.5)])
        [(0.0, 1.5), (2.0, 3.0)]
    """
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    return merged


def predecessors(plan: Plan) -> list[list[int]]:
    """What each action waits for: its waits, the actions before it on its lanes, and the thread's last wait.

    Example:
        >>> from graphsched.plan import Placement, build_plan
        >>> from graphsched.platform import Device, Platform
        >>> from graphsched.workload import Workload
        >>> work = Workload()
        >>> for name in "abc":
        ...     _ = work.task("add", name=name, outputs=[])
        >>> lanes = {"a": "cpu/w0", "b": "cpu/w1", "c": "cpu/w0"}
        >>> here = Platform("here", (Device("cpu", "cpu"),))
        >>> predecessors(build_plan(work, here, None, Placement(list("abc"), lanes), scheduler="by hand"))
        [[], [], [0]]
    """
    last: dict[int, int] = {}
    thread: list[int] = []
    before = []
    for i in range(len(plan)):
        lanes = plan.lanes_of(i)
        before.append([*plan.waits[i], *dict.fromkeys(last[lane] for lane in lanes if lane in last), *thread])
        last.update(dict.fromkeys(lanes, i))
        if plan.kinds[i] == "wait":
            thread = [i]
    return before

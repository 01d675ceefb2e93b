"""Tasks on processors that are all alike, with values that are everywhere at once: P | prec | Cmax."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphsched.costs import Costs
from graphsched.plan import Placement
from graphsched.platform import Platform
from graphsched.schedulers.placing.candidates import Devices, find_candidates
from graphsched.schedulers.placing.durations import Durations
from graphsched.schedulers.placing.lanes import Copies, lane_name
from graphsched.workload import Workload

Numbers = Sequence[int]


@dataclass(frozen=True, eq=False)
class Identical:
    """Tasks by number in topological order, and lanes that are processors of one kind.

    Attributes:
        names: Of the tasks.
        seconds: How long each takes.
        before, after: Tasks that it comes directly after and before.
        lanes: Names of the lanes.
    """

    names: Sequence[str]
    seconds: Sequence[float]
    before: Sequence[Numbers]
    after: Sequence[Numbers]
    lanes: Sequence[str]

    def __len__(self) -> int:
        return len(self.names)

    def backwards(self) -> Identical:
        """The same with time running backwards: task i is task n - 1 - i here."""
        last = len(self) - 1

        def turned(rows: Sequence[Numbers]) -> list[list[int]]:
            return [[last - i for i in row] for row in reversed(rows)]

        return Identical(self.names[::-1], self.seconds[::-1], turned(self.after), turned(self.before), self.lanes)

    def tails_s(self) -> list[float]:
        """Seconds from the start of each task to the end of all, along the longest path."""
        tails = [0.0] * len(self)
        for i in reversed(range(len(self))):
            tails[i] = self.seconds[i] + max((tails[j] for j in self.after[i]), default=0.0)
        return tails

    def makespan_s(self, start_s: Sequence[float]) -> float:
        """End of the last task."""
        return max((start + seconds for start, seconds in zip(start_s, self.seconds, strict=True)), default=0.0)

    def placement(self, start_s: Sequence[float], copies: Copies) -> Placement:
        """The placement of these starts: each task to a lane that is free then, the one free for the shortest time."""
        order = sorted(range(len(self)), key=lambda i: (start_s[i], self.seconds[i] > 0.0))
        idle_s = [0.0] * len(self.lanes)
        lanes: dict[str, str] = {}
        for i in order:
            free = [k for k, since in enumerate(idle_s) if since <= start_s[i]]
            lane = max(free, key=idle_s.__getitem__) if free else min(range(len(idle_s)), key=idle_s.__getitem__)
            idle_s[lane] = max(idle_s[lane], start_s[i]) + self.seconds[i]
            lanes[self.names[i]] = self.lanes[lane]
        return Placement([self.names[i] for i in order], lanes, copies=copies)


def find_identical(work: Workload, platform: Platform, costs: Costs, counts: Mapping[str, int]) -> Identical | None:
    """`work` on the lanes (`counts` of each device) of a platform where these are all alike; None where they are not.

    They are where every task may run on every device in use, takes the same time on each, and needs no value from
    another device.
    """
    candidates = find_candidates(work, platform)
    devices = candidates.used()
    if any(task.kind != "run" or candidates.devices[task.name] != devices for task in work.tasks):
        return None
    durations = Durations(platform, costs)
    rows = [durations.row(task, devices) for task in work.tasks]
    if any(min(row) != max(row) for row in rows) or not _everywhere(work, devices):
        return None
    number = {name: i for i, name in enumerate(work.graph)}
    return Identical(
        names=list(number),
        seconds=[row[0] for row in rows],
        before=[[number[name] for name in work.graph.pred[task]] for task in number],
        after=[[number[name] for name in work.graph.succ[task]] for task in number],
        lanes=[lane_name(platform.device(d), k) for d in devices for k in range(counts[d])],
    )


def _everywhere(work: Workload, devices: Devices) -> bool:
    """Whether no plan needs copies: there is one device, and all values are there; or tasks read no values at all."""
    if len(devices) <= 1:
        return all(value.device in (None, *devices) for value in work.values.values())
    return not any(task.reads or task.updates for task in work.tasks)

"""A scheduling problem in numbers: what searches and solvers need to know of workload, platform and costs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from graphsched.costs import Costs
from graphsched.errors import PlatformError
from graphsched.plan import Placement, copy_lane, lies_pageable
from graphsched.platform import Platform
from graphsched.schedulers.placing.candidates import Candidates, find_candidates
from graphsched.schedulers.placing.durations import Durations, Transfers
from graphsched.schedulers.placing.lanes import Copies, lane_name
from graphsched.workload import Memory, Read, Task, Value, Workload

Rows = Sequence[Sequence[float]]
"""Seconds from each device to each device; infinite where no link leads."""


@dataclass(frozen=True, slots=True)
class Home:
    """Device of a value's own buffer: number `device`, or where task number `like` runs."""

    device: int = -1
    like: int = -1


@dataclass(frozen=True, eq=False, slots=True)
class Need:
    """A value, in one version, that a task reads.

    Attributes:
        key: Number of the value and version: a plan copies it to a device once.
        source: Number of the task that wrote it; -1: it is there before time 0.
        home: Where it lives.
        rows: How long copies of it take.
        root: Number of the value that owns the storage.
    """

    key: int
    source: int
    home: Home
    rows: Rows
    root: int


@dataclass(frozen=True, eq=False)
class Instance:
    """Tasks, devices and places (compute lanes) by number; tasks in the order of the workload.

    Attributes:
        names, kinds: Of the tasks.
        devices: Names of all devices where tasks may run or values may live.
        lanes, device_of: Name of each place, and number of its device.
        seconds: Of each task on each place; infinite where it may not run.
        choices: Places where each task may run.
        needs: What each task reads; of a copy, the value copied.
        targets: Device that each copy asked for goes to; -1 for other tasks.
        follows: Tasks that each must wait for whatever their values do; and whether it need not where they run on
            another device (they read a copy of what it updates).
        before, after: Tasks directly before and after each, for whatever reason.
        updates: Roots that each task changes in place.
        groups: Tasks that must share a device.
        anchors: Tasks whose device is the home of a state.
        copies: Lanes of the copies asked for.
        copy_lanes: Number of the lane from each device to each.
        engines: Number of the copy engine that serves the way from each device to each, where that makes one copy at a
            time and serves other ways too; else -1.
    """

    names: Sequence[str]
    kinds: Sequence[str]
    devices: Sequence[str]
    lanes: Sequence[str]
    device_of: Sequence[int]
    seconds: Rows
    choices: Sequence[Sequence[int]]
    needs: Sequence[Sequence[Need]]
    targets: Sequence[int]
    follows: Sequence[Sequence[tuple[int, bool]]]
    before: Sequence[Sequence[int]]
    after: Sequence[Sequence[int]]
    updates: Sequence[Sequence[int]]
    groups: Sequence[Sequence[int]]
    anchors: frozenset[int]
    copies: Copies
    copy_lanes: Sequence[Sequence[int]]
    engines: Sequence[Sequence[int]]

    def __len__(self) -> int:
        return len(self.names)

    @property
    def runs(self) -> list[int]:
        """Tasks that occupy a compute lane."""
        return [i for i, kind in enumerate(self.kinds) if kind == "run"]

    @property
    def intervals(self) -> int:
        """How many tasks on places and copies between devices there could be at most."""
        keys = {need.key for needs in self.needs for need in needs}
        return sum(map(len, self.choices)) + len(keys) * len(self.devices) ** 2

    @property
    def copies_follow_readers(self) -> bool:
        """Whether, on each lane, copies in the order of the starts of their first readers are all that plans can do.

        So it is where each device has one place, and no copies that the workload asks for come between.
        """
        return len(set(self.device_of)) == len(self.device_of) and "copy" not in self.kinds

    def all_seconds(self) -> Iterator[float]:
        """How long tasks and copies may take, wherever they can be."""
        rows = [*self.seconds, *(row for needs in self.needs for need in needs for row in need.rows)]
        return (seconds for row in rows for seconds in row if seconds < math.inf)

    def by_start(self, start_s: Sequence[float], order: Sequence[int]) -> list[int]:
        """All tasks by starts, those that start at once as in `order`; a task is never before one that it follows.

        A task that updates what another one reads a copy of may start before that one; it is dispatched after it.
        """
        position = {i: k for k, i in enumerate(order)}
        keys = [(start_s[i], position[i], i) for i in range(len(self))]
        if not any(unless_elsewhere for row in self.follows for _, unless_elsewhere in row):
            return [i for *_, i in sorted(keys)]
        missing = [len(before) for before in self.before]
        ready = [keys[i] for i, count in enumerate(missing) if not count]
        heapify(ready)
        found = []
        while ready:
            *_, i = heappop(ready)
            found.append(i)
            for j in self.after[i]:
                missing[j] -= 1
                if not missing[j]:
                    heappush(ready, keys[j])
        return found

    def placement(self, order: Sequence[int], place: Sequence[int]) -> Placement:
        """Tasks in this dispatch order, each on its place."""
        lanes = {self.names[i]: self.lanes[place[i]] for i in self.runs}
        return Placement([self.names[i] for i in order], lanes, copies=self.copies)

    def read(self, placement: Placement) -> tuple[list[int], list[int]] | None:
        """Order and places of a placement; None where it uses a lane that is none of the places, or waits."""
        number = {name: i for i, name in enumerate(self.names)}
        places = {name: k for k, name in enumerate(self.lanes)}
        if placement.wait_after or not places.keys() >= set(placement.lanes.values()):
            return None
        place = [-1] * len(self)
        for name, lane in placement.lanes.items():
            place[number[name]] = places[lane]
        return [number[name] for name in placement.order], place


def make_instance(
    work: Workload, platform: Platform, costs: Costs, counts: Mapping[str, int], copies: Copies
) -> Instance:
    """The problem of `work` on the lanes (`counts` of each device) of `platform`.

    Raises:
        ScheduleError: Tasks that must share a device have none in common.
        PlatformError: A constraint names no device of the platform.
        CostError: Durations were given, but none for a device where the task may run.
    """
    return _Maker(work, platform, costs, find_candidates(work, platform), counts).made(copies)


@dataclass
class _Maker:
    work: Workload
    platform: Platform
    costs: Costs
    candidates: Candidates
    counts: Mapping[str, int]
    _rows: dict[tuple[int, Memory], Rows] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.number = {name: i for i, name in enumerate(self.work.graph)}
        ends = [v.device for v in self.work.values.values() if v.device is not None]
        self.devices = list(dict.fromkeys([*self.candidates.used(), *ends, *self._host()]))
        self.places = [(d, k) for d in self.candidates.used() for k in range(self.counts[d])]
        self.transfers = Transfers(self.platform, self.counts)
        self.roots = {name: k for k, name in enumerate(self.work.values)}
        runs = [task for task in self.work.tasks if task.kind == "run"]
        self.first_reader = {read.value.name: task.name for task in reversed(runs) for read in task.reads}

    def _host(self) -> list[str]:
        return [d.name for d in self.platform.devices if d.name == "cpu"]

    def made(self, copies: Copies) -> Instance:
        tasks, number, graph = self.work.tasks, self.number, self.work.graph
        durations = Durations(self.platform, self.costs)
        seconds = [self._seconds(task, durations) for task in tasks]
        keys = {str(read): k for k, read in enumerate(r for t in tasks for r in t.reads)}
        names = list(dict.fromkeys(copy_lane(a, b) for a in self.devices for b in self.devices))
        return Instance(
            names=list(number),
            kinds=[task.kind for task in tasks],
            devices=self.devices,
            lanes=[lane_name(self.platform.device(d), k) for d, k in self.places],
            device_of=[self.devices.index(d) for d, _ in self.places],
            seconds=seconds,
            choices=[[k for k, s in enumerate(row) if s < math.inf] for row in seconds],
            needs=[[self._need(task, read, keys) for read in task.reads] for task in tasks],
            targets=[self.devices.index(str(t.outputs[0].device)) if t.kind == "copy" else -1 for t in tasks],
            follows=[self._follows(task) if task.kind == "run" else [] for task in tasks],
            before=[[number[name] for name in graph.pred[task.name]] for task in tasks],
            after=[[number[name] for name in graph.succ[task.name]] for task in tasks],
            updates=[list(dict.fromkeys(self.roots[v.root] for v in task.updates)) for task in tasks],
            groups=self._groups(),
            anchors=self._anchors(),
            copies=copies,
            copy_lanes=[[names.index(copy_lane(a, b)) for b in self.devices] for a in self.devices],
            engines=[self._engines(number, name) for number, name in enumerate(self.devices)],
        )

    def _seconds(self, task: Task, durations: Durations) -> list[float]:
        if task.kind != "run":
            return []
        devices = self.candidates.devices[task.name]
        row = dict(zip(devices, durations.row(task, devices), strict=True))
        return [row.get(device, math.inf) for device, _ in self.places]

    def _need(self, task: Task, read: Read, keys: Mapping[str, int]) -> Need:
        asked = task.memory if task.kind == "copy" else "pinned"
        memory: Memory = "pageable" if lies_pageable(self.work, read.value) else asked
        source = -1 if read.source is None else self.number[read.source]
        rows = self._asked_rows(read.value, task) if task.kind == "copy" else self._rows_of(read.value.nbytes, memory)
        return Need(keys[str(read)], source, self._home(read.value), rows, self.roots[read.value.root])

    def _home(self, value: Value) -> Home:
        if value.device is not None:
            return Home(device=self.devices.index(value.device))
        if value.kind == "output":
            return Home(like=self.number[str(value.producer)])
        group = self.candidates.group_of_state.get(value.name)
        members = [name for name, k in self.candidates.group_of.items() if k == group]
        reader = members[0] if members else self.first_reader.get(value.name)
        if reader is not None:
            return Home(like=self.number[reader])
        return Home(device=self.devices.index(self.platform.device("cpu").name))  # only copies read it

    def _rows_of(self, nbytes: int, memory: Memory) -> Rows:
        """Of copies that a plan inserts: from the host to a GPU by this kind of memory, else by pinned memory."""
        if (nbytes, memory) not in self._rows:
            found = [self.transfers.row(a, nbytes, memory if a == "cpu" else "pinned") for a in self.devices]
            self._rows[nbytes, memory] = [[row[b] for b in self.devices] for row in found]
        return self._rows[nbytes, memory]

    def _asked_rows(self, value: Value, task: Task) -> Rows:
        """Of a copy that the workload asks for; those to other devices than its target do not count."""
        target = str(task.outputs[0].device)
        to_gpu = self.platform.device(target).kind == "cuda"
        rows = []
        for source in self.devices:
            pageable = source == "cpu" and to_gpu and lies_pageable(self.work, value)
            memory: Memory = "pageable" if pageable else task.memory
            seconds = self.transfers.asked_s(source, target, memory, value.nbytes)
            rows.append([seconds if device == target else math.inf for device in self.devices])
        return rows

    def _follows(self, task: Task) -> list[tuple[int, bool]]:
        changed = {v.root for v in task.updates}
        found = []
        for name in task.after:
            other = self.work[name]
            if other.kind != "barrier":
                reads_it = other.kind == "run" and any(r.value.root in changed for r in other.reads)
                found.append((self.number[name], reads_it))
        return found

    def _engines(self, number: int, source: str) -> list[int]:
        """Of the ways from one device: `number` where its engine makes the copy, as in `simulator.copy_engines`."""
        served = [target != source and self._is_peer(source, target) for target in self.devices]
        one = self.platform.device(source).peer_engines == 1 and sum(served) > 1
        return [number if one and peer else -1 for peer in served]

    def _is_peer(self, source: str, target: str) -> bool:
        try:
            return self.platform.link(source, target).memory == "peer"
        except PlatformError:
            return False

    def _groups(self) -> list[list[int]]:
        groups: dict[int, list[int]] = {}
        for name, group in self.candidates.group_of.items():
            groups.setdefault(group, []).append(self.number[name])
        return list(groups.values())

    def _anchors(self) -> frozenset[int]:
        read = {read.value.name: read.value for task in self.work.tasks for read in task.reads}
        states = [value for value in read.values() if value.kind == "state"]
        return frozenset(home.like for home in map(self._home, states) if home.like >= 0)

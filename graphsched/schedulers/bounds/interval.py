"""The lower bound of Fernandez and Bussell: work that must fall into an interval, over the processors there."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphsched.costs import Costs
from graphsched.platform import Platform
from graphsched.schedulers.bounds.fastest import Fastest, processors
from graphsched.schedulers.bounds.precedence import always_before
from graphsched.schedulers.placing.candidates import Candidates, Devices, find_candidates
from graphsched.workload import Workload

Floats = NDArray[np.float64]

EFFORT = 3e7
"""Tasks times intervals that are looked at: all intervals of a few hundred tasks, a grid of those of many."""


def interval_bound(work: Workload, platform: Platform, costs: Costs | None = None, *, mode: str = "eager") -> float:
    """Seconds of the longest path, longer by what the busiest interval lacks.

    If a plan took no longer than the longest path, each task would have an earliest start and a latest end, and a part
    of it would have to lie in a given interval wherever it is put. Where these parts are more than the devices can do
    in that time, the plan takes longer by the excess over their number. Where all tasks take whole numbers of seconds,
    so does the bound. What a task takes, and the part of a device that it takes up, is as in `work_bound`; each set of
    devices that tasks are bound to counts by itself.

    Source: E. Fernández, B. Bussell: Bounds on the number of processors and time for multiprocessor optimal schedules.
    IEEE Transactions on Computers C-22 (8), 1973, theorem 2.

    Not modelled: transfers; dispatch.

    Example:
        >>> import networkx as nx
        >>> from graphsched.platform import Device
        >>> graph = nx.DiGraph([("a", "b"), ("a", "c"), ("a", "d"), ("b", "e"), ("c", "e"), ("d", "e")])
        >>> nx.set_node_attributes(graph, 1.0, "duration_s")
        >>> two = Platform("two", (Device("cuda:0", "cuda"), Device("cuda:1", "cuda")))
        >>> interval_bound(Workload.from_graph(graph), two)  # the path takes 3 s, all work 2.5 s on two
        4.0
    """
    return longest_with_excess_s(work, platform, find_candidates(work, platform), Fastest(work, platform, costs, mode))


def longest_with_excess_s(work: Workload, platform: Platform, candidates: Candidates, fastest: Fastest) -> float:
    """`interval_bound`, of what is known of where tasks may run and what they take."""
    windows = _windows(work, candidates, fastest)
    sets = [within for within in dict.fromkeys([*candidates.devices.values(), candidates.used()]) if within]
    length_s = windows.length_s
    longer_s = 0.0
    for within in sets:
        inside = set(within)
        chosen = [i for i, devices in enumerate(windows.devices) if inside.issuperset(devices)]
        count = sum(processors(platform, name) for name in within)
        longer_s = max(longer_s, _excess_s(windows.of(chosen), count, EFFORT / len(sets)))
    return float(math.ceil(length_s + longer_s)) if windows.whole else length_s + longer_s


@dataclass(frozen=True, eq=False)
class _Windows:
    """When run tasks could be done in a plan that takes as long as the longest path.

    Attributes:
        devices: Where each may run.
        seconds: How long each takes alone.
        loads: The part of a processor that it takes up meanwhile, of each resource where these differ.
        first_s, last_s: Its earliest start and its latest end.
        length_s: Of the longest path.
    """

    devices: tuple[Devices, ...]
    seconds: Floats
    loads: tuple[Floats, ...]
    first_s: Floats
    last_s: Floats
    length_s: float

    @property
    def whole(self) -> bool:
        """Whether all take whole seconds and a processor each, so that the best plan takes whole seconds too."""
        full = all(np.all(load == 1.0) for load in self.loads)
        return bool(full and np.all(self.seconds == np.floor(self.seconds)))

    def of(self, chosen: list[int]) -> _Windows:
        """Those of some tasks."""
        devices, loads = tuple(self.devices[i] for i in chosen), tuple(load[chosen] for load in self.loads)
        columns = self.first_s[chosen], self.last_s[chosen]
        return _Windows(devices, self.seconds[chosen], loads, *columns, self.length_s)

    def moments(self, most: int) -> Floats:
        """Where a task may begin or must end: all of these, or `most` of them."""
        ends = self.first_s + self.seconds, self.last_s - self.seconds
        found = np.unique(np.concatenate([self.first_s, self.last_s, *ends]))
        return found if len(found) <= most else found[np.linspace(0, len(found) - 1, most).round().astype(np.intp)]


def _windows(work: Workload, candidates: Candidates, fastest: Fastest) -> _Windows:
    tasks, found = work.tasks, candidates.devices
    alone = {t.name: fastest.alone_s(t, found[t.name]) if t.kind == "run" else 0.0 for t in tasks}
    before = always_before(work, candidates)
    first: dict[str, float] = {}
    for name in alone:
        first[name] = max((first[n] + alone[n] for n in before[name]), default=0.0)
    after = dict.fromkeys(alone, 0.0)
    for name in reversed(list(alone)):
        for earlier in before[name]:
            after[earlier] = max(after[earlier], after[name] + alone[name])
    length_s = max((first[name] + alone[name] for name in alone), default=0.0)
    runs = [task for task in tasks if task.kind == "run" and alone[task.name] > 0.0]
    rows = [[part / alone[t.name] for part in fastest.shares_s(t, found[t.name])] for t in runs]
    return _Windows(
        tuple(found[task.name] for task in runs),
        np.array([alone[task.name] for task in runs]),
        tuple(np.array(load) for load in dict.fromkeys(zip(*rows, strict=True))),
        np.array([first[task.name] for task in runs]),
        np.array([length_s - after[task.name] for task in runs]),
        length_s,
    )


def _excess_s(tasks: _Windows, count: int, effort: float) -> float:
    """By how much the interval that lacks the most is too short for `count` processors."""
    if not len(tasks.seconds):
        return 0.0
    moments = tasks.moments(max(2, math.isqrt(int(effort / len(tasks.seconds)))))
    return max(float(np.max(loads / count - lengths)) for loads, lengths in _loads(tasks, moments))


def _loads(tasks: _Windows, moments: Floats) -> Iterator[tuple[Floats, Floats]]:
    """For each moment: what must be done between it and each later one, and the seconds between them."""
    latest_start = tasks.last_s - tasks.seconds
    for i, begin in enumerate(moments):
        ends = moments[i:]
        most = np.minimum(tasks.seconds, tasks.first_s + tasks.seconds - begin)
        there = most > 0.0
        parts = np.minimum(most[there, None], np.maximum(ends - latest_start[there, None], 0.0))
        parts = np.minimum(parts, ends - begin)
        yield np.max([load[there] @ parts for load in tasks.loads], axis=0), ends - begin

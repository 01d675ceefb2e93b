"""Workloads with communication whose optimum is known, because they are built around it.

A schedule is drawn first; tasks, durations and transfers are then read off it, so that it can be kept, and so that a
lower bound says that nothing is faster. `packed` leaves no idle time: the bound is the work of all tasks, each on its
fastest device. `threaded` lets one chain of tasks last from the beginning to the end: the bound is the longest path,
and devices are idle in between.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import networkx as nx

from graphsched.plan import Placement
from graphsched.platform import Device, Dispatch, Link, Platform
from graphsched.simulator import Model
from graphsched.simulator.model import switched
from graphsched.workload import Workload

TASK_S = 20
"""Mean seconds of a task; all are whole."""
READERS = 4
"""Most tasks, of those drawn before, that a task reads from."""
SLOWER = 1.25
"""A task takes up to this many times as long on other devices than on that of the optimum."""
IDLE = 0.1
"""Part of the time for which devices beside the chain are idle in `threaded`."""

FREE = switched(Dispatch(), Model(dispatch=False, waits=False, timing=False, blocking=False, pace=False))
"""Dispatch that takes no time."""


@dataclass(frozen=True, eq=False)
class KnownOptimum:
    """A workload, where it runs, and a placement that no other one beats.

    Attributes:
        method: ``packed`` or ``threaded``.
        makespan_s: Of the placement.
    """

    method: str
    work: Workload
    platform: Platform
    placement: Placement
    makespan_s: float


@dataclass(frozen=True, eq=False)
class _Box:
    """A task as drawn: on which device, from when to when."""

    device: int
    start: int
    end: int


@dataclass(eq=False)
class _Drawing:
    """Boxes, and what has been passed between them.

    Attributes:
        free_s: When the link between two devices is free again.
    """

    boxes: list[_Box]
    choice: random.Random
    edges: list[tuple[int, int, int]] = field(default_factory=list)
    free_s: dict[tuple[int, int], int] = field(default_factory=dict)


def packed(devices: int, tasks: int, *, communication: float = 1.0, seed: int = 0) -> KnownOptimum:
    """Devices that are never idle: the time of each is cut into tasks that follow each other.

    Source: Y.-K. Kwok, I. Ahmad: Benchmarking and comparison of the task graph scheduling algorithms. J. of Parallel
    and Distributed Computing 59 (3), 1999, section 4.4 (random graphs with optimal schedules); here with devices of
    unlike speed and transfers that queue for their link.

    Args:
        devices: How many, every two joined by a link of one byte a second and no latency; a device sends to all others
            at once.
        tasks: How many, about; each device has one or more.
        communication: Seconds of a transfer over seconds of a task, at most; less where the schedule leaves less.
        seed: Of all choices.

    Example:
        >>> from graphsched.schedulers import lower_bound
        >>> made = packed(3, 12)
        >>> lower_bound(made.work, made.platform) == made.makespan_s
        True
    """
    choice = random.Random(seed)
    each = max(1, round(tasks / devices))
    length = each * TASK_S
    boxes = [box for d in range(devices) for box in _cut(d, 0, length, max(1, each + choice.randint(-1, 1)), choice)]
    return _made("packed", _Drawing(_by_start(boxes), choice), devices, length, communication)


def threaded(devices: int, tasks: int, *, communication: float = 1.0, seed: int = 0) -> KnownOptimum:
    """One device that is never idle, whose tasks form a chain; the others are idle now and then, with less to do.

    The chain's tasks pass each other values that take longer to copy than to make. Source and arguments as in `packed`;
    the bound is the longest path here.

    Example:
        >>> from graphsched.schedulers import critical_path_bound
        >>> made = threaded(3, 12)
        >>> critical_path_bound(made.work, made.platform) == made.makespan_s
        True
    """
    choice = random.Random(seed)
    each = max(2, round(tasks / devices))
    length = each * TASK_S
    chain = _cut(0, 0, length, each, choice)
    others = [box for d in range(1, devices) for box in _cut(d, 0, length, 2 * each, choice)]
    kept = [box for box in others if choice.random() >= IDLE]
    drawing = _Drawing(_by_start([*chain, *_joined(kept, choice)]), choice)
    on_chain = [i for i, box in enumerate(drawing.boxes) if box.device == 0]
    longest = max(1, round(communication * TASK_S))
    drawing.edges += [(i, j, choice.randint(longest, 2 * longest)) for i, j in pairwise(on_chain)]
    return _made("threaded", drawing, devices, length, communication)


METHODS: dict[str, Callable[..., KnownOptimum]] = {"packed": packed, "threaded": threaded}


# -- drawing -------------------------------------------------------------------------------------


def _cut(device: int, begin: int, end: int, parts: int, choice: random.Random) -> list[_Box]:
    """An interval of a device, cut into so many tasks of whole seconds, or as many as it has seconds."""
    cuts = sorted(choice.sample(range(begin + 1, end), min(parts, end - begin) - 1))
    moments = [begin, *cuts, end]
    return [_Box(device, a, b) for a, b in pairwise(moments)]


def _joined(boxes: Sequence[_Box], choice: random.Random) -> list[_Box]:
    """Boxes, of which some that touch each other become one."""
    found: list[_Box] = []
    for box in boxes:
        last = found[-1] if found else None
        if last is not None and last.device == box.device and last.end == box.start and choice.random() < 0.5:
            found[-1] = _Box(box.device, last.start, box.end)
        else:
            found.append(box)
    return found


def _by_start(boxes: Sequence[_Box]) -> list[_Box]:
    return sorted(boxes, key=lambda box: (box.start, box.device))


def _made(method: str, drawing: _Drawing, devices: int, length: int, communication: float) -> KnownOptimum:
    for j in range(len(drawing.boxes)):
        _read(drawing, j, communication)
    names = [f"t{i}" for i in range(len(drawing.boxes))]
    graph = nx.DiGraph()
    for name, box in zip(names, drawing.boxes, strict=True):
        graph.add_node(name, duration_s=_durations(box, devices, drawing.choice))
    graph.add_edges_from((names[i], names[j], {"nbytes": nbytes}) for i, j, nbytes in drawing.edges)
    work = Workload.from_graph(graph, name=f"{method} {devices}x{len(names)}")
    lanes = {name: f"cuda:{box.device}/s0" for name, box in zip(names, drawing.boxes, strict=True)}
    return KnownOptimum(method, work, _platform(devices), Placement(names, lanes), float(length))


def _read(drawing: _Drawing, j: int, communication: float) -> None:
    """Let task `j` read from some tasks that are over in time, as much as can be there when it starts."""
    box, boxes = drawing.boxes[j], drawing.boxes
    known = {i for i, k, _ in drawing.edges if k == j}
    before = [i for i in range(j) if boxes[i].end <= box.start and i not in known]
    most = max(1, round(communication * TASK_S))
    wanted = sorted(drawing.choice.sample(before, min(len(before), drawing.choice.randint(0, READERS))))
    for i in wanted:
        way = (boxes[i].device, box.device)
        if way[0] == way[1]:
            drawing.edges.append((i, j, drawing.choice.randint(1, 2 * most)))
            continue
        begin = max(boxes[i].end, drawing.free_s.get(way, 0))
        if begin < box.start:
            nbytes = drawing.choice.randint(1, min(most, box.start - begin))
            drawing.edges.append((i, j, nbytes))
            drawing.free_s[way] = begin + nbytes


def _durations(box: _Box, devices: int, choice: random.Random) -> dict[str, float]:
    seconds = box.end - box.start
    factors = [1.0 if d == box.device else choice.uniform(1.0, SLOWER) for d in range(devices)]
    return {f"cuda:{d}": float(round(seconds * factor)) for d, factor in enumerate(factors)}


def _platform(devices: int) -> Platform:
    made = tuple(Device(f"cuda:{d}", "cuda", peer_engines=0) for d in range(devices))
    links = tuple(Link(a.name, b.name, "peer", 0.0, 1.0) for a in made for b in made if a is not b)
    return Platform(f"{devices} unlike devices", made, links, dispatch=FREE)

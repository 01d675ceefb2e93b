"""How fast schedulers decide: random graphs of several sizes on eight devices."""

from __future__ import annotations

import operator
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import networkx as nx

from graphsched.platform import Device, Link, Platform
from graphsched.schedulers.registry import find_scheduler
from graphsched.workload import TensorSpec, Value, Workload

DEVICES = 8
FEW_TASKS, MANY_TASKS = 1_000, 10_000
REPEATS, MORE_REPEATS = 5, 20
BENCHED: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in ("sequential", "one_stream", "round_robin", "wavefront", "heft")},
    "heft, as published": ("heft", {"contention": False}),  # every copy alone on its link
}
"""Schedulers and their options, by the name of the row."""


def bench_schedulers(tasks: Sequence[int]) -> list[dict[str, Any]]:
    """Seconds that each scheduler takes for a random graph of each of these numbers of tasks.

    Returns:
        Rows of ``name``, ``tasks``, ``devices`` and ``seconds``: the time of the scheduler's own function,
        from workload to placement, the least of five (of up to `FEW_TASKS` tasks of twenty, of more than `MANY_TASKS`
        of one).

    Example:
        >>> [row["name"] for row in bench_schedulers([10])]
        ['sequential', 'one_stream', 'round_robin', 'wavefront', 'heft', 'heft, as published']
    """
    platform = _platform()
    rows: list[dict[str, Any]] = []
    for n in tasks:
        work = Workload.from_graph(random_graph(n), name=f"random{n}")
        for name in BENCHED:
            repeats = MORE_REPEATS if n <= FEW_TASKS else REPEATS if n <= MANY_TASKS else 1
            seconds = min(_timed(name, work, platform) for _ in range(repeats))
            rows.append({"name": name, "tasks": n, "devices": DEVICES, "seconds": seconds})
    return rows


def bench_workloads(tasks: Sequence[int]) -> list[dict[str, Any]]:
    """Seconds that building workloads of so many tasks takes: from bare graphs, and call by call.

    Returns:
        Rows of ``graph`` (``tree``: each task has one parent and one duration; ``random``: see `random_graph`;
        ``calls``: see `_called`), ``tasks``, ``edges`` and ``seconds``: the least of five times of
        `Workload.from_graph`, which checks names, durations and sizes, and that there is no cycle, or of as many calls
        of `Workload.task`; of these also ``bare_s``: of a loop that puts the same graph into networkx.

    Example:
        >>> [(row["graph"], row["tasks"], row["edges"]) for row in bench_workloads([10])]
        [('tree', 10, 9), ('random', 10, 18), ('calls', 10, 14)]
    """
    rows = []
    for n in tasks:
        for name, make in (("tree", random_tree), ("random", random_graph)):
            graph = make(n)
            seconds = min(_seconds(partial(Workload.from_graph, graph)) for _ in range(REPEATS))
            rows.append({"graph": name, "tasks": n, "edges": graph.number_of_edges(), "seconds": seconds})
        read = _read_by(n)
        edges = _called(read).graph.number_of_edges()
        seconds, bare = (min(_seconds(partial(build, read)) for _ in range(REPEATS)) for build in (_called, _bare))
        rows.append({"graph": "calls", "tasks": n, "edges": edges, "seconds": seconds, "bare_s": bare})
    return rows


def _read_by(tasks: int, seed: int = 0) -> list[tuple[int, int]]:
    """For each task the two that it reads, of the 50 before it; itself stands for the input."""
    random_of = random.Random(seed)
    return [(random_of.randint(max(0, i - 50), i), random_of.randint(max(0, i - 50), i)) for i in range(tasks)]


def _called(read: Sequence[tuple[int, int]]) -> Workload:
    """A workload of sums of two values, as a user builds it."""
    work = Workload("calls")
    x = work.input("x", TensorSpec((4,)))
    values: list[Value] = []
    for i, places in enumerate(read):
        one, other = (values[place] if place < i else x for place in places)
        values.append(work.task(operator.add, one, other, name=f"t{i}"))
    return work


def _bare(read: Sequence[tuple[int, int]]) -> nx.DiGraph:
    """The same graph, without what its tasks are."""
    graph = nx.DiGraph()
    for i, places in enumerate(read):
        graph.add_node(f"t{i}", task=i)
        graph.add_edges_from((f"t{place}", f"t{i}", {"nbytes": 16}) for place in places if place < i)
    return graph


def _timed(name: str, work: Workload, platform: Platform) -> float:
    asked, options = BENCHED[name]
    scheduler = find_scheduler(asked)
    return _seconds(lambda: scheduler(work, platform, platform.costs, **options))


def _seconds(function: Callable[[], object]) -> float:
    """Seconds of the processor, since those of a host that has other work differ."""
    begin = time.process_time()
    made = function()
    seconds = time.process_time() - begin
    del made  # to give its memory back is no part of the making
    return seconds


def random_tree(tasks: int, seed: int = 0) -> nx.DiGraph:
    """A random tree: each task has one of the 50 before it as its parent, and one duration for all devices."""
    random_of = random.Random(seed)
    graph = nx.DiGraph()
    for i in range(tasks):
        graph.add_node(f"t{i}", duration_s=random_of.uniform(1e-4, 1e-3))
        if i:
            parent = random_of.randrange(max(0, i - 50), i)
            graph.add_edge(f"t{parent}", f"t{i}", nbytes=random_of.randint(1_000, 50_000_000))
    return graph


def random_graph(tasks: int, seed: int = 0) -> nx.DiGraph:
    """A random DAG: each task has a duration for each device and up to four of the 50 tasks before it as parents."""
    random_of = random.Random(seed)
    graph = nx.DiGraph()
    names = [f"cuda:{k}" for k in range(DEVICES)]
    for i in range(tasks):
        base = random_of.uniform(1e-4, 1e-3)
        graph.add_node(f"t{i}", duration_s={name: base * random_of.uniform(0.5, 1.5) for name in names})
        window = range(max(0, i - 50), i)
        for parent in random_of.sample(window, min(len(window), random_of.randint(1, 4))):
            graph.add_edge(f"t{parent}", f"t{i}", nbytes=random_of.randint(1_000, 50_000_000))
    return graph


def _platform() -> Platform:
    """Eight GPUs, every two joined by a link."""
    devices = tuple(Device(f"cuda:{k}", "cuda") for k in range(DEVICES))
    links = tuple(Link(a.name, b.name, "peer", 1e-5, 3e11) for a in devices for b in devices if a is not b)
    return Platform("eight", devices, links)

"""How fast schedulers decide: random graphs of several sizes on eight devices."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

import networkx as nx

from graphsched.platform import Device, Link, Platform
from graphsched.schedulers.registry import find_scheduler
from graphsched.workload import Workload

DEVICES = 8
REPEATS = 5
MANY_TASKS = 10_000  # of more than this each is timed once
BENCHED = ("sequential", "one_stream", "round_robin", "wavefront", "heft")


def bench_schedulers(tasks: Sequence[int]) -> list[dict[str, Any]]:
    """Seconds that each scheduler takes for a random graph of each of these numbers of tasks.

    Returns:
        Rows of ``name``, ``tasks``, ``devices`` and ``seconds``: the time of the scheduler's own function,
        from workload to placement, the least of five (of more than `MANY_TASKS` tasks: of one).

    Example:
        >>> [row["name"] for row in bench_schedulers([10])]
        ['sequential', 'one_stream', 'round_robin', 'wavefront', 'heft']
    """
    platform = _platform()
    rows: list[dict[str, Any]] = []
    for n in tasks:
        work = Workload.from_graph(random_graph(n), name=f"random{n}")
        for name in BENCHED:
            repeats = REPEATS if n <= MANY_TASKS else 1
            seconds = min(_timed(name, work, platform) for _ in range(repeats))
            rows.append({"name": name, "tasks": n, "devices": DEVICES, "seconds": seconds})
    return rows


def bench_workloads(tasks: Sequence[int]) -> list[dict[str, Any]]:
    """Seconds that building workloads of so many tasks from bare graphs takes.

    Returns:
        Rows of ``tasks``, ``edges`` and ``seconds``: the least of five times of `Workload.from_graph`, which checks
        names, durations and sizes, and that there is no cycle.

    Example:
        >>> [(row["tasks"], row["edges"]) for row in bench_workloads([10])]
        [(10, 18)]
    """
    rows = []
    for n in tasks:
        graph = random_graph(n)
        times = []
        for _ in range(REPEATS):
            begin = time.process_time()
            Workload.from_graph(graph)
            times.append(time.process_time() - begin)
        rows.append({"tasks": n, "edges": graph.number_of_edges(), "seconds": min(times)})
    return rows


def _timed(name: str, work: Workload, platform: Platform) -> float:
    scheduler = find_scheduler(name)
    begin = time.process_time()
    scheduler(work, platform, platform.costs)
    return time.process_time() - begin


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

"""HEFT beside that of `anrg-saga`, a package of schedulers, on one graph; it needs not be installed.

The two agree on the schedule where ranks put tasks in the same order. Saga averages the time of an edge over all pairs
of devices, each with itself at no time among them, where the paper takes pairs of different devices; so here every
output takes as long to travel as a fixed part of its task's mean duration, which makes all ranks smaller by the same
factor. And saga has one speed a device, not a duration for each task there.

Source: J. Coleman, B. Krishnamachari: SAGA, https://github.com/ANRGUSC/saga (package anrg-saga).
"""

from __future__ import annotations

import importlib.metadata
import random
import time
from typing import Any

import networkx as nx

from graphsched.platform import Device, Link, Platform
from graphsched.schedulers.heft import forecast_heft, heft
from graphsched.workload import Workload

PEER = "anrg-saga"
TRAVELS = 0.5  # of a task's mean duration
BYTES_PER_S = 1e13  # so many that whole bytes make no difference to the order of ranks
REPEATS, PEER_REPEATS = 20, 3


def bench_peer(tasks: int, devices: int) -> dict[str, Any]:
    """HEFT of a random graph, by this project and by the peer.

    Returns:
        ``peer`` and its version, ``tasks``, ``devices``, seconds of both, ``peer_s`` and ``own_s`` (the least of
        several), ``faster``: how many times, and the two makespans. Where the peer is missing its figures are None,
        and ``peer`` says so.

    Example:
        >>> row = bench_peer(20, 2)
        >>> row["tasks"], row["peer"].split()[0], row["faster"] is None or row["faster"] > 0
        (20, 'anrg-saga', True)
    """
    graph, speeds = proportional_graph(tasks), [1.0 + k / devices for k in range(devices)]
    own_s, own_makespan_s = _own(graph, speeds)
    row: dict[str, Any] = {"peer": f"{PEER} (not installed)", "tasks": tasks, "devices": devices, "peer_s": None}
    row |= {"own_s": own_s, "faster": None, "makespan_s": None, "own_makespan_s": own_makespan_s}
    try:
        peer_s, makespan_s = _peer(graph, speeds)
    except ImportError:
        return row
    name = f"{PEER} {importlib.metadata.version(PEER)}"
    return row | {"peer": name, "peer_s": peer_s, "faster": peer_s / own_s, "makespan_s": makespan_s}


def proportional_graph(tasks: int, seed: int = 0) -> nx.DiGraph:
    """A random DAG with one source and one sink, which takes no time: each task has up to four of the 50 before it as
    parents.

    Nodes have ``weight``: seconds at speed 1; edges ``weight``: bytes, in proportion to the seconds of their source.
    """
    random_of = random.Random(seed)
    graph = nx.DiGraph()
    for i in range(tasks):
        graph.add_node(f"t{i}", weight=random_of.uniform(1e-4, 1e-3) if i < tasks - 1 else 0.0)
        window = range(max(0, i - 50), i)
        for parent in random_of.sample(window, min(len(window), random_of.randint(1, 4))):
            graph.add_edge(f"t{parent}", f"t{i}")
    sink = f"t{tasks - 1}"
    graph.add_edges_from([(node, sink) for node, edges in graph.out_degree if not edges and node != sink])
    for source, target in graph.edges:
        graph.edges[source, target]["weight"] = round(graph.nodes[source]["weight"] * TRAVELS * BYTES_PER_S)
    return graph


def _own(graph: nx.DiGraph, speeds: list[float]) -> tuple[float, float]:
    """Seconds of the scheduler, and the makespan by its own times."""
    dag = nx.DiGraph()
    for node, seconds in graph.nodes(data="weight"):
        dag.add_node(node, duration_s={f"cuda:{k}": seconds / speed for k, speed in enumerate(speeds)})
    dag.add_weighted_edges_from(graph.edges(data="weight"), weight="nbytes")
    work, platform = Workload.from_graph(dag), _platform(len(speeds))
    times = []
    for _ in range(REPEATS):
        begun = time.process_time()
        heft(work, platform, platform.costs, contention=False)
        times.append(time.process_time() - begun)
    return min(times), forecast_heft(work, platform, platform.costs, lanes=1, copies="own", contention=False).makespan_s


def _platform(devices: int) -> Platform:
    gpus = tuple(Device(f"cuda:{k}", "cuda") for k in range(devices))
    links = tuple(Link(a.name, b.name, "peer", 0.0, BYTES_PER_S) for a in gpus for b in gpus if a is not b)
    return Platform("related", gpus, links)


def _peer(graph: nx.DiGraph, speeds: list[float]) -> tuple[float, float]:
    """Seconds of the peer's scheduler, and its makespan.

    Raises:
        ImportError: It is not installed.
    """
    from saga import Network, TaskGraph
    from saga.schedulers.heft import HeftScheduler

    nodes = [(f"cuda:{k}", speed) for k, speed in enumerate(speeds)]
    edges = [(a, b, BYTES_PER_S) for i, (a, _) in enumerate(nodes) for b, _ in nodes[i + 1 :]]
    network = Network.create(nodes, edges)
    dag = TaskGraph.create(graph.nodes(data="weight"), graph.edges(data="weight"))
    times = []
    for _ in range(PEER_REPEATS):
        begun = time.process_time()
        schedule = HeftScheduler().schedule(network, dag)
        times.append(time.process_time() - begun)
    return min(times), float(schedule.makespan)

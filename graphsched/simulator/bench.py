"""How fast the simulator is on this host, beside SimPy's own bare loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import networkx as nx
import simpy
from simpy.events import Timeout

from graphsched.plan import Placement, Plan, build_plan
from graphsched.platform import Device, Link, Platform
from graphsched.simulator.predict import predict
from graphsched.workload import Workload

GPUS = 4
CHAINS = 8
NBYTES = 1_000_000


def bench_simulator(actions: Sequence[int]) -> list[dict[str, Any]]:
    """Predict plans of about so many actions, without and with contention, and time it.

    With contention half of the actions are transfers between four GPUs that share ports. A prediction
    simulates the plan twice, with and without timing events; its actions are counted once.

    Returns:
        Rows with ``actions``, ``contention``, ``actions_per_s``, and ``bare_simpy_events_per_s``: events
        of one callback each that SimPy handles a second, timed just before.

    Example:
        >>> [(row["actions"], row["contention"]) for row in bench_simulator([64])]
        [(64, False), (64, True)]
    """
    return [
        _row(make(count), contention)
        for count in actions
        for contention, make in ((False, independent_chains), (True, travelling_chains))
    ]


def _row(plan: Plan, contention: bool) -> dict[str, Any]:
    bare_s = _seconds(lambda: _bare_loop(len(plan)))
    seconds = _seconds(lambda: predict(plan))
    return {
        "actions": len(plan),
        "contention": contention,
        "actions_per_s": len(plan) / seconds,
        "bare_simpy_events_per_s": len(plan) / bare_s,
    }


def independent_chains(count: int) -> Plan:
    """`count` tasks on one lane of each GPU, every eighth of which waits for a task of another."""
    graph = nx.DiGraph()
    lanes = {}
    for i in range(count):
        graph.add_node(f"t{i}", duration_s=1e-4 + i % 7 * 1e-5)
        lanes[f"t{i}"] = f"cuda:{i % GPUS}/s0"
        if i >= GPUS:
            graph.add_edge(f"t{i - GPUS}", f"t{i}")
            if i % 8 == 0:
                graph.add_edge(f"t{i - 1}", f"t{i}")
    return _plan(graph, lanes)


def travelling_chains(count: int) -> Plan:
    """`count` actions: chains of tasks each of which is on another GPU than the one before, and copies between."""
    graph = nx.DiGraph()
    lanes = {}
    for i in range((count + CHAINS) // 2):  # the first of each chain has no copy before it
        graph.add_node(f"t{i}", duration_s=1e-5 + i % 7 * 1e-6)
        turn, k = divmod(i, CHAINS)
        lanes[f"t{i}"] = f"cuda:{(k + turn * (1 + k % (GPUS - 1))) % GPUS}/s0"
        if turn:
            graph.add_edge(f"t{i - CHAINS}", f"t{i}", nbytes=NBYTES)
    return _plan(graph, lanes)


def _plan(graph: nx.DiGraph, lanes: dict[str, str]) -> Plan:
    work = Workload.from_graph(graph)
    return build_plan(work, _platform(), None, Placement(list(lanes), lanes), scheduler="bench")


def _platform() -> Platform:
    gpus = tuple(Device(f"cuda:{k}", "cuda", "GPU") for k in range(GPUS))
    links = tuple(
        Link(a.name, b.name, "peer", 1e-5, 4e10, (f"out {a.name}", f"in {b.name}"))
        for a in gpus
        for b in gpus
        if a is not b
    )
    ports = {f"{way} {gpu.name}": 5e10 for gpu in gpus for way in ("out", "in")}
    return Platform("bench", (Device("cpu", "cpu"), *gpus), links, ports)


def _seconds(function: Callable[[], object]) -> float:
    begun = perf_counter()
    function()
    return perf_counter() - begun


def _bare_loop(events: int) -> None:
    """One callback an event, as many timers at once as a plan has chains."""
    env = simpy.Environment()
    left = events

    def again(_: object) -> None:
        nonlocal left
        left -= 1
        if left >= CHAINS:
            Timeout(env, 1.0).callbacks.append(again)

    for k in range(min(CHAINS, events)):
        Timeout(env, k / CHAINS).callbacks.append(again)
    env.run()

"""How fast the simulator is on this host, beside SimPy's own bare loop."""

from __future__ import annotations

import resource
from collections.abc import Callable, Sequence
from random import Random
from time import process_time
from typing import Any

import networkx as nx
import simpy
from simpy.events import Timeout

from graphsched.costs import Beside, Costs, Kernel, Multiprocessors, TaskCost
from graphsched.plan import Placement, Plan, build_plan
from graphsched.platform import Device, Dispatch, Link, Platform
from graphsched.simulator.predict import predict
from graphsched.workload import Workload

GPUS = 4
CHAINS = 8
NBYTES = 1_000_000
SHARED_LANES = 4
MOST_KERNELS = 10_000
MOST_CONTENDED = 100_000
FEW_ACTIONS = 10_000
REPEATS, MORE_REPEATS = 5, 20
QUICK_CALLS = Dispatch(copy_s=1e-6, peer_copy_s=2e-6)
KIB = 1024  # Linux counts a process' memory in these
PROCESSORS = Multiprocessors(count=132, registers=65536, threads=2048, shared_bytes=233472, blocks=32)
KERNELS = (
    (4e-6, Kernel(16, 5120, 64, 7552)),
    (2e-6, Kernel(245, 4096, 128, 1024)),
    (4e-6, Kernel(128, 6144, 128, 1024)),
    (5e-5, Kernel(128, 28672, 128, 19840)),
    (3e-4, Kernel(128, 53248, 256, 50176)),
    (1e-4, Kernel(48000, 4096, 128, 1024)),
)
"""Seconds alone of small kernels and of large ones, and their blocks."""


def bench_simulator(actions: Sequence[int], *, most_contended: int = MOST_CONTENDED) -> list[dict[str, Any]]:
    """Predict plans of about so many actions, without and with contention, and time it.

    With contention half of the actions are transfers between four GPUs that share ports; plans of more than
    `most_contended` actions are predicted without alone. A prediction simulates the plan twice, with and without
    timing events; its actions are counted once.

    Returns:
        Rows with ``actions``, ``contention``, ``seconds`` of one prediction, ``actions_per_s``,
        ``bare_simpy_events_per_s``: events of one callback each that SimPy handles a second, and ``peak_bytes``: the
        most memory that this process has taken so far, the plan included. Both times are the least of five, taken in
        turn (of plans up to `FEW_ACTIONS` of twenty, of more than `MOST_CONTENDED` of one). Rows with contention also
        have ``sharing_actions_per_s``: of a plan of kernels on four lanes of one GPU (see `shared_kernels`).

    Example:
        >>> [(row["actions"], row["contention"]) for row in bench_simulator([64])]
        [(64, False), (64, True)]
    """
    return [
        _row(make(count), contention)
        for count in actions
        for contention, make in ((False, independent_chains), (True, travelling_chains))
        if not contention or count <= most_contended
    ]


def _row(plan: Plan, contention: bool) -> dict[str, Any]:
    repeats = MORE_REPEATS if len(plan) <= FEW_ACTIONS else REPEATS if len(plan) <= MOST_CONTENDED else 1
    bare_s, seconds = _seconds(repeats, lambda: _bare_loop(len(plan)), lambda: predict(plan))
    row = {
        "actions": len(plan),
        "contention": contention,
        "seconds": seconds,
        "actions_per_s": len(plan) / seconds,
        "bare_simpy_events_per_s": len(plan) / bare_s,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB,
    }
    if contention:
        shared = shared_kernels(min(len(plan), MOST_KERNELS))
        row["sharing_actions_per_s"] = len(shared) / _seconds(1, lambda: predict(shared))[0]
    return row


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
    """`count` actions: chains of tasks each of which is on another GPU than the one before, and copies between.

    The thread issues copies faster than GPUs make them, else none would ever be beside another.
    """
    graph = nx.DiGraph()
    lanes = {}
    for i in range((count + CHAINS) // 2):  # the first of each chain has no copy before it
        graph.add_node(f"t{i}", duration_s=1e-5 + i % 7 * 1e-6)
        turn, k = divmod(i, CHAINS)
        lanes[f"t{i}"] = f"cuda:{(k + turn * (1 + k % (GPUS - 1))) % GPUS}/s0"
        if turn:
            graph.add_edge(f"t{i - CHAINS}", f"t{i}", nbytes=NBYTES)
    return _plan(graph, lanes, QUICK_CALLS)


def shared_kernels(count: int) -> Plan:
    """`count` kernels on four lanes of one GPU, small and large ones mixed, each pair with contention of its own."""
    rng = Random(count)
    work = Workload()
    kinds = [rng.randrange(len(KERNELS)) for _ in range(count)]
    for i, kind in enumerate(kinds):
        work.task(_operation, kind, name=f"t{i}", outputs=[])
    signatures = {kind: work[f"t{i}"].signature for i, kind in enumerate(kinds)}
    known = {
        (signature, "GPU"): TaskCost(KERNELS[kind][0], kernels=(KERNELS[kind][1],), processors=PROCESSORS)
        for kind, signature in signatures.items()
    }
    pairs = {
        (mine, other, "GPU"): Beside(1.5, 1.0 + (a + 2 * b) % 7 / 8)
        for a, mine in signatures.items()
        for b, other in signatures.items()
    }
    lanes = {f"t{i}": f"cuda:0/s{i % SHARED_LANES}" for i in range(count)}
    return build_plan(work, _platform(), Costs(known, pairs), Placement(list(lanes), lanes), scheduler="bench")


def _operation(kind: int) -> None:
    """An operation of this kind."""


def _plan(graph: nx.DiGraph, lanes: dict[str, str], dispatch: Dispatch | None = None) -> Plan:
    work = Workload.from_graph(graph)
    return build_plan(work, _platform(dispatch), None, Placement(list(lanes), lanes), scheduler="bench")


def _platform(dispatch: Dispatch | None = None) -> Platform:
    gpus = tuple(Device(f"cuda:{k}", "cuda", "GPU") for k in range(GPUS))
    links = tuple(
        Link(a.name, b.name, "peer", 1e-5, 4e10, (f"out {a.name}", f"in {b.name}"))
        for a in gpus
        for b in gpus
        if a is not b
    )
    ports = {f"{way} {gpu.name}": 5e10 for gpu in gpus for way in ("out", "in")}
    return Platform("bench", (Device("cpu", "cpu"), *gpus), links, ports, dispatch=dispatch or Dispatch())


def _seconds(repeats: int, *functions: Callable[[], object]) -> list[float]:
    """The least of so many times of each, taken in turn, so that the host's other work slows all alike."""
    return [min(times) for times in zip(*([_time(f) for f in functions] for _ in range(repeats)), strict=True)]


def _time(function: Callable[[], object]) -> float:
    begun = process_time()
    function()
    return process_time() - begun


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

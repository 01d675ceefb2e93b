"""Platforms, graphs and workloads for tests of schedulers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import permutations

import networkx as nx
from hypothesis import strategies as st

from graphsched.costs import Costs, TaskCost
from graphsched.plan import Plan
from graphsched.platform import Device, Dispatch, Link, Platform
from graphsched.workload import TensorSpec, Workload

FREE = Dispatch(
    run_s=0, copy_s=0, peer_copy_s=0, record_s=0, wait_s=0, device_wait_s=0, switch_s=0, device_switch_s=0,
    timed_record_s=0, timed_gap_s=0, sync_s=0, handoff_s=0,
    wake_s=0, same_device_s=0, other_device_s=0, launch_s=0,
)  # fmt: skip
MATRIX = TensorSpec((8, 8))
LIST = (
    "critical_path", "heft", "cpop", "peft", "lookahead", "dls", "etf", "min_min", "max_min", "work_stealing",
)  # fmt: skip
"""Schedulers that place tasks one by one, by what these take."""
ALL = ("sequential", "one_stream", "round_robin", "wavefront", *LIST, "streams", "auto", "search", "optimal")
SHORT = {"search": {"iterations": 50}, "optimal": {"effort": 0.05, "seconds": 60.0}}
"""Options with which schedulers that take their time are quick, and do the same each time."""


def machine(accelerators: int = 2, *, kind: str = "cuda", lanes: int = 32, cpu: bool = True) -> Platform:
    """Accelerators (and a cpu), every two joined by a link of no latency and one byte a second; dispatch is free."""
    devices = [Device(f"{kind}:{k}", kind, "chip", lanes=lanes) for k in range(accelerators)]  # type: ignore[arg-type]
    devices += [Device("cpu", "cpu", "processor", lanes=4)] if cpu else []
    pairs = [*permutations([d.name for d in devices], 2), *((d.name, d.name) for d in devices)]
    links = tuple(Link(a, b, "local" if a == b else "peer", 0.0, 1.0) for a, b in pairs)
    return Platform("machine", tuple(devices), links, dispatch=FREE, cores=1000)


def graph(edges: Sequence[tuple[str, str]] = (), **durations: object) -> Workload:
    """A model-only workload; edges carry no bytes."""
    dag = nx.DiGraph()
    dag.add_nodes_from((name, {"duration_s": seconds}) for name, seconds in durations.items())
    dag.add_edges_from(edges)
    return Workload.from_graph(dag)


def stub(*tensors: object) -> None:
    """Stands for an operation; never called."""


def add(work: Workload, name: str, *reads: object, **more: object) -> object:
    """A task that makes one small matrix and takes a second, unless told otherwise."""
    return work.task(stub, *reads, name=name, outputs=[MATRIX], **{"duration_s": 1.0} | more)  # type: ignore[arg-type]


def lanes_of(plan: Plan) -> dict[str, str]:
    """Lane of each action by name."""
    return {name: plan.lanes[lane].name for name, lane in zip(plan.names, plan.lane_of, strict=True)}


@st.composite
def dags(draw: st.DrawFn, most: int = 14, kind: str = "cuda") -> nx.DiGraph:
    """Random DAGs: one duration or one for each kind of device, edges with and without bytes."""
    n = draw(st.integers(0, most))
    dag = nx.DiGraph()
    seconds = st.sampled_from([0.0, 0.5, 1.0, 1.0, 2.5, 7.0])
    for i in range(n):
        each = st.fixed_dictionaries({kind: seconds, "cpu": seconds})
        dag.add_node(f"t{i}", duration_s=draw(st.one_of(seconds, each)))
        for parent in draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else ():
            dag.add_edge(f"t{parent}", f"t{i}", nbytes=draw(st.sampled_from([0, 1, 3])))
    return dag


@st.composite
def measured(draw: st.DrawFn, most: int = 14) -> tuple[Workload, Costs]:
    """Random tasks for GPUs, with costs: in a graph they take less, more, or it is not known."""
    n = draw(st.integers(1, most))
    seconds = st.sampled_from([0.0, 0.25, 1.0, 2.5])
    costs = st.builds(
        TaskCost,
        seconds,
        launches=st.integers(1, 3),
        concurrency=st.sampled_from([(), ((2, 1.0), (4, 1.5), (8, 4.0)), ((2, 2.0), (4, 4.0), (8, 8.0))]),
        graph_s=st.none() | seconds,
        graph_nodes=st.integers(0, 2),
    )
    kinds = draw(st.lists(costs, min_size=1, max_size=3))
    work, made, found = Workload(), [], {}
    for i in range(n):
        reads = draw(st.lists(st.sampled_from(made), max_size=3)) if made else []
        kind = draw(st.integers(0, len(kinds) - 1))
        made.append(work.task(stub, *reads, kind, name=f"t{i}", outputs=[MATRIX], device="cuda"))
        found[work[f"t{i}"].signature, "chip"] = kinds[kind]
    return work, Costs(found)


@st.composite
def workloads(draw: st.DrawFn, most: int = 12) -> Workload:
    """Random workloads: inputs, states, updates, views, device constraints, copies and barriers."""
    import torch

    work = Workload()
    placed = st.sampled_from([None, None, "cpu", "cuda:1"])
    values = [work.input("x", MATRIX, device=draw(st.sampled_from(["cpu", "cuda:0"])))]
    states = [work.state(f"w{k}", MATRIX, device=draw(placed)) for k in range(draw(st.integers(0, 3)))]
    homes = {s.name: s.device for s in states}
    for i in range(draw(st.integers(0, most))):
        kind = draw(st.sampled_from(["run", "run", "run", "update", "view", "copy", "barrier"]))
        if kind == "barrier":
            work.barrier(f"b{i}")
        elif kind == "copy":
            target = draw(st.sampled_from(["cpu", "cuda:0", "cuda:1"]))
            values.append(work.copy(draw(st.sampled_from(values + states)), to=target, pinned=True, name=f"c{i}"))
        elif kind == "view":
            values.append(work.task(torch.t, draw(st.sampled_from(values + states)), name=f"v{i}", duration_s=0.5))
        elif kind == "update" and states:
            changed = draw(st.lists(st.sampled_from(states), min_size=1, max_size=2, unique=True))
            if any(homes[s.name] for s in changed):
                changed = changed[:1]
            where = () if homes[changed[0].name] else draw(st.sampled_from([(), ("cuda",)]))
            add(work, f"u{i}", *changed, draw(st.sampled_from(values)), updates=changed, device=where)
        else:
            reads = draw(st.lists(st.sampled_from(values + states), max_size=3))
            where = draw(st.sampled_from([(), (), ("cuda",), ("cpu",), ("cuda:1",), ("cpu", "cuda:0")]))
            seconds = draw(st.sampled_from([0.0, 1.0, 2.0]))
            values.append(add(work, f"t{i}", *reads, device=where, duration_s=seconds))
    return work


def relabelled(dag: nx.DiGraph, seed: int) -> nx.DiGraph:
    """The same graph, in the same order, under shuffled names."""
    names = [f"n{k}" for k in range(len(dag))]
    random.Random(seed).shuffle(names)
    renamed = nx.DiGraph()
    label = dict(zip(dag, names, strict=True))
    renamed.add_nodes_from((label[node], data) for node, data in dag.nodes(data=True))
    for node in dag:
        renamed.add_edges_from((label[u], label[node], data) for u, data in dag.pred[node].items())
    return renamed

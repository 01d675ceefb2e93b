"""Platforms and workloads in round figures that tests can work out by hand."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import networkx as nx

from graphsched.costs import Costs, TaskCost
from graphsched.plan import Placement, Plan, build_plan, pinned_results
from graphsched.platform import Device, Dispatch, Link, Platform
from graphsched.timeline import Timeline
from graphsched.workload import Workload
from graphsched.workload.signatures import operation_name, signature

FREE = Dispatch(
    run_s=0, copy_s=0, peer_copy_s=0, record_s=0, wait_s=0, device_wait_s=0, switch_s=0, device_switch_s=0,
    timed_record_s=0, timed_gap_s=0, sync_s=0, handoff_s=0,
    wake_s=0, same_device_s=0, other_device_s=0, start_s=0, launch_s=0, queue_depth=1024,
)  # fmt: skip
"""Dispatch and waits that cost nothing."""

ROUND = Dispatch(
    run_s=1, copy_s=2, peer_copy_s=2, record_s=4, wait_s=8, device_wait_s=8, switch_s=16, device_switch_s=16,
    timed_record_s=32, timed_gap_s=64, sync_s=128, handoff_s=256,
    wake_s=512, same_device_s=1024, other_device_s=2048, start_s=0, launch_s=4096, queue_depth=1024,
)  # fmt: skip
"""Every cost a power of two, in seconds, so that a sum tells which were paid, and how often."""


def platform(
    *,
    gpus: int = 2,
    workers: int = 0,
    dispatch: Dispatch = FREE,
    cores: int = 64,
    bandwidth: float = 100.0,
    latency_s: float = 0.0,
    shared: Mapping[str, float] | None = None,
    blocking: bool = False,
    costs: Costs | None = None,
) -> Platform:
    """A cpu and `gpus` GPUs (`workers` workers), every pair linked at `bandwidth` bytes a second.

    Each transfer crosses ``out <device>`` and ``in <device>`` where `shared` names these, and ``bus``
    likewise; pageable links block with `blocking`.
    """
    devices = [Device("cpu", "cpu", "CPU")]
    devices += [Device(f"cuda:{k}", "cuda", "GPU") for k in range(gpus)]
    devices += [Device(f"worker:{k}", "worker", "CPU") for k in range(workers)]
    shared = dict(shared or {})
    links = []
    for source in devices:
        for target in devices:
            crosses = tuple(n for n in (f"out {source.name}", f"in {target.name}", "bus") if n in shared)
            for memory in ("pinned", "pageable") if "cpu" in (source.name, target.name) else ("peer",):
                blocks = blocking and memory == "pageable"
                links.append(Link(source.name, target.name, memory, latency_s, bandwidth, crosses, blocks))
    return Platform("hand", tuple(devices), tuple(links), shared, dispatch, cores, costs or Costs())


def workload(durations: Mapping[str, object], edges: Sequence[tuple[str, str, int]] = ()) -> Workload:
    """A model-only workload: seconds by task, and (task, task, bytes) edges."""
    graph = nx.DiGraph()
    for name, seconds in durations.items():
        graph.add_node(name, duration_s=seconds)
    graph.add_weighted_edges_from(edges, weight="nbytes")
    return Workload.from_graph(graph)


def chain(n: int, seconds: float = 1.0, nbytes: int = 0, prefix: str = "t") -> Workload:
    """t0 -> t1 -> … of n tasks."""
    return workload(
        {f"{prefix}{i}": seconds for i in range(n)}, [(f"{prefix}{i - 1}", f"{prefix}{i}", nbytes) for i in range(1, n)]
    )


def diamond(seconds: float = 1.0, nbytes: int = 0) -> Workload:
    """a -> (b, c) -> d."""
    edges = [("a", "b", nbytes), ("a", "c", nbytes), ("b", "d", nbytes), ("c", "d", nbytes)]
    return workload(dict.fromkeys("abcd", seconds), edges)


def layered(seed: int, layers: int = 4, width: int = 4, max_bytes: int = 200, names: Sequence[str] = ()) -> Workload:
    """A random layered DAG: each task reads one to three of the layer before it; `names` rename the tasks."""
    rng = random.Random(seed)
    graph = nx.DiGraph()
    for i in range(layers * width):
        graph.add_node(i, duration_s=rng.randint(0, 8) / 4)
        if i >= width:
            first = i // width * width - width
            for j in sorted(rng.sample(range(first, first + width), rng.randint(1, min(3, width)))):
                graph.add_edge(j, i, nbytes=rng.choice((0, rng.randint(1, max_bytes))))
    labels = {i: names[i] if names else f"t{i}" for i in range(layers * width)}
    return Workload.from_graph(nx.relabel_nodes(graph, labels))


def planned(
    work: Workload,
    where: Platform,
    lanes: Mapping[str, str],
    *,
    order: Sequence[str] = (),
    wait_after: Sequence[str] = (),
    copies: str = "own",
    costs: Costs | None = None,
) -> Plan:
    """The checked plan of `work` on these lanes, in this order (default: the workload's)."""
    order = order or list(work.graph)
    placement = Placement(order, lanes, frozenset(wait_after), copies)  # type: ignore[arg-type]
    plan = build_plan(work, where, costs, placement, scheduler="by hand")
    plan.check()
    return plan


def nothing() -> None:
    """What a task calls whose duration is given."""


NO_CALLS = Costs({(signature(operation_name(nothing), (), {}, ()), "GPU"): TaskCost(0.0)})
"""Of `nothing`, without host time."""


def spans_of(timeline: Timeline) -> dict[str, tuple[float, float, float, float]]:
    """By action: begin and end of its issue, and of the action."""
    return {s.action: (s.issue_start_s, s.issue_end_s, s.start_s, s.end_s) for s in timeline}


def kernel(kind: int) -> None:
    """An operation whose cost is filed under its argument."""


def operations(kinds: Mapping[str, int], costs: Sequence[TaskCost], model: str = "GPU") -> tuple[Workload, Costs]:
    """Independent tasks, and measured costs on `model`: each task's kind is its place in `costs`."""
    work = Workload()
    for name, kind in kinds.items():
        work.task(kernel, kind, name=name, outputs=[])
    return work, Costs({(work[name].signature, model): costs[kind] for name, kind in kinds.items()})


def pinning_s(plan: Plan, i: int) -> float:
    """Seconds that action `i` is longer for what it copies into pinned memory, by the link within the CPU."""
    reads = pinned_results(plan).get(plan.names[i], ()) if plan.kinds[i] == "run" else ()
    return sum([plan.platform.link("cpu", "cpu", "pinned").duration_s(read.value.nbytes) for read in reads])

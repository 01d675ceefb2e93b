"""What the lanes of a plan cost the thread and each other: switches, waits, latencies.

A wait between a lane of tasks and one of copies with the host has a latency of its own, as has one between lanes of
such copies: what follows the work of another engine of the GPU starts later.

Not modelled: streams of its own that the library of a collective uses behind its lanes; copies on a lane of tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from graphsched.plan import Lane, Plan
from graphsched.platform import Dispatch

HOST_COPIES = ("h2d", "d2h")  # kinds of lanes

CUDA, CPU, WAIT = 0, 1, 2  # who carries an action out: a stream, a worker thread, the dispatching thread


@dataclass(slots=True)
class Lanes:
    """What the engine knows of each lane, by lane number.

    Attributes:
        kind: `CUDA`, `CPU` or `WAIT`.
        switch_s: ``switch_s[a][b]``: making lane a's stream current after lane b's; b = -1 where there was none.
        wake_s: From an action being ready to its start on the idle lane.
        wait_s: ``wait_s[a][b]``: host time of making lane a wait for an event of lane b.
        latency_s: ``latency_s[a][b]``: latency of a wait on lane a for an action of lane b.
        chained_s: Likewise inside a CUDA graph, where the two are links of one chain.
        first_s: What a run that follows one like it takes longer where its first action is on this lane.
        queue: Which launch queue a lane's launches go through.
        queues: Number of launch queues.
        peers: Lanes of copies between GPUs.
        host_copies, from_host: Lanes of copies between a GPU and the host; those into a GPU.
    """

    kind: list[int]
    switch_s: list[list[float]]
    wake_s: list[float]
    wait_s: list[list[float]]
    latency_s: list[list[float]]
    queue: list[int]
    queues: int
    peers: frozenset[int] = frozenset()
    host_copies: frozenset[int] = frozenset()
    from_host: frozenset[int] = frozenset()
    chained_s: list[list[float]] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)


def lanes_of(plan: Plan, costs: Dispatch) -> Lanes:
    """The lanes of `plan` at these costs of dispatch."""
    kinds = [_lane_kind(lane, plan) for lane in plan.lanes]
    costs = _inside(costs) if plan.mode == "graph" else costs
    queues: dict[str, int] = {}
    return Lanes(
        kind=kinds,
        switch_s=[[_switch_s(lane, before, plan, costs) for before in (*plan.lanes, None)] for lane in plan.lanes],
        wake_s=[costs.wake_s if kind == CPU else 0.0 for kind in kinds],
        wait_s=[[costs.wait_s if a.device == b.device else costs.device_wait_s for b in plan.lanes]
                for a in plan.lanes],
        latency_s=[[_latency_s(a, b, kinds[i], kinds[j], costs) for j, b in enumerate(plan.lanes)]
                   for i, a in enumerate(plan.lanes)],
        queue=[queues.setdefault(lane.device, len(queues)) if kind == CUDA else -1
               for lane, kind in zip(plan.lanes, kinds, strict=True)],
        queues=len(queues),
        peers=frozenset(k for k, lane in enumerate(plan.lanes) if _joins_gpus(lane, plan)),
        host_copies=frozenset(k for k, lane in enumerate(plan.lanes) if kinds[k] == CUDA and lane.kind in HOST_COPIES),
        from_host=frozenset(k for k, lane in enumerate(plan.lanes) if kinds[k] == CUDA and lane.kind == "h2d"),
        chained_s=_chained_s(plan, kinds, costs) if plan.mode == "graph" else [],
        first_s=[_first_s(lane, plan, costs) for lane in plan.lanes],
    )  # fmt: skip


def _inside(costs: Dispatch) -> Dispatch:
    """Edges to copies as they are in CUDA graphs."""
    return replace(
        costs,
        copy_edge_s=costs.graph_copy_edge_s,
        copies_edge_s=costs.graph_copies_edge_s,
        peer_edge_s=costs.graph_peer_edge_s,
        other_device_s=costs.graph_other_device_s or costs.other_device_s,
    )


def _chained_s(plan: Plan, kinds: list[int], costs: Dispatch) -> list[list[float]]:
    cheap = replace(costs, same_device_s=costs.graph_wait_s)
    return [[_latency_s(a, b, kinds[i], kinds[j], cheap) for j, b in enumerate(plan.lanes)]
            for i, a in enumerate(plan.lanes)]  # fmt: skip


def _joins_gpus(lane: Lane, plan: Plan) -> bool:
    return lane.kind == "peer" and all(plan.platform.device(d).kind == "cuda" for d in (lane.device, lane.target))


def _switch_s(lane: Lane, before: Lane | None, plan: Plan, costs: Dispatch) -> float:
    """Host time to leave lane `before` for `lane`; a copy between GPUs makes a stream of each current."""
    if _joins_gpus(lane, plan):
        return costs.switch_s + costs.device_switch_s
    return costs.switch_s if before is None or before.device == lane.device else costs.device_switch_s


def _first_s(lane: Lane, plan: Plan, costs: Dispatch) -> float:
    """What a run that begins on `lane` takes longer; no copy does where copies cost the thread nothing."""
    kinds = {"h2d": costs.first_in_s, "d2h": costs.first_out_s}
    known_s = costs.first_peer_s if _joins_gpus(lane, plan) else kinds.get(lane.kind, 0.0)
    return known_s if known_s and costs.copy_s else costs.first_s


def _lane_kind(lane: Lane, plan: Plan) -> int:
    if lane.kind == "host":
        return WAIT
    ends = (lane.device, lane.target) if lane.target else (lane.device,)
    return CUDA if any(plan.platform.device(end).kind == "cuda" for end in ends) else CPU


def _latency_s(waiting: Lane, other: Lane, kind: int, other_kind: int, costs: Dispatch) -> float:
    if waiting == other or kind != CUDA or other_kind != CUDA:
        between_cpus = waiting != other and kind == other_kind == CPU
        return costs.told_s - costs.wake_s if costs.told_s and between_cpus else 0.0  # `wake_s` is added at the start
    if waiting.device != other.device:  # the stream of a copy between GPUs is its source's
        return costs.other_device_s
    copies = [lane.kind in HOST_COPIES for lane in (waiting, other)]
    if all(copies):
        return costs.copies_edge_s or costs.same_device_s
    if "compute" not in (waiting.kind, other.kind):
        return costs.same_device_s
    peers = "peer" in (waiting.kind, other.kind)
    return (costs.copy_edge_s if any(copies) else costs.peer_edge_s if peers else 0.0) or costs.same_device_s

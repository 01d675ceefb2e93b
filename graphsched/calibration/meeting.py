"""Which operations a plan lets run side by side on a GPU. No hardware is touched here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from graphsched.costs import Costs
from graphsched.plan import Plan

SHORT_S = 1e-4
"""Longer operations slow each other in CUDA graphs as they do in streams."""


@dataclass(frozen=True)
class Meeting:
    """Two operations that may run side by side on a device.

    Attributes:
        device: The first device of the plan where they do.
        model: Its model.
        signatures: Of the two, in order of the text; one operation beside itself: twice the same.
        work_s: Seconds of work, alone, of the tasks concerned, once for each time that two meet.
        in_graph: Whether what copies of an operation cost it inside a CUDA graph is asked for too.
    """

    device: str
    model: str
    signatures: tuple[str, str]
    work_s: float
    in_graph: bool = False


def meetings(plan: Plan) -> list[Meeting]:
    """Pairs of operations of which neither task comes after the other, on lanes of one GPU; most work first.

    A task comes after all that it waits for, all before it on its lane, all that the thread had waited for when
    it was issued, and what those come after. For each task only the nearest of each operation on each other
    lane is counted.

    Example:
        >>> from graphsched.plan import Placement, build_plan
        >>> from graphsched.platform import Device, Platform
        >>> from graphsched.workload import Workload
        >>> work = Workload()
        >>> a, b = (work.task(print, name, name=name, outputs=[]) for name in "ab")
        >>> platform = Platform("one", (Device("cpu", "cpu"), Device("cuda:0", "cuda", "H200")))
        >>> lanes = Placement("ab", {"a": "cuda:0/s0", "b": "cuda:0/s1"})
        >>> [pair.model for pair in meetings(build_plan(work, platform, None, lanes, scheduler="by hand"))]
        ['H200']
    """
    found: dict[tuple[str, str, str], tuple[str, float]] = {}
    for device, mine, other, work_s in _encounters(plan):
        first, second = sorted((mine, other))
        key = (plan.platform.device(device).model, first, second)
        where, before_s = found.get(key, (device, 0.0))
        found[key] = (where, before_s + work_s)
    pairs = [Meeting(where, key[0], (key[1], key[2]), work_s) for key, (where, work_s) in found.items()]
    return sorted(pairs, key=lambda pair: (-pair.work_s, pair.model, pair.signatures))


def unmeasured(plan: Plan, known: Costs) -> list[Meeting]:
    """Those of `meetings` whose operations `known` has, and not what they cost each other.

    Example:
        >>> from graphsched.plan import Placement, build_plan
        >>> from graphsched.platform import Device, Platform
        >>> from graphsched.workload import Workload
        >>> platform = Platform("one", (Device("cpu", "cpu"),))
        >>> unmeasured(build_plan(Workload(), platform, None, Placement([], {}), scheduler="by hand"), Costs())
        []
    """
    found = []
    for pair in meetings(plan):
        if not all((signature, pair.model) in known for signature in pair.signatures):
            continue
        there = known.get_pair(*pair.signatures, pair.model)
        in_graph = plan.mode == "graph" and _is_other_in_graphs(pair, known)
        if there is None or (in_graph and not there.graph_copies):
            found.append(replace(pair, in_graph=in_graph))
    return found


def _is_other_in_graphs(pair: Meeting, known: Costs) -> bool:
    """Whether it is a short operation beside itself: lanes of such start their kernels otherwise than streams."""
    first, second = pair.signatures
    graph_s = known[first, pair.model].graph_s
    return first == second and graph_s is not None and graph_s < SHORT_S


def _encounters(plan: Plan) -> Iterator[tuple[str, str, str, float]]:
    """Device, two signatures and their work for each task and the nearest of each operation that it may meet."""
    sharing = _sharing_lanes(plan)
    last: list[dict[str, tuple[int, float]]] = [{} for _ in plan.lanes]  # by lane and signature
    for i, known in enumerate(_over_before(plan)):
        lane = plan.lane_of[i]
        task = plan.task(i) if plan.kinds[i] == "run" and lane in sharing else None
        if task is None or task.duration_s is not None or task.operation is None:
            continue
        device = plan.lanes[lane].device
        cost = plan.costs.get(task.signature, plan.platform.device(device).model)
        work_s = cost.device_s if cost is not None else 0.0
        for other in sharing[lane]:
            for signature, (at, other_s) in last[other].items():
                if at > known[other]:
                    yield device, task.signature, signature, work_s + other_s
        last[lane][task.signature] = (i, work_s)


def _sharing_lanes(plan: Plan) -> dict[int, list[int]]:
    """For each compute lane of a GPU the others of that GPU."""
    lanes = [k for k, lane in enumerate(plan.lanes) if lane.kind == "compute" and _is_gpu(plan, lane.device)]
    return {k: [n for n in lanes if n != k and plan.lanes[n].device == plan.lanes[k].device] for k in lanes}


def _is_gpu(plan: Plan, device: str) -> bool:
    return plan.platform.device(device).kind == "cuda"


def _over_before(plan: Plan) -> Iterator[Sequence[int]]:
    """For each action the last action of each lane that is over when it starts; -1: none need be."""
    nothing = [-1] * len(plan.lanes)
    after: list[list[int]] = [nothing for _ in plan.lanes]  # what is over when the last action of a lane is
    clocks: list[list[int]] = []
    thread = nothing
    for i, lane in enumerate(plan.lane_of):
        known = list(map(max, after[lane], thread))
        for j in plan.waits[i]:
            known = list(map(max, known, clocks[j]))
        yield known
        over = list(known)
        over[lane] = i
        after[lane] = over
        clocks.append(over)
        if plan.kinds[i] == "wait":
            thread = over

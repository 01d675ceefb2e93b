"""A timeline as one looks at it: lane by lane, what is to be seen on each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from graphsched.plan import HOST_LANE, OUTSIDE, Lane, Plan, segments_of
from graphsched.timeline import Timeline

Look = Literal["compute", "copy", "collective", "wait", "join", "dispatch"]

_LOOKS: dict[str, Look] = {"run": "compute", "copy": "copy", "collective": "collective", "wait": "wait"}
_LANE_KINDS = ("host", "compute", "comm", "h2d", "d2h", "local", "peer")


@dataclass(frozen=True, slots=True)
class Slice:
    """Something that occupies a lane from `start_s` to `end_s`.

    Attributes:
        name: What it says: the action's name.
        look: What it is: a task, a copy, a collective, the thread being blocked, every lane waiting inside a CUDA
            graph (the thread is not blocked by that), or the thread issuing.
        action: Number of the action; of a launch of many actions at once, the first of them.
        count: Actions that are issued by it at once; 1 but for launches of graphs.
    """

    start_s: float
    end_s: float
    name: str
    look: Look
    action: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class Track:
    """A lane and its slices, by start."""

    lane: Lane
    slices: tuple[Slice, ...]


def tracks(line: Timeline) -> list[Track]:
    """The tracks of `line`: the dispatching thread first, then each device's lanes, computing ones first.

    The thread's track holds its waits and the issue of every other action, and the waits that lanes make
    inside CUDA graphs, from the end of the launch. Lanes on which nothing happens are left out.
    """
    plan, joins = line.plan, joins_of(line.plan)
    slices: dict[int, list[Slice]] = {k: [] for k in lane_order(plan)}
    starts, ends, launched = line.start_s.tolist(), line.end_s.tolist(), line.issue_end_s.tolist()
    for i, kind in enumerate(plan.kinds):
        look = "join" if i in joins else _LOOKS[kind]
        start_s = min(max(starts[i], launched[i]), ends[i]) if i in joins else starts[i]
        for lane in (plan.lane_of[i], *plan.more_lanes.get(i, ())):
            slices[lane].append(Slice(start_s, ends[i], plan.names[i], look, i))
    for k in slices:
        if plan.lanes[k].name == HOST_LANE:
            slices[k] += issues(line)
    return [Track(plan.lanes[k], tuple(sorted(row, key=_by_start))) for k, row in slices.items() if row]


def joins_of(plan: Plan) -> frozenset[int]:
    """Waits that lanes make inside a CUDA graph, not the thread."""
    waits = [i for i, kind in enumerate(plan.kinds) if kind == "wait"] if plan.mode == "graph" else []
    of = segments_of(plan).of if waits else ()
    return frozenset(i for i in waits if of[i] != OUTSIDE)


def issues(line: Timeline) -> list[Slice]:
    """When the thread issued the actions other than its waits; those issued by one launch are one slice.

    While it issues a copy of pageable memory the thread is blocked, which is shown as a wait.
    """
    plan, found = line.plan, dict[tuple[float, float], Slice]()
    starts, ends = line.issue_start_s.tolist(), line.issue_end_s.tolist()
    for i, (kind, start_s, end_s) in enumerate(zip(plan.kinds, starts, ends, strict=True)):
        if kind == "wait" or end_s <= start_s:
            continue
        first = found.get((start_s, end_s))
        if first:  # also where others stand between them in the plan, as tasks on a CPU do
            count = first.count + 1
            piece = Slice(start_s, end_s, f"launch of {count} actions", "dispatch", first.action, count)
        else:
            piece = Slice(start_s, end_s, plan.names[i], "wait" if _blocks(plan, i) else "dispatch", i)
        found[start_s, end_s] = piece
    return list(found.values())


def lane_order(plan: Plan) -> list[int]:
    """Numbers of all lanes: the thread's, then by device in the platform's order, computing before copying.

    Example:
        >>> from graphsched.platform import Device, Platform
        >>> from graphsched.plan import Placement, build_plan
        >>> from graphsched.workload import Workload
        >>> import networkx as nx
        >>> graph = nx.DiGraph()
        >>> graph.add_nodes_from("ab", duration_s=1.0)
        >>> lanes = {"a": "cuda:0/s10", "b": "cuda:0/s9"}
        >>> here = Platform("desk", (Device("cpu", "cpu"), Device("cuda:0", "cuda")))
        >>> plan = build_plan(Workload.from_graph(graph), here, None, Placement("ab", lanes), scheduler="example")
        >>> [plan.lanes[k].name for k in lane_order(plan)]
        ['host/py', 'cuda:0/s9', 'cuda:0/s10']
    """
    devices = {device.name: k for k, device in enumerate(plan.platform.devices)}

    def place(k: int) -> tuple[int, int, int, str]:
        lane = plan.lanes[k]
        device = -1 if lane.kind == "host" else devices.get(lane.device, len(devices))
        return device, _LANE_KINDS.index(lane.kind), len(lane.name), lane.name

    return sorted(range(len(plan.lanes)), key=place)


def _blocks(plan: Plan, i: int) -> bool:
    copy = plan.copies.get(i)
    return copy is not None and plan.platform.link(copy.source, copy.target, copy.memory).blocking


def _by_start(piece: Slice) -> tuple[float, float, int]:
    return piece.start_s, piece.end_s, piece.action

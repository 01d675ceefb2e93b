"""Edges of a CUDA graph beside copies from the host: who waits for another GPU, or another engine, sees it later.

Whoever waits reads the host's memory, and what it reads waits behind what a copy moves over the same link in the same
direction: into its own GPU. So does a task that joins a copy which was over long before. Copies into the other GPU of
an edge, and those to the host, hardly count (docs/readings.md). Which edges are beside copies follows from the spans,
and the spans from that: a run is simulated again until both agree.

Not modelled: what copies to the host cost, less than 1 µs; several copies at once; edges between streams that no graph
holds; that other edges may be beside copies in a run with timing events.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from graphsched.simulator.graph_mode import inside
from graphsched.simulator.host_calls import without_events
from graphsched.simulator.lane_costs import CUDA
from graphsched.simulator.repeated import run_again
from graphsched.simulator.timing_events import is_in_one, spans_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphsched.simulator.columns import Columns
    from graphsched.simulator.engine import Engine

MOST_RUNS = 4  # simulations of one run; an edge that comes to lie beside a copy and away from it in turn ends somewhere


class Edge(NamedTuple):
    """An action that waits for another, and the launch queue of its GPU."""

    action: int
    before: int
    gpu: int


class Join(NamedTuple):
    """A task that joins copies, all that it waits for, the copies among these, and its launch queue."""

    action: int
    causes: tuple[int, ...]
    copies: tuple[int, ...]
    gpu: int


class Loads(NamedTuple):
    """Seconds by action and by lane that it waits for, and of joins by action."""

    edges: dict[int, dict[int, float]]
    joins: dict[int, float]


def with_loads(columns: Columns) -> Columns:
    """`columns`, their edges and joins beside copies from the host longer, in a run without timing events.

    Raises:
        DeadlockError: Actions wait for each other, so that not all can start.
    """
    if not columns.dispatch.beside_in_s or columns.graphs is None or columns.lanes.from_host.isdisjoint(columns.lane):
        return columns
    nodes = without_events(columns)
    edges, joins = edges_of(columns, nodes), joins_of(nodes)
    for _ in range(MOST_RUNS if edges or joins else 0):
        engine, _ = run_again(nodes)
        found = loads_of(columns, edges, joins, engine)
        if found == (columns.loads_s, columns.join_loads_s):
            break
        columns = replace(columns, loads_s=found.edges, join_loads_s=found.joins)
        nodes = without_events(columns)
    return columns


def edges_of(columns: Columns, nodes: Columns) -> list[Edge]:
    """Edges of graphs between GPUs, and to and from lanes of copies.

    With timing events what waits for a task that launches nothing waits for that; without, as in `nodes`, for what that
    waits for: both are edges.
    """
    lanes, lane = columns.lanes, columns.lane
    copies = lanes.peers | lanes.host_copies
    found: list[Edge] = []
    for i, kind in enumerate(columns.kind):
        if kind != CUDA or not inside(columns, i):
            continue
        gpu = lanes.queue[lane[i]]
        for j in dict.fromkeys((*columns.waits[i], *nodes.waits[i])):
            crosses = lanes.queue[lane[j]] != gpu or lane[i] in copies or lane[j] in copies
            if inside(columns, j) and lane[i] != lane[j] and crosses:
                found.append(Edge(i, j, gpu))
    return found


def joins_of(nodes: Columns) -> list[Join]:
    """Tasks that join copies, in columns of a run without timing events."""
    lanes, lane = nodes.lanes, nodes.lane
    found: list[Join] = []
    for i in nodes.joins_s:
        causes = tuple(j for j in (nodes.previous[i], *nodes.waits[i]) if j >= 0)
        copies = tuple(j for j in causes if lane[j] in lanes.peers or lane[j] in lanes.host_copies)
        found.append(Join(i, causes, copies, lanes.queue[lane[i]]))
    return found


def loads_of(columns: Columns, edges: Sequence[Edge], joins: Sequence[Join], engine: Engine) -> Loads:
    """What waits take longer that are over while a copy from the host is under way into the GPU, in a run.

    A join is paid when all is over but the copy that comes last; copies that it waits for itself are not beside it.
    """
    lanes, lane, each_s, end_s = columns.lanes, columns.lane, columns.dispatch.beside_in_s, engine.end_s
    copies: dict[int, list[int]] = {}
    for k, number in enumerate(lane):
        if number in lanes.from_host:
            copies.setdefault(lanes.queue[number], []).append(k)
    spans = {gpu: spans_of(those, engine.start_s, end_s) for gpu, those in copies.items()}
    found = Loads({}, {})
    for i, j, gpu in edges:
        if gpu in spans and is_in_one(end_s[j], spans[gpu]):
            found.edges.setdefault(i, {})[lane[j]] = each_s
    for i, causes, joined, gpu in joins:
        last = max(joined, key=end_s.__getitem__)
        paid_s = max((end_s[j] for j in causes if j != last), default=0.0)
        if gpu in spans and is_in_one(paid_s, spans[gpu]):
            others = (k for k in copies[gpu] if k not in joined)
            if any(engine.start_s[k] < paid_s < end_s[k] for k in others):
                found.joins[i] = each_s
    return found

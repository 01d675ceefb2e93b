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

from graphsched.simulator.graph_mode import PASSED, inside
from graphsched.simulator.host_calls import without_events
from graphsched.simulator.lane_costs import CUDA
from graphsched.simulator.repeated import run_again
from graphsched.simulator.timing_events import is_in_one, spans_of

if TYPE_CHECKING:
    from graphsched.simulator.columns import Columns
    from graphsched.simulator.engine import Engine

MOST_RUNS = 4  # simulations of one run; an edge that comes to lie beside a copy and away from it in turn ends somewhere

Loads = dict[int, dict[int, float]]
"""Seconds by action and by lane that it waits for."""


class Edge(NamedTuple):
    """An action that waits for another, or joins a copy behind that on its lane, and the launch queue of its GPU."""

    action: int
    before: int
    gpu: int


def with_loads(columns: Columns) -> Columns:
    """`columns`, their edges beside copies from the host longer, in a run without timing events.

    Raises:
        DeadlockError: Actions wait for each other, so that not all can start.
    """
    edges = edges_of(columns)
    for _ in range(MOST_RUNS if edges else 0):
        engine, _ = run_again(without_events(columns))
        found = loads_of(columns, edges, engine)
        if found == columns.loads_s:
            break
        columns = replace(columns, loads_s=found)
    return columns


def edges_of(columns: Columns) -> list[Edge]:
    """Edges between GPUs, and to and from lanes of copies, and joins with copies; none where they cost no more."""
    lanes, lane = columns.lanes, columns.lane
    if not columns.dispatch.beside_in_s or columns.graphs is None or not any(k in lanes.from_host for k in lane):
        return []
    copies = lanes.peers | lanes.host_copies
    found: list[Edge] = []
    for i, kind in enumerate(columns.kind):
        if kind != CUDA or columns.flags[i] & PASSED or not inside(columns, i):
            continue
        gpu = lanes.queue[lane[i]]
        for j in columns.waits[i]:
            crosses = lanes.queue[lane[j]] != gpu or lane[i] in copies or lane[j] in copies
            if inside(columns, j) and lane[i] != lane[j] and crosses:
                found.append(Edge(i, j, gpu))
    previous = columns.previous
    joins = [Edge(i, previous[i], lanes.queue[lane[i]]) for i in without_events(columns).joins_s if previous[i] >= 0]
    return found + joins


def loads_of(columns: Columns, edges: list[Edge], engine: Engine) -> Loads:
    """What waits take longer that are over while a copy from the host is under way into the GPU, in a run.

    Of a join that is when the lane's task before it is over; it is told for the task's own lane.
    """
    lanes, lane, each_s = columns.lanes, columns.lane, columns.dispatch.beside_in_s
    copies: dict[int, list[int]] = {}
    for k, number in enumerate(lane):
        if number in lanes.from_host:
            copies.setdefault(lanes.queue[number], []).append(k)
    spans = {gpu: spans_of(those, engine.start_s, engine.end_s) for gpu, those in copies.items()}
    found: Loads = {}
    for i, j, gpu in edges:
        if gpu in spans and is_in_one(engine.end_s[j], spans[gpu]):
            found.setdefault(i, {})[lane[j]] = each_s
    return found

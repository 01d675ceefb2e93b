"""Edges of a CUDA graph beside copies with the host: who waits for another GPU, or another engine, sees it later.

Such edges go through the host's memory, and what is read and written there waits behind what copies move over the same
link. Which edges are beside copies follows from the spans, and the spans from that: a run is simulated again until both
agree.

Not modelled: which of the two ends of the edge, and which direction of the copy it is that counts; several copies at
once; edges between streams that no graph holds; that other edges may be beside copies in a run with timing events.
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
    """An action that waits for another, and the launch queues of the GPUs of both."""

    action: int
    before: int
    gpus: frozenset[int]


def with_loads(columns: Columns) -> Columns:
    """`columns`, their edges beside copies with the host longer, in a run without timing events.

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
    """Edges between GPUs, and to and from lanes of copies; none where they cost no more beside copies with the host."""
    lanes, lane = columns.lanes, columns.lane
    if not columns.dispatch.graph_beside_s or columns.graphs is None or not any(k in lanes.host_copies for k in lane):
        return []
    copies = lanes.peers | lanes.host_copies
    found: list[Edge] = []
    for i, kind in enumerate(columns.kind):
        if kind != CUDA or columns.flags[i] & PASSED or not inside(columns, i):
            continue
        for j in columns.waits[i]:
            gpus = frozenset(lanes.queue[lane[k]] for k in (i, j))
            if inside(columns, j) and lane[i] != lane[j] and (len(gpus) > 1 or lane[i] in copies or lane[j] in copies):
                found.append(Edge(i, j, gpus))
    return found


def loads_of(columns: Columns, edges: list[Edge], engine: Engine) -> Loads:
    """What waits take longer whose ends are beside copies between the host and one of their GPUs, in a run."""
    lanes, lane, each_s = columns.lanes, columns.lane, columns.dispatch.graph_beside_s
    copies: dict[int, list[int]] = {}
    for k, number in enumerate(lane):
        if number in lanes.host_copies:
            copies.setdefault(lanes.queue[number], []).append(k)
    spans = {gpu: spans_of(those, engine.start_s, engine.end_s) for gpu, those in copies.items()}
    found: Loads = {}
    for i, j, gpus in edges:
        if any(is_in_one(engine.end_s[j], spans[gpu]) for gpu in gpus if gpu in spans):
            found.setdefault(i, {})[lane[j]] = each_s
    return found

"""Runs of a plan as repeats follow each other.

The first call of a run, or the launch of its first CUDA graph, comes behind the wait that ended the run before, and
finds the processor's caches as cold as any call, or launch, behind such a wait. A run that begins with a call to a
stream is as much later as a whole; one that begins otherwise is simulated again. Where CUDA graphs hold actions this is
so with timing events, too; in streams the first calls of a run with events have a figure of their own
(`Dispatch.start_s`).

Not modelled: ranks of several processes; what a look at the yardstick between two runs leaves of the caches; that a
long first call may be colder than a tiny one (`Dispatch.cold_call_s`): with it recorded runs come out too long.
"""

from __future__ import annotations

from dataclasses import replace

from graphsched.plan import OUTSIDE
from graphsched.simulator.columns import Columns
from graphsched.simulator.dispatch import Thread
from graphsched.simulator.engine import Engine
from graphsched.simulator.lane_costs import CPU, CUDA
from graphsched.simulator.locked_engine import engine_of

TINY_S = 2e-6
"""About what a tiny operation takes a GPU: the `Dispatch.first_s` of a run of one has its own wait in it."""


def run_again(columns: Columns) -> tuple[Engine, float]:
    """A run that follows one like it: what happened in it, but for the first call's cold, and its makespan in seconds.

    Args:
        columns: Of a run without timing events.

    Raises:
        DeadlockError: Actions wait for each other, so that not all can start.
    """
    engine = engine_of(columns, timed=False)
    makespan_s, cold_s = engine.run(), first_cold_s(columns, engine)
    if not cold_s or columns.kind[0] == CUDA:
        return engine, makespan_s + cold_s
    again = engine_of(columns, timed=False)
    if isinstance(again.thread, Thread):
        again.thread.cold_s = cold_s
    return engine, again.run()


def first_cold_s(columns: Columns, engine: Engine) -> float:
    """What the first call of a run takes longer for the wait at the end of the one before, which `engine` has run."""
    thread, costs = engine.thread, columns.dispatch
    if not isinstance(thread, Thread) or CUDA not in columns.kind:
        return 0.0
    waited_s, graphs = max(thread.waited_s, max(engine.end_s) - thread.time), columns.graphs
    slept_s = max(thread.slept_s, _slept_s(columns, engine))
    graph = graphs.of[columns.kind.index(CUDA)] if graphs is not None else OUTSIDE
    if graphs is not None and graph != OUTSIDE and costs.graph_colds:
        return costs.launch_cold_s(waited_s, graphs.gpus[graph], slept_s)
    known_s = costs.cold_after_s(costs.launch_s + TINY_S)
    return max(0.0, max(costs.cold_after_s(waited_s), costs.slept_cold_s(slept_s)) - known_s)


def _slept_s(columns: Columns, engine: Engine) -> float:
    """How long the thread waits at the end of a run for lanes of the CPU: it waits for those of GPUs before."""
    ends = [*zip(engine.end_s, columns.kind, strict=True)]
    lanes_s, others_s = ([end for end, kind in ends if (kind == CPU) is lanes] for lanes in (True, False))
    return max(0.0, max(lanes_s, default=0.0) - max([engine.thread.time, *others_s]))


def with_cold_launch(columns: Columns, cold_s: float) -> Columns:
    """`columns` whose first launch of a CUDA graph, or call to a stream, takes the thread so much longer."""
    first, own_s = columns.kind.index(CUDA), list(columns.own_s)
    if columns.graphs is not None and (graph := columns.graphs.of[first]) != OUTSIDE:
        first = columns.graphs.first[graph]
    own_s[first] += cold_s
    return replace(columns, own_s=own_s)

"""What holds for every plan in graph mode: waits and lanes are obeyed, and what costs nothing changes nothing."""

from __future__ import annotations

import random
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.errors import CaptureError
from graphsched.executors.obedience import check_obedience
from graphsched.plan import Plan
from graphsched.platform import Dispatch
from graphsched.simulator import predict
from tests.builders import FREE, ROUND, layered, planned, platform
from tests.simulator.test_properties import random_plan

NOTHING = replace(
    FREE, **{f.name: 0.0 for f in fields(Dispatch) if f.name.startswith("graph_") and f.name[-2:] == "_s"}
)  # type: ignore[arg-type]
GRAPHS = replace(
    ROUND, graph_launch_s=3.0, graph_starts=((1, 9.0), (4, 5.0)), graph_rates=((2, 0.5),), graph_event_s=0.25,
    graph_fork_s=0.125, graph_across_s=0.5, graph_across_start_s=0.25, graph_across_root_s=0.5, graph_root_s=0.25,
    graph_across_edge_s=0.125, graph_other_device_s=0.75, graph_timed_edge_s=2.0, result_s=0.5, yield_s=7.0,
)  # fmt: skip


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 10**6), st.sampled_from([NOTHING, FREE, GRAPHS]), st.sampled_from([1, 3]))
def test_waits_and_lanes_are_obeyed(seed: int, dispatch: Dispatch, steps: int) -> None:
    """Random layered DAGs on GPUs, CPU lanes and a worker: segments, blocking copies and waits of the thread."""
    plan = replace(random_plan(seed, dispatch), mode="graph")
    try:
        line = predict(plan, steps=steps)
    except CaptureError:  # all of it is on CPUs
        return
    check_obedience(line)
    assert (line.end_s >= line.start_s).all()
    assert line.start_s.min() >= 0.0
    assert line.timed_makespan_s >= line.end_s.max()


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_graphs_that_cost_nothing_take_what_streams_do_that_cost_nothing(seed: int, lanes: int) -> None:
    """Random layered DAGs on two GPUs with a few waits of the thread."""
    plan = _on_gpus(seed, lanes)
    eager, graph = predict(plan), predict(plan, mode="graph")
    assert graph.end_s.tolist() == pytest.approx(eager.end_s.tolist())
    assert graph.makespan_s == pytest.approx(eager.makespan_s)


def _on_gpus(seed: int, lanes: int) -> Plan:
    work, rng = layered(seed), random.Random(seed)
    order = list(work.graph)
    placed = {name: f"cuda:{rng.randrange(2)}/s{rng.randrange(lanes)}" for name in order}
    where = platform(dispatch=NOTHING, latency_s=0.125, shared={"bus": 60.0})
    return planned(work, where, placed, wait_after=rng.sample(order, 2))

"""Steps of graph mode: when the first nodes of a graph follow the last ones of the graph before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.plan import Plan
from graphsched.simulator import Model, predict
from tests.builders import FREE, chain, planned, platform, workload

ACROSS = replace(FREE, graph_other_device_s=0.5, graph_across_start_s=0.25, graph_copy_edge_s=0.0)


def step_s(plan: Plan, model: Model | None = None) -> float:
    """Seconds of one step more, once some have been submitted."""
    chosen = {} if model is None else {"model": model}
    few_s, many_s = (predict(plan, mode="graph", steps=n, **chosen).makespan_s for n in (3, 8))
    return (many_s - few_s) / 5


def beside(seconds: list[float], gpus: int) -> Plan:
    """t0, t1, …, a task on each GPU; none waits for another. Graphs are launched on the first."""
    tasks = {f"t{k}": length for k, length in enumerate(seconds)}
    return planned(workload(tasks), platform(gpus=gpus, dispatch=ACROSS), {t: f"cuda:{t[1:]}/s0" for t in tasks})


@pytest.mark.parametrize(("gpus", "told_s"), [(2, 0.25), (3, 0.5), (4, 0.75)])
def test_other_gpus_are_waited_for_and_told(gpus: int, told_s: float):
    """t0 (4 s), t1, … (10 s each) beside each other: seen half a second late, then told in turn, half a second late."""
    assert step_s(beside([4.0] + [10.0] * (gpus - 1), gpus)) == pytest.approx(10 + 0.5 + told_s + 0.5)


@pytest.mark.parametrize(("gpus", "told_s"), [(2, 0.25), (3, 0.5), (4, 0.75)])
def test_the_gpu_that_graphs_are_launched_on_tells_the_others_first(gpus: int, told_s: float):
    """t0 (10 s), t1, … (4 s each): t0 follows itself, but for what telling the others takes."""
    assert step_s(beside([10.0] + [4.0] * (gpus - 1), gpus)) == pytest.approx(10 + told_s)


def test_graphs_on_one_gpu_follow_each_other_like_nodes():
    """a (4 s) on s0, b (10 s) on s1 of one GPU: b follows itself at once, a an edge of its lane later."""
    costs = replace(ACROSS, graph_wait_s=0.125)
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s1"}
    plan = planned(workload({"a": 4.0, "b": 10.0}), platform(dispatch=costs), lanes)
    alone = Model(sharing=False)
    assert step_s(plan, alone) == pytest.approx(10.0)
    plan = planned(workload({"a": 10.0, "b": 10.0}), platform(dispatch=costs), lanes)
    assert step_s(plan, alone) == pytest.approx(10.125)


def test_only_what_waits_for_nothing_follows_the_graph_before():
    """t0 (cuda:0) ──▶ t1 (cuda:1) of 1 s: the edge inside, and the way back; t1 is told by t0 alone."""
    plan = planned(chain(2, 1.0), platform(gpus=2, dispatch=ACROSS), {"t0": "cuda:0/s0", "t1": "cuda:1/s0"})
    assert step_s(plan) == pytest.approx(1 + 0.5 + 1 + 0.5 + 0.25)


def test_a_handover_costs_nothing_where_waits_and_dispatch_do_not():
    plan = beside([4.0, 10.0], 2)
    assert step_s(plan, Model(waits=False)) == pytest.approx(10.25)
    assert step_s(plan, Model(waits=False, dispatch=False)) == pytest.approx(10.0)

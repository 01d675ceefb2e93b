"""Tasks that launch nothing are no nodes of a graph: edges go through them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import networkx as nx
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphsched.costs import Costs, TaskCost
from graphsched.plan import Plan
from graphsched.simulator import Model, predict
from graphsched.simulator.empty_nodes import passed
from graphsched.simulator.graph_edges import Waits
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, planned, platform

GRAPH = replace(
    FREE, graph_launch_s=1.0, graph_launch_node_s=0.25, launch_s=1.0, graph_wait_s=0.5, graph_fork_s=2.0,
    graph_other_device_s=4.0, graph_rates=((2, 0.5), (3, 0.5)), graph_event_s=8.0, graph_across_root_s=16.0,
    graph_across_edge_s=0.125, graph_lane_s=0.25,
)  # fmt: skip
NO_EVENTS = Model(timing=False)


def reached(waits: Waits, lane: Sequence[int], nodes: Sequence[int]) -> set[tuple[int, int]]:
    """Which of `nodes` come before which, by waits and by the order of lanes."""
    graph = nx.DiGraph()
    graph.add_nodes_from(nodes)
    last: dict[int, int] = {}
    for i in nodes:
        graph.add_edges_from((j, i) for j in waits[i])
        if lane[i] in last:
            graph.add_edge(last[lane[i]], i)
        last[lane[i]] = i
    return {(a, b) for a, b in nx.transitive_closure_dag(graph).edges if a in nodes and b in nodes}


@given(st.integers(0, 10**6), st.integers(1, 20), st.integers(1, 4))
def test_what_comes_before_what_stays(seed: int, actions: int, lanes: int) -> None:
    """Random waits on lanes of other actions; about a third of them launch nothing."""
    rng = random.Random(seed)
    lane = [rng.randrange(lanes) for _ in range(actions)]
    waits = [tuple(sorted(rng.sample(range(i), min(i, rng.randrange(3))))) for i in range(actions)]
    waits = [tuple(j for j in before if lane[j] != lane[i]) for i, before in enumerate(waits)]
    empty = {i for i in range(actions) if rng.random() < 0.35}
    found = passed(waits, lane, empty)
    kept = [i for i in range(actions) if i not in empty]
    assert not any(set(found[i]) & empty for i in range(actions))
    everything = reached(waits, lane, range(actions))
    assert reached(found, lane, kept) == {(a, b) for a, b in everything if a in kept and b in kept}


def shares(*, cut: bool, last: bool, gpus: int) -> Plan:
    """x ──▶ [cut, 0 s] ──▶ a on another lane ──▶ copy to the last GPU ──▶ [last, 0 s] ──▶ b"""
    work = Workload()
    value = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    far = f"cuda:{gpus - 1}"
    lanes = {}
    if cut:
        value = work.task(torch.neg, value, name="cut", device="cuda:0", duration_s=0.0)
        lanes["cut"] = "cuda:0/s1"
    value = work.task(torch.neg, value, name="a", device="cuda:0")
    lanes["a"] = "cuda:0/s0"
    if last:
        value = work.task(torch.abs, value, name="last", device=far, duration_s=0.0)
        lanes["last"] = f"{far}/s1"
    work.task(torch.exp, value, name="b", device=far)
    lanes["b"] = f"{far}/s0"
    costs = Costs({(t.signature, "GPU"): TaskCost(3.0) for t in work.tasks if t.duration_s is None})
    return replace(planned(work, platform(gpus=2, dispatch=GRAPH), lanes, costs=costs), mode="graph")


def test_they_cost_a_graph_nothing() -> None:
    """With or without them: as many nodes, lanes, roots and edges."""
    for gpus in (1, 2):
        plain = predict(shares(cut=False, last=False, gpus=gpus)).makespan_s
        assert predict(shares(cut=True, last=False, gpus=gpus)).makespan_s == plain
        assert predict(shares(cut=True, last=True, gpus=gpus)).makespan_s == plain


def test_in_a_timed_run_events_around_them_are_nodes() -> None:
    """Two events of 8 s around each of two more."""
    plain, more = (predict(shares(cut=cut, last=cut, gpus=2)).timed_makespan_s for cut in (False, True))
    assert more >= plain + 2 * 2 * 8.0


def test_they_are_over_when_what_they_wait_for_is() -> None:
    line = predict(shares(cut=True, last=True, gpus=2), model=NO_EVENTS)
    spans = {span.action: (span.start_s, span.end_s) for span in line}
    copy = max(float(end) for end, kind in zip(line.end_s, line.plan.kinds, strict=True) if kind == "copy")
    assert spans["cut"][0] == spans["cut"][1] <= spans["a"][0]
    assert spans["last"] == (copy, copy)
    assert spans["b"][0] == copy + 4.0


def test_in_eager_mode_they_are_waited_for() -> None:
    """Two waits of 1 s between lanes of one GPU; streams know of no graph."""
    slow = replace(FREE, same_device_s=1.0)
    plain, more = (shares(cut=cut, last=cut, gpus=1) for cut in (False, True))
    seconds = [
        predict(replace(plan, mode="eager", platform=replace(plan.platform, dispatch=slow))).makespan_s
        for plan in (plain, more)
    ]
    assert seconds[1] > seconds[0]

"""Timing events inside CUDA graphs: those of several lanes of a device pass one after another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.costs import Costs, Kernel, Multiprocessors, TaskCost
from graphsched.plan import Plan
from graphsched.simulator import Model, predict
from graphsched.simulator.substitution import TERMS, Substitution
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, layered, planned, platform

ALONE = Model(sharing=False)
CURVES = Model(pairs=False, block_queue=False)
LAUNCH_S, EVENT_S = 4.0, 1.0  # until the first node; an event in its own lane
GRAPH = replace(FREE, graph_launch_s=3.0, launch_s=1.0, graph_wait_s=0.25, graph_event_s=EVENT_S)


def rows(rate_s: float, *seconds: list[float], gpus: int = 1, lanes: int = 0, **dispatch: Any) -> Plan:
    """A row of independent tasks of these seconds on each lane, issued in turn; lanes go round the GPUs.

    Events of two lanes pass `rate_s` apart.
    """
    work, placed = Workload(), dict[str, str]()
    took: dict[str, float] = {}
    inputs = [work.input(f"x{k}", TensorSpec((2, 2)), device=f"cuda:{k}") for k in range(gpus)]
    for step in range(max(map(len, seconds))):
        for lane, row in enumerate(seconds):
            if step < len(row):
                name = f"{lane}.{step}"
                work.task(_same, inputs[lane % gpus], len(took), name=name, outputs=[], device=f"cuda:{lane % gpus}")
                placed[name], took[work[name].signature] = f"cuda:{lane % gpus}/s{lane}", row[step]
    costs = replace(GRAPH, graph_event_rates=((2, rate_s),), **dispatch)
    plan = planned(work, platform(gpus=gpus, dispatch=costs), placed)
    return replace(plan, costs=Costs({(s, "GPU"): TaskCost(t) for s, t in took.items()}), mode="graph")


def _same(x: torch.Tensor, number: int) -> None:
    """An operation whose cost is filed under its number."""


def ends(plan: Plan) -> dict[str, float]:
    line = predict(plan, model=ALONE)
    return dict(zip(line.plan.names, line.end_s.tolist(), strict=True)) | {"": line.timed_makespan_s}


def test_events_of_two_lanes_are_served_in_turn() -> None:
    """The events before the tasks at 4 and 7 s, those behind at 15 and 18; the last has no other lane beside it.

    ::

        lane 0   4 === 7 |--- 8 s ---| 15 === 18
        lane 1         7 === 10 |--- 8 s ---| 18 = 19
    """
    plan = rows(3.0, [8.0], [8.0])
    line = predict(plan, model=ALONE)
    assert (line.start_s.tolist(), line.end_s.tolist()) == ([7.0, 10.0], [18.0, 19.0])
    assert (line.makespan_s, line.timed_makespan_s) == (12.0, 19.0)


@pytest.mark.parametrize("length", [1, 3, 10])
def test_short_tasks_run_at_the_rate_of_events(length: int) -> None:
    """Two lanes of tasks of a second each: an event every 3 s, the last alone."""
    assert ends(rows(3.0, [1.0] * length, [1.0] * length))[""] == LAUNCH_S + 3 * (4 * length - 1) + 1


def test_long_tasks_come_apart_once() -> None:
    """An event every 0.5 s at most, each takes 1 s: after the first two the lanes do not meet again."""
    assert ends(rows(0.5, [8.0] * 5, [8.0] * 5))[""] == LAUNCH_S + 0.5 + 5 * (8 + 2)


def test_kernels_run_beside_events_of_other_lanes() -> None:
    """A task of 40 s beside a row of short ones; when it is over no other lane has anything left."""
    found = ends(rows(3.0, [40.0], [1.0, 1.0, 1.0]))
    assert found["0.0"] == LAUNCH_S + 3 + 40 + 1
    assert found["1.2"] == LAUNCH_S + 3 + 3 * (3 + 1 + 3)


def test_who_is_over_first_passes_first() -> None:
    """Issued first, over last: at 12 s, when the event of the other has been served since 11."""
    assert ends(rows(3.0, [5.0], [1.0])) == {"1.0": 14, "0.0": 15, "": 15}


def forked(**dispatch: Any) -> Plan:
    """a ──▶ b, c, d of 8 s each, an event every 3 s; b and d on lanes of their own."""
    work = Workload()
    a = work.task(torch.neg, work.input("x", TensorSpec((2, 2)), device="cuda:0"), name="a")
    for name in "bcd":
        work.task(torch.neg, a, name=name)
    costs = replace(GRAPH, graph_event_rates=((2, 3.0),), **dispatch)
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s1", "c": "cuda:0/s0", "d": "cuda:0/s2"}
    known = Costs({(work["a"].signature, "GPU"): TaskCost(8.0)})
    return replace(planned(work, platform(gpus=1, dispatch=costs), lanes, costs=known), mode="graph")


@pytest.mark.parametrize("edge", [{}, {"graph_fork_s": 2.0}, {"graph_timed_edge_s": 2.0}])
def test_branches_start_one_after_another(edge: dict[str, float]) -> None:
    """In the order of the plan: an edge to another lane is in what the event behind it takes."""
    line = predict(forked(**edge), model=ALONE)
    assert line.start_s.tolist() == [7.0, 21.0, 24.0, 27.0]
    assert line.makespan_s == LAUNCH_S + 16 + max(GRAPH.graph_wait_s, edge.get("graph_fork_s", 0.0))


def test_events_are_launched_while_nodes_start() -> None:
    """Four tasks, eight events, each 2 s for the thread; the graph starts as soon as without."""
    plain, events = (predict(forked(graph_launch_event_s=each_s), model=ALONE) for each_s in (0.0, 2.0))
    assert events.issue_end_s.tolist() == [3.0 + 16] * 4
    assert events.end_s.tolist() == plain.end_s.tolist()
    assert events.makespan_s == plain.makespan_s
    long = predict(forked(graph_launch_event_s=20.0), model=ALONE)
    assert long.timed_makespan_s == 3 + 8 * 20


def test_events_that_were_launched_sooner_than_modelled_leave_no_rest() -> None:
    """Measured as if each took the thread 2 s, modelled as 20: more than the whole launch took."""
    line = predict(forked(graph_launch_event_s=2.0), model=ALONE)
    measured = replace(line, plan=forked(graph_launch_event_s=20.0), source="measured")
    assert Substitution(measured, ALONE).makespan_s(TERMS) == pytest.approx(line.timed_makespan_s)


def test_gpus_serve_their_own_events() -> None:
    assert ends(rows(3.0, [8.0], [8.0], gpus=2))[""] == LAUNCH_S + 8 + 2


@pytest.mark.parametrize("dispatch", [{"graph_event_rates": ()}, {"graph_event_s": 0.0}])
def test_where_it_is_unknown_no_event_waits(dispatch: dict[str, Any]) -> None:
    plan = rows(3.0, [8.0], [8.0])
    here = replace(plan.platform, dispatch=replace(plan.platform.dispatch, **dispatch))
    each_s = 0.0 if "graph_event_s" in dispatch else 2.0
    assert ends(replace(plan, platform=here))[""] == LAUNCH_S + 8 + each_s


def test_without_timing_there_are_no_events() -> None:
    assert predict(rows(3.0, [8.0], [8.0]), model=Model(sharing=False, timing=False)).timed_makespan_s == 12


@pytest.mark.parametrize("stamps", [False, True])
def test_without_timing_a_graph_starts_as_soon_as_without_events(stamps: bool) -> None:
    """Two tasks, four events or stamps, for which it would start 4 s later."""
    plan = rows(3.0, [1.0, 1.0], graph_starts=((2, 10.0), (6, 14.0)))
    line = predict(with_stamps(plan) if stamps else plan, model=Model(sharing=False, timing=False))
    assert line.timed_makespan_s == line.makespan_s == 12.0


def with_stamps(plan: Plan, **dispatch: Any) -> Plan:
    """The same on a platform that knows stamps, with kernels known to leave room for them."""
    small, where = (Kernel(1, 32, 32, 0),), Multiprocessors(4, 65536, 2048, 233472, 32)
    curve = ((1, 1.0), (4, 1.0))
    known = {key: replace(plan.costs[key], kernels=small, processors=where, concurrency=curve) for key in plan.costs}
    costs = Costs(known)
    here = replace(plan.platform, dispatch=replace(plan.platform.dispatch, graph_stamp_s=0.5, **dispatch))
    return replace(plan, costs=costs, platform=here)


def test_stamps_take_their_time_on_their_lane_and_do_not_wait() -> None:
    """Two lanes of three tasks of 1 s, each between two stamps of 0.5 s; events would pass 3 s apart."""
    plan = with_stamps(rows(3.0, [1.0] * 3, [1.0] * 3))
    assert ends(plan) == {f"{lane}.{k}": LAUNCH_S + 2 * (k + 1) for lane in range(2) for k in range(3)} | {"": 10}
    assert predict(plan, model=ALONE).makespan_s == LAUNCH_S + 3
    assert predict(plan, model=Model(sharing=False, timing=False)).timed_makespan_s == LAUNCH_S + 3


@pytest.mark.parametrize("seconds", [0.25, 3.0])
def test_stamps_start_after_nodes_of_other_lanes(seconds: float) -> None:
    """Tasks of one node in two lanes, nodes 0.5 s apart: three nodes of each, so one task comes every 1.5 s at most."""
    known = {"graph_rates": ((2, 0.5),), "graph_node_s": 1.0}
    line = predict(with_stamps(rows(3.0, [seconds] * 4, [seconds] * 4), **known), model=CURVES)
    each_s = max(seconds + 1, 2 * 3 * 0.5)
    assert line.end_s.reshape(4, 2).max(axis=1)[-1] == LAUNCH_S + 1.5 + 3 * each_s + seconds + 1
    assert line.makespan_s == LAUNCH_S + 0.5 + 4 * max(seconds, 1.0) - (max(seconds, 1.0) - seconds)


@pytest.mark.parametrize(("lanes", "rate_s", "more_s"), [(1, 0.5, 0.0), (2, 0.5, 0.0), (2, 0.75, 0.5), (4, 0.75, 2.0)])
def test_stamps_take_longer_beside_those_of_other_lanes(lanes: int, rate_s: float, more_s: float) -> None:
    """A task of 40 s on each lane; a tiny node takes 1 s alone, and so many times the rate where lanes take turns."""
    plan = with_stamps(rows(3.0, *[[40.0]] * lanes), graph_rates=((2, rate_s),), graph_node_s=1.0)
    line = predict(plan, model=CURVES)
    assert line.start_s.tolist() == [LAUNCH_S] * lanes
    assert line.end_s[0] == LAUNCH_S + 40 + 2 * (0.5 + more_s)
    assert line.makespan_s == LAUNCH_S + 40 + (lanes - 1) * rate_s
    assert predict(plan, model=ALONE).end_s[0] == LAUNCH_S + 40 + 2 * 0.5


@pytest.mark.parametrize(("row", "stamp_s"), [(1, 0.5), (2, 0.75), (3, 1.0)])
def test_stamps_take_longer_where_a_graph_works_on_more_memory(row: int, stamp_s: float) -> None:
    """Tasks in one lane that return 16 bytes each, one input of 16 bytes: 32 bytes, 48 and 64."""
    work = Workload()
    x = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    for k in range(row):
        work.task(torch.neg, x, name=f"t{k}", outputs=[TensorSpec((2, 2))])
    here = platform(gpus=1, dispatch=replace(GRAPH, graph_stamp_s=0.5, graph_stamps=((32, 0.5), (64, 1.0))))
    costs = Costs({(work["t0"].signature, "GPU"): TaskCost(1.0)})
    plan = planned(work, here, {f"t{k}": "cuda:0/s0" for k in range(row)}, costs=costs)
    line = predict(replace(plan, mode="graph"))
    assert line.end_s[-1] == LAUNCH_S + row * (1 + 2 * stamp_s)
    assert predict(replace(plan, mode="graph"), model=Model(timing=False)).end_s[-1] == LAUNCH_S + row


def test_copies_have_events_where_tasks_have_stamps() -> None:
    """In a graph on cuda:0: a copy to the host and one from it, on lanes of their own, and a task of 1 s."""
    work = Workload()
    x = work.input("x", TensorSpec((100,), "uint8"), device="cuda:0")
    work.copy(x, to="cpu", pinned=True, name="out")
    work.copy(work.input("h", TensorSpec((1000,), "uint8"), device="cpu"), to="cuda:0", pinned=True, name="in")
    work.task(torch.neg, x, name="a")
    here = platform(gpus=1, dispatch=replace(GRAPH, graph_stamp_s=0.5, timed_beside_s=9.0))
    plan = planned(work, here, {"a": "cuda:0/s0"}, costs=Costs({(work["a"].signature, "GPU"): TaskCost(1.0)}))
    line = predict(replace(plan, mode="graph"))
    took = dict(zip(plan.names, (line.end_s - line.start_s).tolist(), strict=True))
    alone = predict(replace(plan, mode="graph"), model=Model(timing=False))
    plain = dict(zip(plan.names, (alone.end_s - alone.start_s).tolist(), strict=True))
    assert {name: took[name] - plain[name] for name in took} == {"out": 2 * EVENT_S, "in": 2 * EVENT_S, "a": 2 * 0.5}


def test_a_graph_with_stamps_starts_no_sooner_than_one_of_fewer_nodes() -> None:
    """Two tasks, four stamps; a graph of six nodes was read off to start after 5 s, one of three after 12 s."""
    plan = with_stamps(rows(3.0, [1.0, 1.0]), graph_starts=((2, 10.0), (3, 12.0), (6, 5.0)))
    line = predict(plan, model=ALONE)
    assert (line.makespan_s, line.start_s[0]) == (12.0, 12.0)


def test_a_graph_with_stamps_starts_when_it_is_launched() -> None:
    """Two tasks, four stamps: 3 s for the thread, and 4 s more for each node."""
    plan = with_stamps(rows(3.0, [1.0, 1.0]), graph_starts=((2, 10.0),), graph_launch_node_s=4.0)
    line = predict(plan, model=ALONE)
    assert (line.makespan_s, line.start_s[0]) == (12.0, 3.0 + 6 * 4.0)


def test_a_graph_over_two_gpus_starts_while_its_stamps_are_launched() -> None:
    """A task on each, and twice as many nodes with stamps."""
    starts = {"graph_starts": ((2, 10.0),), "graph_launch_node_s": 4.0, "graph_across_s": 1.0}
    plan = with_stamps(rows(3.0, [1.0], [1.0], gpus=2), **starts)
    assert predict(plan, model=ALONE).start_s.tolist() == [10.0, 10.0]


def test_stamps_are_nodes_that_a_graph_starts_later_for() -> None:
    """Two tasks of one node, four stamps: it starts after 14 s in place of 10 s."""
    plan = with_stamps(rows(3.0, [1.0, 1.0]), graph_starts=((2, 10.0), (6, 14.0)))
    line = predict(plan, model=ALONE)
    assert (line.makespan_s, line.timed_makespan_s) == (12.0, 18.0)
    assert line.start_s.tolist() == [14.0, 16.0]


def test_edges_are_no_longer_with_stamps() -> None:
    """a ──▶ b and c; c on a lane of its own, to which a fork of 2 s leads."""
    work = Workload()
    a = work.task(torch.neg, work.input("x", TensorSpec((2, 2)), device="cuda:0"), name="a")
    for name in "bc":
        work.task(torch.neg, a, name=name)
    costs = replace(GRAPH, graph_fork_s=2.0, graph_timed_edge_s=50.0, timed_edge_s=50.0)
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s0", "c": "cuda:0/s1"}
    plan = planned(work, platform(gpus=1, dispatch=costs), lanes)
    plan = replace(plan, costs=Costs({(work["a"].signature, "GPU"): TaskCost(1.0)}), mode="graph")
    found = ends(with_stamps(plan))
    assert (found["b"], found["c"]) == (LAUNCH_S + 4, LAUNCH_S + 2 + 2 + 2)
    assert ends(plan)["c"] > 50


@pytest.mark.parametrize("unknown", ["costs", "graph_stamp_s"])
def test_without_stamps_there_are_events(unknown: str) -> None:
    """Where kernels are not known, or no stamp was measured."""
    plan, known = rows(3.0, [8.0], [8.0]), with_stamps(rows(3.0, [8.0], [8.0]))
    back = replace(known, costs=plan.costs) if unknown == "costs" else replace(known, platform=plan.platform)
    assert ends(back) == ends(plan) != ends(known)


def test_tasks_that_share_the_gpu_leave_it_before_their_events() -> None:
    """Two that slow each other to half while both run, then one more on the first lane, alone.

    ::

        lane 0   4 === 7 |-- 3 --|--- 5 of 8 s ---| 20 === 23  26 = 27 |-- 8 s --| 35 = 36
        lane 1         7 === 10  |--- 5 of 6 s ---| 1 | 21     23 === 26
    """
    line = predict(rows(3.0, [8.0, 8.0], [6.0]))
    assert line.end_s.tolist() == [23.0, 26.0, 36.0]


@given(st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_one_lane_is_as_without(seed: int) -> None:
    work = layered(seed)
    lanes = dict.fromkeys(work.graph, "cuda:0/s0")
    known, unknown = (
        predict(replace(planned(work, platform(dispatch=costs), lanes), mode="graph"))
        for costs in (replace(GRAPH, graph_event_rates=((2, 9.0),)), GRAPH)
    )
    assert known.end_s.tolist() == unknown.end_s.tolist()
    assert known.timed_makespan_s == unknown.timed_makespan_s

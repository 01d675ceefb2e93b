"""Plans as one CUDA graph: closed forms, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphsched.costs import Costs, TaskCost
from graphsched.errors import ScheduleError
from graphsched.estimates import DISPATCH_S
from graphsched.plan import Plan
from graphsched.platform import Dispatch
from graphsched.schedulers import schedule
from graphsched.simulator import Model, predict
from graphsched.simulator.model import EVERYTHING
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, ROUND, layered, planned, platform

LAUNCHED = replace(
    FREE, run_s=9.0, copy_s=9.0, record_s=9.0, wait_s=9.0, switch_s=9.0, start_s=9.0, free_s=9.0, change_s=9.0,
    timed_record_s=9.0, same_device_s=9.0, graph_launch_s=3.0, launch_s=1.0, graph_wait_s=0.25, other_device_s=2.0,
    sync_s=0.5, timed_gap_s=0.125,
)  # fmt: skip


def chain(lanes: dict[str, str], *, barrier: bool = False) -> Plan:
    """a ──▶ b, 8 s each; with `barrier` a wait of the thread between them. Issuing a task in eager mode takes 100 s."""
    work = Workload()
    x = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    a = work.task(torch.neg, x, name="a")
    if barrier:
        work.barrier("gate")
    work.task(torch.neg, a, name="b")
    plan = planned(work, platform(dispatch=LAUNCHED), lanes)
    costs = Costs({(work["a"].signature, "GPU"): TaskCost(8.0, 100.0, company_s=50.0)})
    return replace(plan, costs=costs, mode="graph")


def test_one_launch_stands_before_all() -> None:
    line = predict(chain({"a": "cuda:0/s0", "b": "cuda:0/s0"}))
    assert line.makespan_s == 4 + 8 + 8 + 0.5
    assert line.timed_makespan_s == 4 + 2 * 8.125 + 0.5
    assert line.start_s.tolist() == [4.0, 12.125]
    assert line.issue_end_s.tolist() == [3.0, 3.0]


def test_what_calls_cost_may_be_left_out_and_is_an_estimate_elsewhere() -> None:
    plan = chain({"a": "cuda:0/s0", "b": "cuda:0/s0"})
    ((key, cost),) = ((key, plan.costs[key]) for key in plan.costs)
    bare = replace(plan, costs=Costs({key: TaskCost(cost.device_s, host_left_out=True)}))
    assert predict(bare).makespan_s == predict(plan).makespan_s
    assert predict(bare).estimated == ()
    eager = replace(bare, mode="eager")
    estimated = replace(eager, costs=Costs({key: TaskCost(cost.device_s, DISPATCH_S["cuda"])}))
    assert predict(eager).estimated == ("a", "b")
    assert predict(eager).makespan_s == predict(estimated).makespan_s


def test_an_edge_to_another_lane_costs_what_it_costs_in_a_graph() -> None:
    assert predict(chain({"a": "cuda:0/s0", "b": "cuda:0/s1"})).makespan_s == 4 + 8 + 0.25 + 8 + 0.5


def test_a_wait_costs_nothing_on_one_lane() -> None:
    line = predict(chain({"a": "cuda:0/s0", "b": "cuda:0/s0"}, barrier=True))
    assert line.makespan_s == 4 + 8 + 8 + 0.5
    names = list(line.plan.names)
    assert (line.start_s[names.index("gate")], line.end_s[names.index("gate")]) == (0.0, 12.125)
    assert line.start_s[names.index("b")] == 12.125


def test_without_dispatch_there_is_no_launch() -> None:
    assert predict(chain({"a": "cuda:0/s0", "b": "cuda:0/s0"}), model=Model(dispatch=False)).makespan_s == 16


def test_the_mode_asked_for_counts() -> None:
    plan = chain({"a": "cuda:0/s0", "b": "cuda:0/s0"})
    assert predict(plan, mode="eager").makespan_s > 200
    assert predict(replace(plan, mode="eager"), mode="graph").makespan_s == predict(plan).makespan_s


def test_a_step_is_launched_while_the_one_before_runs() -> None:
    plan = chain({"a": "cuda:0/s0", "b": "cuda:0/s0"})
    assert predict(plan, steps=3).makespan_s == 4 + 3 * 16 + 0.5


def test_a_plan_of_cpu_tasks_alone_is_refused_by_all() -> None:
    work = Workload()
    work.task(torch.neg, work.input("x", TensorSpec((2, 2))), name="y", device="cpu")
    here = platform()
    with pytest.raises(ScheduleError, match="'y'"):
        schedule(work, here, Costs(), scheduler="one_stream", mode="graph")
    with pytest.raises(ScheduleError, match="'y'"):
        predict(schedule(work, here, Costs(), scheduler="one_stream"), mode="graph")


# -- each term ----------------------------------------------------------------------------------------

ALONE = Model(sharing=False)
ROOM = TaskCost(8.0, concurrency=((1, 1.0), (2, 1.0)))  # two side by side do not slow each other


def graph(
    tasks: Mapping[str, str],
    edges: Mapping[str, str] | None = None,
    *,
    cost: TaskCost = ROOM,
    barrier: str = "",
    **dispatch: object,
) -> Plan:
    """Tasks on these lanes; ``edges`` says, for a task, whose values it reads, x otherwise; a wait after `barrier`."""
    work = Workload()
    x = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    made = {"x": x}
    for name in tasks:
        read = [made[before] for before in (edges or {}).get(name, "x")]
        made[name] = work.task(torch.neg if len(read) < 2 else torch.add, *read, name=name)
        if name == barrier:
            work.barrier("gate")
    plan = planned(work, platform(dispatch=replace(LAUNCHED, **dispatch)), tasks)  # type: ignore[arg-type]
    costs = Costs({(task.signature, "GPU"): cost for task in work.tasks if task.signature})
    return replace(plan, costs=costs, mode="graph")


ROW = {"a": "cuda:0/s0", "b": "cuda:0/s0"}
TO_AND_FRO = {"a": "cuda:0/s0", "b": "cuda:0/s1", "c": "cuda:0/s0"}
CHAIN = {"b": "a", "c": "b"}
DIAMOND = {"a": "cuda:0/s0", "b": "cuda:0/s0", "c": "cuda:0/s1", "d": "cuda:0/s0"}
DIAMOND_EDGES = {"b": "a", "c": "a", "d": "bc"}


def test_a_task_takes_what_it_took_in_a_graph() -> None:
    plan = graph(ROW, cost=TaskCost(8.0, graph_s=6.0))
    assert predict(plan).makespan_s == 4 + 6 + 6 + 0.5
    eager = predict(plan, mode="eager")
    assert eager.end_s[1] - eager.start_s[1] == pytest.approx(8.125)


def test_a_task_takes_what_it_did_in_a_graph_that_works_on_as_much_memory() -> None:
    """The input, a and b have 16 bytes each: half way between what was measured at 16 and at 80."""
    cost = TaskCost(8.0, graph_s=6.0, graph_memory=((16, 6.0), (80, 10.0)))
    plan = graph(ROW, cost=cost)
    assert predict(plan).makespan_s == 4 + 8 + 8 + 0.5
    assert predict(plan, mode="eager").end_s.tolist() == predict(graph(ROW), mode="eager").end_s.tolist()


def test_a_graph_starts_later_the_more_nodes_it_has() -> None:
    """Two tasks of two nodes; timing events are no nodes to it. Its launch takes the host 3 + 4 · 0.5 s."""
    starts = ((2, 10.0), (4, 14.0))
    line = predict(graph(ROW, cost=TaskCost(8.0, graph_nodes=2), graph_starts=starts, graph_launch_node_s=0.5))
    assert line.makespan_s == 14 + 16 + 0.5
    assert line.timed_makespan_s == 14 + 2 * 8.125 + 0.5
    assert line.issue_end_s.tolist() == [5.0, 5.0]
    assert line.start_s[0] == 14


def test_the_launch_is_no_longer_than_the_start() -> None:
    line = predict(graph(ROW, graph_starts=((1, 2.0),)))
    assert (line.start_s[0], line.issue_end_s[0]) == (2.0, 2.0)


def test_launches_count_where_nodes_are_not_known() -> None:
    assert predict(graph(ROW, cost=TaskCost(8.0, launches=3), graph_launch_node_s=0.5)).makespan_s == 7 + 16 + 0.5


def test_every_lane_after_the_first_delays_the_start() -> None:
    apart = {"a": "cuda:0/s0", "b": "cuda:0/s1", "c": "cuda:0/s2"}
    assert predict(graph(apart, graph_lane_s=0.75), model=ALONE).makespan_s == 4 + 1.5 + 8 + 0.5


def test_lanes_that_begin_at_once_are_launched_one_after_another() -> None:
    """a, b and c on a lane each; the first starts as it does alone."""
    apart = {"a": "cuda:0/s0", "b": "cuda:0/s1", "c": "cuda:0/s2"}
    line = predict(graph(apart, graph_root_s=0.75, graph_lane_s=9.0), model=ALONE)
    assert line.start_s.tolist() == [4.0, 4.75, 5.5]
    assert line.issue_end_s.tolist() == [3 + 1.5] * 3
    assert line.makespan_s == 5.5 + 8 + 0.5


def test_lanes_that_branch_off_later_are_launched_with_what_they_follow() -> None:
    """a ──▶ (b, c) ──▶ d, c on a lane of its own."""
    plan = graph(DIAMOND, DIAMOND_EDGES, graph_root_s=9.0, graph_lane_s=9.0, graph_wait_s=0.0)
    assert predict(plan, model=ALONE).makespan_s == 4 + 3 * 8 + 0.5


def test_without_dispatch_no_term_of_the_launch_is_left() -> None:
    plan = graph(
        ROW,
        graph_starts=((1, 9.0),),
        graph_launch_node_s=9.0,
        graph_lane_s=9.0,
        graph_root_s=9.0,
        graph_launch_event_s=9.0,
    )
    line = predict(plan, model=Model(dispatch=False))
    assert (line.makespan_s, line.issue_end_s[-1]) == (16, 0)


def test_a_branch_pays_where_it_leaves_and_where_it_comes_back() -> None:
    """a ──▶ (b, c) ──▶ d, c on a lane of its own."""
    plan = graph(DIAMOND, DIAMOND_EDGES, graph_fork_s=2.0)
    assert predict(plan, model=ALONE).makespan_s == 4 + 8 + 2 + 8 + 2 + 8 + 0.5
    assert predict(plan, model=Model(sharing=False, waits=False)).makespan_s == 4 + 24 + 0.5


def test_a_chain_pays_nothing_for_its_lanes() -> None:
    plan = graph(TO_AND_FRO, CHAIN, graph_fork_s=2.0)
    assert predict(plan).makespan_s == 4 + 24 + 2 * 0.25 + 0.5


def test_a_chain_over_gpus_pays_for_them() -> None:
    work = Workload()
    a = work.task(torch.neg, work.input("x", TensorSpec((2, 2)), device="cuda:0"), name="a", device="cuda:0")
    there = work.copy(a, to="cuda:1", name="there")
    work.task(torch.neg, there, name="b", device="cuda:1")
    here = platform(dispatch=replace(LAUNCHED, graph_fork_s=99.0))
    plan = planned(work, here, {"a": "cuda:0/s0", "b": "cuda:1/s0", "there": "cuda:0>cuda:1"})
    costs = Costs({(work["a"].signature, "GPU"): ROOM, (work["b"].signature, "GPU"): ROOM})
    assert predict(replace(plan, costs=costs, mode="graph")).makespan_s == pytest.approx(
        4 + 8 + 0.25 + 0.16 + 2 + 8 + 0.5
    )


def test_behind_a_wait_other_lanes_pay_an_edge() -> None:
    """a, a wait of the thread, then b on another lane and c on the same."""
    plan = graph({"a": "cuda:0/s0", "b": "cuda:0/s1", "c": "cuda:0/s0"}, barrier="a", graph_fork_s=2.0)
    line = predict(plan, model=Model(sharing=False, timing=False))
    start = dict(zip(line.plan.names, line.start_s.tolist(), strict=True))
    assert (start["b"], start["c"]) == (4 + 8 + 2, 4 + 8)
    assert line.makespan_s == 4 + 8 + 2 + 8 + 0.5


def test_waits_of_steps_that_follow_each_other() -> None:
    """The graph of the second step, which begins on the other lane than the first ends on, waits for all of that."""
    plan = graph({"a": "cuda:0/s0", "b": "cuda:0/s1"}, barrier="a", graph_fork_s=2.0)
    assert predict(plan, steps=2, model=ALONE).makespan_s == 4 + (8 + 0.25 + 8) + 2 + (8 + 0.25 + 8) + 0.5
    low, high = predict(plan).interval_s or (0.0, 0.0)
    assert 0 < low < predict(plan).makespan_s < high


def test_an_event_takes_what_it_takes_in_a_graph() -> None:
    events: dict[str, Any] = {"graph_event_s": 1.0, "graph_timed_edge_s": 0.5, "timed_edge_s": 99.0}
    assert predict(graph(ROW, **events)).timed_makespan_s == 4 + 2 * (8 + 2) + 0.5
    assert predict(graph(TO_AND_FRO, CHAIN, graph_fork_s=2.0, **events)).timed_makespan_s == 4 + 30 + 2 * 0.25 + 0.5
    diamond = graph(DIAMOND, DIAMOND_EDGES, graph_fork_s=2.0, **events)
    assert predict(diamond, model=ALONE).timed_makespan_s == 4 + 30 + 2 * 2.5 + 0.5


@pytest.mark.parametrize("nodes", [1, 2])
def test_nodes_of_two_lanes_start_one_after_the_other(nodes: int) -> None:
    apart = {"a": "cuda:0/s0", "b": "cuda:0/s1"}
    plan = graph(apart, cost=replace(ROOM, launches=nodes), graph_rates=((2, 3.0),))
    assert predict(plan).makespan_s == 4 + 3 * nodes + 8 + 0.5
    assert predict(plan, model=Model(timing=False)).start_s.tolist() == [4.0, 4.0]
    assert predict(plan, model=ALONE).makespan_s == 4 + 8 + 0.5


@pytest.mark.parametrize("length", [1, 3, 10])
def test_chains_of_tiny_nodes_run_at_the_rate(length: int) -> None:
    """Two chains of nodes of a second each; 3 s from one node to the next."""
    tasks = {f"{lane}{i}": f"cuda:0/s{lane}" for i in range(length) for lane in (0, 1)}
    plan = graph(tasks, cost=replace(ROOM, device_s=1.0), graph_rates=((2, 3.0),))
    assert predict(plan).makespan_s == 4 + 3 * (2 * length - 1) + 1 + 0.5


def test_one_lane_is_not_held_up_by_the_rate() -> None:
    assert predict(graph(ROW, graph_rates=((2, 99.0),))).makespan_s == 4 + 16 + 0.5


@pytest.mark.parametrize(("source", "target", "field"), [
    ("cpu", "cuda:0", "graph_copy_in_s"), ("cuda:0", "cpu", "graph_copy_out_s"),
    ("cuda:0", "cuda:1", "graph_peer_copy_s"),
])  # fmt: skip
@pytest.mark.parametrize(("shift", "seconds"), [(2.0, 4.0), (-0.5, 1.5), (-5.0, 1.0)])
def test_a_copy_takes_longer_or_shorter_in_a_graph(
    source: str, target: str, field: str, shift: float, seconds: float
) -> None:
    """100 bytes at 100 bytes/s after 1 s of latency, which is all that a graph can save."""
    taken = 1 + 4096 / 100 + shift
    for contention in (True, False):
        line = predict(copied(source, target, **{field: taken}), model=Model(contention=contention))
        assert line.makespan_s == pytest.approx(4 + seconds + 0.5)
    assert predict(copied(source, target)).makespan_s == pytest.approx(4 + 2 + 0.5)


def copied(source: str, target: str, **dispatch: float) -> Plan:
    """One copy of 100 bytes from pinned memory, to it, or between GPUs."""
    work = Workload()
    x = work.input("x", TensorSpec((100,), "uint8"), device=source)
    work.copy(x, to=target, pinned=True, name="copy")
    lane = {"cpu": "cuda:0/h2d", "cuda:0": "cuda:0/d2h"}[source] if "cpu" in (source, target) else "cuda:0>cuda:1"
    here = platform(latency_s=1.0, dispatch=replace(LAUNCHED, **dispatch))  # type: ignore[arg-type]
    return replace(planned(work, here, {"copy": lane}), mode="graph")


@given(st.integers(0, 10**6), st.integers(1, 3))
def test_nothing_about_graphs_counts_in_eager_mode(seed: int, lanes: int) -> None:
    """Layered DAGs on several lanes: the same to the bit, whatever graphs cost."""
    graphs = {f.name: 9.0 for f in fields(Dispatch) if f.name.startswith("graph_") and f.name.endswith("_s")}
    costly = replace(ROUND, **graphs, graph_starts=((1, 9.0),), graph_rates=((2, 9.0),))  # type: ignore[arg-type]
    work = layered(seed)
    placed = {name: f"cuda:{i % 2}/s{i % lanes}" for i, name in enumerate(work.graph)}
    plain, other = (predict(planned(work, platform(dispatch=d), placed)) for d in (ROUND, costly))
    assert (plain.makespan_s, plain.timed_makespan_s) == (other.makespan_s, other.timed_makespan_s)
    assert plain.start_s.tolist() == other.start_s.tolist()
    assert plain.end_s.tolist() == other.end_s.tolist()


# -- graphs between tasks on the CPU --------------------------------------------------------------------


def cut(
    model: Model = EVERYTHING, *, both: bool = False, pageable: bool = True, **dispatch: float
) -> dict[str, tuple[float, float]]:
    """Spans of a ──▶ b ──▶ c, b on the CPU between two graphs; with `both`, d runs beside a in the first graph.

    The result of b is copied out of the memory that b returned it in, if `pageable`, else by c's graph.

    Tasks take 8 s, d 20 s, copies none. The thread takes 3 s for a launch, 5 s to hand b over; its lane wakes in 1 s.
    """
    work = Workload()
    x = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    a = work.task(torch.neg, x, name="a", device="cuda:0")
    if both:
        work.task(torch.abs, x, name="d", device="cuda:0")
    b = work.task(torch.neg, a, name="b", device="cpu")
    there = work.copy(b, to="cuda:0", name="bc") if pageable else b
    work.task(torch.neg, there, name="c", device="cuda:0")
    costly = replace(LAUNCHED, handoff_s=5.0, wake_s=1.0, **dispatch)  # type: ignore[arg-type]
    here = platform(dispatch=costly, bandwidth=1e9)
    lanes = {"a": "cuda:0/s0", "b": "cpu/w0", "c": "cuda:0/s0", "bc": "cuda:0/h2d"} | (
        {"d": "cuda:0/s1"} if both else {}
    )
    plan = planned(work, here, lanes)
    seconds = {task.signature: 20.0 if task.name == "d" else 8.0 for task in work.tasks}
    kinds = {(what, kind): TaskCost(seconds[what]) for what in seconds for kind in ("GPU", "CPU")}
    line = predict(replace(plan, costs=Costs(kinds), mode="graph"), model=replace(model, sharing=False))
    spans = zip(line.plan.names, line.start_s.tolist(), line.end_s.tolist(), strict=True)
    return {name: (start, end) for name, start, end in spans} | {"": (0.0, line.makespan_s)}


def test_graphs_are_launched_around_a_task_on_the_cpu() -> None:
    """a, then its copy on a lane of its own; b's lane wakes. The thread issues b's copy, a record and a launch."""
    found = cut(Model(timing=False))
    assert found["a"] == (4, 12)
    assert list(found["b"]) == pytest.approx([12.25 + 1, 21.25])
    assert found["bc"][0] == pytest.approx(21.25 + 9 + 9 + 1)
    assert found["c"][0] == pytest.approx(21.25 + 9 + 9 + 9 + 3 + 1)
    assert found[""][1] == pytest.approx(found["c"][1] + 0.5)


def test_a_copy_out_of_pinned_memory_is_in_the_graph_of_its_reader() -> None:
    """The thread waits for b's lane, then launches: as much earlier as a copy and a record take."""
    found = cut(Model(timing=False), pageable=False)
    assert list(found["b"]) == pytest.approx([12.25 + 1, 21.25])
    assert found["b>cuda:0"][0] == pytest.approx(21.25 + 3 + 1)
    assert found["c"][0] == pytest.approx(found["b>cuda:0"][1] + 0.25)


def test_what_is_outside_waits_for_all_of_a_graph() -> None:
    """d, of 20 s, is in the first graph on a lane of its own."""
    found = cut(Model(timing=False), both=True)
    assert found["d"] == (4, 24)
    assert found["b"][0] == pytest.approx(24 + 1)
    assert found["c"][0] == pytest.approx(33 + 9 + 9 + 9 + 3 + 1)


@pytest.mark.parametrize(("beside_s", "start_s"), [(60.0, 4 + 60 + 0.25), (8.0, 17 + 9 + 9 + 9 + 3 + 1)])
def test_a_graph_waits_for_the_one_before(beside_s: float, start_s: float) -> None:
    """d on a GPU, b on a CPU beside it; b's result is copied between two graphs and read by c in the second."""
    work = Workload()
    x = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    work.task(torch.abs, x, name="d", device="cuda:0")
    b = work.task(torch.neg, work.input("y", TensorSpec((2, 2))), name="b", device="cpu")
    work.task(torch.neg, work.copy(b, to="cuda:0", name="in"), name="c", device="cuda:0")
    costly = replace(LAUNCHED, handoff_s=5.0, wake_s=1.0)
    lanes = {"d": "cuda:0/s0", "b": "cpu/w0", "in": "cuda:0/h2d", "c": "cuda:0/s1"}
    plan = planned(work, platform(dispatch=costly, bandwidth=1e9), lanes)
    seconds = {task.signature: beside_s if task.name == "d" else 8.0 for task in work.tasks if task.kind == "run"}
    kinds = {(what, kind): TaskCost(seconds[what]) for what in seconds for kind in ("GPU", "CPU")}
    line = predict(replace(plan, costs=Costs(kinds), mode="graph"), model=Model(timing=False, sharing=False))
    start = dict(zip(line.plan.names, line.start_s.tolist(), strict=True))
    assert start["b"] == 8 + 1
    assert start["in"] == pytest.approx(17 + 9 + 9 + 1)
    assert start["c"] == pytest.approx(start_s)


def test_bounds_of_a_plan_that_is_cut() -> None:
    work = Workload()
    a = work.task(torch.neg, work.input("x", TensorSpec((2, 2)), device="cuda:0"), name="a", device="cuda:0")
    work.task(torch.neg, work.task(torch.neg, a, name="b", device="cpu"), name="c", device="cuda:0")
    plan = planned(work, platform(dispatch=LAUNCHED), {"a": "cuda:0/s0", "b": "cpu/w0", "c": "cuda:0/s0"})
    line = predict(replace(plan, mode="graph"))
    low, high = line.interval_s or (0.0, 0.0)
    assert low < line.makespan_s < high
    assert predict(replace(plan, mode="graph"), steps=3).makespan_s > line.makespan_s


def copied_after_a_wait(memory: str, seconds: float = 8.0) -> dict[str, float]:
    """a (GPU), a wait of the thread, a copy of its result to the host, 1 s: start of the copy, and the makespan."""
    work = Workload()
    x = work.input("x", TensorSpec((100,), "uint8"), device="cuda:0")
    a = work.task(torch.neg, x, name="a", device="cuda:0")
    work.barrier("gate")
    work.copy(a, to="cpu", pinned=memory == "pinned", name="out")
    here = platform(dispatch=replace(LAUNCHED, graph_fork_s=2.0), blocking=True)
    plan = planned(work, here, {"a": "cuda:0/s0", "out": "cuda:0/d2h"})
    costs = Costs({(work["a"].signature, "GPU"): TaskCost(seconds)})
    line = predict(replace(plan, costs=costs, mode="graph"), model=Model(timing=False))
    return {"out": line.start_s[list(line.plan.names).index("out")], "": line.makespan_s}


@pytest.mark.parametrize("seconds", [8.0, 80.0])
def test_a_pinned_copy_after_a_wait_is_in_the_graph(seconds: float) -> None:
    """Its lane waits where the thread would; what comes behind on the one lane is a chain."""
    assert copied_after_a_wait("pinned", seconds) == {"out": 4 + seconds + 0.25, "": 4 + seconds + 0.25 + 1 + 0.5}


@pytest.mark.parametrize(("seconds", "start_s"), [(8.0, 3 + 4 * 9 + 1), (80.0, 4 + 80 + 2)])
def test_a_pageable_copy_after_a_wait_is_issued_behind_the_graph(seconds: float, start_s: float) -> None:
    """The thread goes to the copy's stream, lets it wait for the graph and makes the copy, a call of another kind."""
    found = copied_after_a_wait("pageable", seconds)
    assert found["out"] == start_s
    assert found[""] == start_s + 1 + 0.5

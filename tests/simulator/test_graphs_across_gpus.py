"""Graphs over several GPUs: the thread launches them piece after piece, and a node starts once it has come to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from graphsched.costs import Costs, TaskCost
from graphsched.plan import Plan
from graphsched.simulator import Model, predict
from graphsched.timeline import Timeline
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, planned, platform, workload

GRAPH = replace(FREE, graph_launch_s=3.0, launch_s=1.0, sync_s=0.5, graph_other_device_s=0.25)
FIRST_S = 4.0  # from the launch of a graph on one GPU to its first node
ACROSS = {
    "graph_across_s": 10.0,
    "graph_across_start_s": 6.0,
    "graph_across_root_s": 2.0,
    "graph_across_edge_s": 0.5,
}
Build = Callable[[Workload, int], dict[str, str]]


def plan_of(build: Build, *, gpus: int = 2, seconds: float = 1.0, **dispatch: Any) -> Plan:
    """What `build` adds, in graph mode; each task takes these seconds."""
    work = Workload()
    placed = build(work, gpus)
    costs = Costs({(task.signature, "GPU"): TaskCost(seconds) for task in work.tasks})
    here = platform(gpus=max(gpus, 2), dispatch=replace(GRAPH, **(ACROSS | dispatch)))
    return replace(planned(work, here, placed, costs=costs), mode="graph")


def rows(work: Workload, gpus: int) -> dict[str, str]:
    """Two independent tasks on each GPU: t0 on cuda:0, t1 on cuda:1, …, t2 on cuda:0, …"""
    inputs = [work.input(f"x{k}", TensorSpec((2, 2)), device=f"cuda:{k}") for k in range(gpus)]
    for k in range(2 * gpus):
        work.task(torch.neg, inputs[k % gpus], name=f"t{k}", device=f"cuda:{k % gpus}")
    return {f"t{k}": f"cuda:{k % gpus}/s0" for k in range(2 * gpus)}


def forth(work: Workload, gpus: int) -> dict[str, str]:
    """a on cuda:0 ──▶ copy ──▶ b on cuda:1; c on the last GPU waits for nothing"""
    a = work.task(torch.neg, work.input("x", TensorSpec((2, 2)), device="cuda:0"), name="a")
    work.task(torch.neg, a, name="b", device="cuda:1")
    work.task(torch.neg, work.input("y", TensorSpec((2, 2)), device=f"cuda:{gpus - 1}"), name="c")
    return {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": f"cuda:{gpus - 1}/s1"}


def starts(line: Timeline) -> dict[str, float]:
    return dict(zip(line.plan.names, map(float, line.start_s), strict=True))


def test_a_further_gpu_starts_later_and_nodes_of_a_row_are_launched_together() -> None:
    """t1 is the second that waits for nothing; t2 and t3 follow t0 and t1 on their lanes."""
    line = predict(plan_of(rows))
    first = FIRST_S + 6
    assert starts(line) == {"t0": first, "t1": first + 2, "t2": first + 1, "t3": first + 3}
    assert line.makespan_s == 3 + 10 + 2 + 0.5  # the thread is back from the launch after the last task's end


def test_the_thread_is_busy_until_all_is_launched() -> None:
    """Its own share of the launch, two further GPUs, two more that wait for nothing."""
    line = predict(plan_of(rows, gpus=3))
    assert line.issue_end_s.tolist() == [3.0 + 2 * 10 + 2 * 2] * 6
    assert starts(line)["t2"] == FIRST_S + 2 * 6 + 2 * 2


def fork(work: Workload, _: int) -> dict[str, str]:
    """a ──▶ b, and a ──▶ c on another lane of cuda:0; d on cuda:1 waits for nothing"""
    a = work.task(torch.neg, work.input("x", TensorSpec((2, 2)), device="cuda:0"), name="a")
    for name in "bc":
        work.task(torch.neg, a, name=name, device="cuda:0")
    work.task(torch.neg, work.input("y", TensorSpec((2, 2)), device="cuda:1"), name="d")
    return {"a": "cuda:0/s0", "b": "cuda:0/s0", "c": "cuda:0/s1", "d": "cuda:1/s0"}


def test_edges_between_lanes_of_one_gpu_are_launched_with_what_they_follow() -> None:
    line = predict(plan_of(fork, graph_across_edge_s=50.0))
    assert starts(line)["c"] == pytest.approx(FIRST_S + 6 + 1)
    assert line.issue_end_s[0] == 3 + 10 + 2


def test_a_copy_to_another_gpu_is_launched_even_if_it_waits_for_nothing() -> None:
    """x on cuda:0 ──▶ copy ──▶ b on cuda:1: the copy, and the edge behind it."""

    def brought(work: Workload, _: int) -> dict[str, str]:
        work.task(torch.neg, work.input("x", TensorSpec((2, 2)), device="cuda:0"), name="b", device="cuda:1")
        return {"b": "cuda:1/s0"}

    line = predict(plan_of(brought, graph_across_edge_s=50.0))
    assert line.start_s.tolist() == [FIRST_S + 6 + 50, FIRST_S + 6 + 2 * 50]
    assert line.issue_end_s[0] == 3 + 10 + 2 * 50


def test_edges_between_gpus_are_launched_one_by_one() -> None:
    """The thread comes to c when a's copy, b and c itself are launched, long before b starts."""
    line = predict(plan_of(forth, seconds=100.0))
    first = FIRST_S + 6
    found = starts(line)
    assert (found["a"], found["c"]) == (first, first + 2 * 0.5 + 2)
    assert found["b"] >= first + 100 + 0.25


def test_a_row_waits_for_the_thread_where_edges_are_slow() -> None:
    """b can start only when its edge is launched, 2 x 50 s after the first node."""
    line = predict(plan_of(forth, graph_across_edge_s=50.0))
    assert starts(line)["b"] == FIRST_S + 6 + 2 * 50
    assert line.issue_end_s[0] == 3 + 10 + 2 * 50 + 2


def test_a_copy_takes_the_thread_its_own_time_where_that_is_known() -> None:
    """b's edge 0.5 s, its copy 30."""
    line = predict(plan_of(forth, graph_across_copy_s=30.0), model=Model(chance=False))
    assert starts(line)["b"] == FIRST_S + 6 + 30 + 0.5
    assert line.issue_end_s[0] == 3 + 10 + 30 + 0.5 + 2


def fed(work: Workload, gpus: int) -> dict[str, str]:
    """x on the host ──▶ copy ──▶ a on cuda:0, y on the host ──▶ copy ──▶ b on the last GPU"""
    for k, name in ((0, "a"), (gpus - 1, "b")):
        x = work.copy(
            work.input(f"x{name}", TensorSpec((2, 2)), device="cpu"), to=f"cuda:{k}", pinned=True, name=name * 2
        )
        work.task(torch.neg, x, name=name, device=f"cuda:{k}")
    return {"a": "cuda:0/s0", "b": f"cuda:{gpus - 1}/s0"}


@pytest.mark.parametrize(("host_s", "each_s"), [(20.0, 20.0), (0.0, 30.0)])
def test_copies_with_the_host_take_the_thread_time_too(host_s: float, each_s: float) -> None:
    """Where theirs is unknown, that of copies between GPUs; a is launched with its copy."""
    costs = {"graph_across_copy_s": 30.0, "graph_across_host_copy_s": host_s}
    line = predict(plan_of(fed, **costs), model=Model(chance=False))
    found, first = starts(line), FIRST_S + 6 + each_s
    assert (found["aa"], found["bb"]) == (first, first + each_s + 2)
    assert found["a"] < first + each_s
    assert line.issue_end_s[0] == 3 + 10 + 2 * each_s + 2


def fed_twice(work: Workload, gpus: int) -> dict[str, str]:
    """x ──▶ copy xx ──▶ a on cuda:0, y ──▶ copy yy behind xx ──▶ b on cuda:0; c on the last GPU waits for nothing"""
    for name, read in (("a", "x"), ("b", "y")):
        x = work.input(read, TensorSpec((2, 2)), device="cpu")
        work.task(torch.neg, work.copy(x, to="cuda:0", pinned=True, name=read * 2), name=name, device="cuda:0")
    work.task(torch.neg, work.input("z", TensorSpec((2, 2)), device=f"cuda:{gpus - 1}"), name="c")
    return {"a": "cuda:0/s0", "b": "cuda:0/s0", "c": f"cuda:{gpus - 1}/s0"}


@pytest.mark.parametrize("event_s", [0.0, 0.125])
def test_a_copy_with_the_host_behind_another_is_launched_with_it(event_s: float) -> None:
    """The thread takes 2 x 20 s for both and the events around them, which yy waits for with xx alone."""
    costs = {"graph_across_copy_s": 20.0, "graph_across_edge_s": 4.0, "graph_event_s": event_s}
    found = starts(predict(plan_of(fed_twice, **costs), model=Model(chance=False)))
    assert found["yy"] - found["xx"] < 20
    assert found["c"] - found["xx"] > 20


def test_copies_with_the_host_are_no_pieces_of_a_graph_on_one_gpu() -> None:
    line = predict(plan_of(fed, gpus=1, graph_across_copy_s=30.0, graph_across_host_copy_s=20.0))
    assert line.issue_end_s[0] == 3


def test_an_edge_takes_longer_with_each_further_gpu() -> None:
    """On two GPUs as ever; on three, where c is on the third, 40 s more, and the copy before it not."""
    two, three = (predict(plan_of(forth, gpus=gpus, graph_across_more_s=40.0)) for gpus in (2, 3))
    assert two.issue_end_s[0] == 3 + 10 + 2 * 0.5 + 2
    assert three.issue_end_s[0] == 3 + 2 * 10 + 2 * 0.5 + 40 + 2
    assert starts(three)["b"] == FIRST_S + 2 * 6 + 2 * 0.5 + 40


def test_an_edge_between_gpus_has_a_latency_of_its_own_in_graphs() -> None:
    plans = [plan_of(forth, seconds=100.0, graph_other_device_s=edge_s) for edge_s in (7.0, 0.25)]
    slow, quick = (starts(predict(plan, model=Model(chance=False)))["b"] for plan in plans)
    assert slow - quick == 6.75


@pytest.mark.parametrize(
    ("gpus", "dispatch", "switches"),
    [(1, {}, {}), (2, dict.fromkeys(ACROSS, 0.0), {}), (2, {"graph_launch_s": 0.0}, {"dispatch": False})],
)
def test_one_gpu_and_platforms_that_do_not_know_it(gpus: int, dispatch: Any, switches: dict[str, bool]) -> None:
    line = predict(plan_of(rows, gpus=gpus, **dispatch), model=Model(**switches))
    first = 0.0 if switches else FIRST_S
    assert sorted(starts(line).values()) == ([first, first + 1] if gpus == 1 else [first, first, first + 1, first + 1])


def test_events_are_launched_too() -> None:
    """Two of each task, each as an edge: t1 is launched 2 x 0.5 + 2 s behind t0."""
    line = predict(plan_of(rows, graph_event_s=0.125))
    found = starts(line)
    assert found["t0"] == FIRST_S + 6 + 0.5  # of its two events one is launched before it
    assert found["t1"] - found["t0"] == 2 * 0.5 + 2
    assert line.issue_end_s[0] == 3 + 10 + 2 + 4 * 2 * 0.5
    assert line.makespan_s == 3 + 10 + 2 + 0.5  # without events


def test_where_it_is_not_known_a_graph_over_two_gpus_is_launched_as_on_one() -> None:
    """Four tasks, eight events of 4 s each for the thread; then without events, two roots of 2 s."""
    unknown = dict.fromkeys(ACROSS, 0.0)
    line = predict(plan_of(rows, graph_event_s=0.125, graph_launch_event_s=4.0, **unknown))
    assert line.issue_end_s[0] == 3 + 8 * 4
    found = starts(predict(plan_of(rows, graph_root_s=2.0, **unknown)))
    assert found["t1"] - found["t0"] == 2


def test_a_copy_to_another_gpu_is_no_piece_of_a_graph_on_one() -> None:
    """a on cuda:0 ──▶ copy to cuda:1; b on the CPU cuts the plan; c on cuda:1 reads both."""
    lanes = {"a": "cuda:0/s0", "b": "cpu/w0", "c": "cuda:1/s0"}
    ends = []
    for root_s in (0.0, 0.75):
        here = platform(dispatch=replace(GRAPH, **ACROSS, graph_across_copy_s=5.0, graph_root_s=root_s))
        work = workload({"a": 1.0, "b": 30.0, "c": 1.0}, [("a", "c", 100), ("b", "c", 0)])
        ends.append(predict(replace(planned(work, here, lanes), mode="graph")).makespan_s)
    assert ends[0] == ends[1]


def test_a_gpu_of_empty_tasks_alone_is_counted_alike_in_all_that_a_launch_takes() -> None:
    """a and b on two lanes of cuda:0; e, of no time, on cuda:1: a graph over two GPUs, whose second root takes 2 s."""
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s1", "e": "cuda:1/s0"}
    ends = {}
    for root_s in (0.0, 2.0):
        here = platform(dispatch=replace(GRAPH, **ACROSS, graph_root_s=root_s))
        work = workload({"a": 8.0, "b": 8.0, "e": 0.0}, [])
        ends[root_s] = predict(replace(planned(work, here, lanes), mode="graph"), model=Model(sharing=False)).makespan_s
    assert ends[0.0] == ends[2.0]


def lanes_of_their_own(work: Workload, gpus: int) -> dict[str, str]:
    """As `rows`, each task on a lane of its own"""
    return {name: f"{lane[:-1]}{k // gpus}" for k, (name, lane) in enumerate(rows(work, gpus).items())}


@pytest.mark.parametrize(("root_s", "here_s"), [(0.75, 0.75), (0.0, 2.0)])
def test_roots_take_less_on_the_gpu_that_the_graph_is_launched_on(root_s: float, here_s: float) -> None:
    """t0, t2 on cuda:0, which launches, t1, t3 on cuda:1: 0.75 s and 2 s, if both are known."""
    found = starts(predict(plan_of(lanes_of_their_own, graph_root_s=root_s)))
    assert [found[f"t{k}"] - found["t0"] for k in (1, 2, 3)] == [2.0, 2.0 + here_s, 4.0 + here_s]


@pytest.mark.parametrize(("root_s", "more_s"), [(0.0, 3 * 9.0), (0.75, 0.0)])
def test_lanes_delay_the_start_where_roots_are_not_known(root_s: float, more_s: float) -> None:
    """Four lanes on two GPUs."""
    plans = [plan_of(lanes_of_their_own, graph_root_s=root_s, graph_lane_s=lane_s) for lane_s in (0.0, 9.0)]
    without_s, with_s = (starts(predict(plan))["t0"] for plan in plans)
    assert with_s - without_s == more_s


def test_runs_that_follow_each_other_are_launched_alike() -> None:
    """The second launch begins when the first is over, after 15 s."""
    once, twice = (predict(plan_of(rows), steps=steps).makespan_s for steps in (1, 2))
    assert twice - once == 15


@pytest.mark.parametrize(("last_device", "more"), [(1, 0.25), (0, 0.0)])
def test_the_end_of_a_graph_on_another_gpu_has_an_edge_back(last_device: int, more: float) -> None:
    """a on cuda:0, b on cuda:1, side by side; the one that ends last is on the GPU of the launch, or is not."""

    def beside(work: Workload, _: int) -> dict[str, str]:
        for k, name in enumerate("ab"):
            seconds = 40.0 if k == last_device else 1.0
            x = work.input(f"x{name}", TensorSpec((2, 2)), device=f"cuda:{k}")
            work.task(torch.neg, x, name=name, device=f"cuda:{k}", duration_s=seconds)
        return {"a": "cuda:0/s0", "b": "cuda:1/s0"}

    line = predict(plan_of(beside))
    assert line.makespan_s == pytest.approx(float(line.end_s.max()) + 0.5 + more)

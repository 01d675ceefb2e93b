"""Lanes, waits and transfers that share nothing: times that add up by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from graphsched.costs import Costs, TaskCost
from graphsched.errors import DeadlockError, ScheduleError
from graphsched.plan import Plan
from graphsched.platform import Link, Platform
from graphsched.simulator import Model, predict
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, chain, diamond, planned, platform, workload


def ends(plan: Plan, **options: object) -> dict[str, float]:
    timeline = predict(plan, **options)  # type: ignore[arg-type]
    return {span.action: span.end_s for span in timeline}


def test_two_chains_on_two_devices():
    """a0 -> a1 on cuda:0; b0 -> b1 -> b2 on cuda:1."""
    work = workload(
        {"a0": 1.0, "a1": 2.0, "b0": 4.0, "b1": 8.0, "b2": 16.0},
        [("a0", "a1", 0), ("b0", "b1", 0), ("b1", "b2", 0)],
    )
    lanes = {t: f"cuda:{int(t[0] == 'b')}/s0" for t in work.graph}
    timeline = predict(planned(work, platform(), lanes))
    assert {s.action: (s.start_s, s.end_s) for s in timeline} == {
        "a0": (0, 1), "a1": (1, 3), "b0": (0, 4), "b1": (4, 12), "b2": (12, 28),
    }  # fmt: skip
    assert timeline.makespan_s == timeline.timed_makespan_s == 28
    assert timeline.source == "predicted"
    assert timeline.estimated == ()


def test_tasks_of_one_lane_run_in_plan_order():
    """c and a, independent, on one lane: first c, as the plan says."""
    work = workload({"a": 1.0, "c": 2.0})
    timeline = predict(planned(work, platform(), {"a": "cuda:0/s0", "c": "cuda:0/s0"}, order=["c", "a"]))
    assert [(s.action, s.start_s) for s in timeline] == [("c", 0), ("a", 2)]


def test_diamond_waits_for_both_arms():
    """a -> (b, c) -> d with c longer."""
    work = workload({"a": 1.0, "b": 1.0, "c": 5.0, "d": 1.0}, list(diamond().graph.edges(data="nbytes")))
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s0", "c": "cuda:1/s0", "d": "cuda:0/s0"}
    assert ends(planned(work, platform(), lanes)) == {"a": 1, "b": 2, "c": 6, "d": 7}


def test_copy_behind_product_and_overlap():
    """p0, p1 on cuda:0, each copied to cuda:1 (2 s + 1 s latency) while the next is computed: p -> copy -> q."""
    work = workload({"p0": 4.0, "p1": 4.0, "q0": 1.0, "q1": 1.0}, [("p0", "q0", 200), ("p1", "q1", 200)])
    lanes = {"p0": "cuda:0/s0", "p1": "cuda:0/s0", "q0": "cuda:1/s0", "q1": "cuda:1/s0"}
    plan = planned(work, platform(latency_s=1.0), lanes)
    assert ends(plan) == {"p0": 4, "p1": 8, "p0>cuda:1": 7, "q0": 8, "p1>cuda:1": 11, "q1": 12}


@pytest.mark.parametrize(("nbytes", "seconds"), [(10, 2.0), (150, 3.0), (200, 4.0), (300, 5.0)])
def test_transfer_alone_takes_what_was_measured(nbytes: int, seconds: float):
    """a -> copy -> b over a link with measured points (100 bytes: 2 s; 200: 4 s) and 100 bytes/s, 1 s latency."""
    here = platform()
    link = Link("cuda:0", "cuda:1", "peer", 2.0, 100.0, (), False, (10, 100, 200), (2.0, 2.0, 4.0))
    here = Platform("hand", here.devices, (link,), {}, FREE)
    work = workload({"a": 0.0, "b": 0.0}, [("a", "b", nbytes)])
    plan = planned(work, here, {"a": "cuda:0/s0", "b": "cuda:1/s0"})
    assert predict(plan).makespan_s == pytest.approx(seconds)
    assert predict(plan, model=Model(contention=False)).makespan_s == seconds


def test_latency_of_waits_on_same_and_other_device():
    """a -> b (other stream, 0.25 s) and a -> c (other device, 4 s); none on the lane of a itself."""
    costs = replace(FREE, same_device_s=0.25, other_device_s=4.0)
    work = workload(dict.fromkeys("abcd", 1.0), [("a", x, 0) for x in "bcd"])
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s1", "c": "cuda:1/s0", "d": "cuda:0/s0"}
    plan = planned(work, platform(dispatch=costs), lanes)
    assert ends(plan, model=Model(sharing=False)) == {"a": 1, "b": 2.25, "c": 6, "d": 2}
    assert ends(plan, model=Model(sharing=False, waits=False)) == {"a": 1, "b": 2, "c": 2, "d": 2}


def test_a_copy_between_gpus_is_on_a_stream_of_its_source():
    """a on cuda:0 -> copy -> b on cuda:1: the copy waits for its own device, b for another."""
    costs = replace(FREE, same_device_s=0.25, other_device_s=4.0)
    work = workload({"a": 1.0, "b": 1.0}, [("a", "b", 100)])
    plan = planned(work, platform(dispatch=costs), {"a": "cuda:0/s0", "b": "cuda:1/s0"})
    assert ends(plan) == {"a": 1, "a>cuda:1": 2.25, "b": 7.25}


AWAY_AND_BACK = {"a": "cuda:0/s0", "b": "cuda:0/s0", "away": "cuda:0/d2h", "back": "cuda:0/h2d"}
EDGES = {"copy_edge_s": 4.0, "copies_edge_s": 16.0, "graph_copy_edge_s": 32.0, "graph_copies_edge_s": 64.0}


def away_and_back(mode: str = "eager", **edges: float) -> Plan:
    """a -> copy to the host -> copy back -> b, all on cuda:0; 1 s each, and 0.25 s a wait between lanes of tasks."""
    work = Workload()
    a = work.task(torch.neg, work.input("x", TensorSpec((5, 5)), device="cuda:0"), name="a", device="cuda:0")
    away = work.copy(a, to="cpu", pinned=True, name="away")
    work.task(torch.neg, work.copy(away, to="cuda:0", pinned=True, name="back"), name="b", device="cuda:0")
    waits = {"same_device_s": 0.25, "graph_wait_s": 0.25, "graph_fork_s": 0.125, "graph_launch_s": 0.0}
    here = platform(dispatch=replace(FREE, **waits, **edges))
    plan = planned(work, here, AWAY_AND_BACK, costs=Costs({(work["a"].signature, "GPU"): TaskCost(1.0)}))
    return replace(plan, mode=mode)


@pytest.mark.parametrize(("mode", "edges_s"), [("eager", 4 + 16 + 4), ("graph", 32 + 64 + 32)])
def test_edges_to_copies_with_the_host_have_latencies_of_their_own(mode: str, edges_s: float):
    assert predict(away_and_back(mode, **EDGES)).makespan_s == 4 + edges_s
    assert predict(away_and_back(mode, **EDGES), model=Model(waits=False)).makespan_s == 4


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_an_edge_to_a_copy_that_is_unknown_is_one_between_tasks(mode: str):
    others = {name: 99.0 for name in EDGES if name.startswith("graph") is (mode == "eager")}
    assert predict(away_and_back(mode, **others)).makespan_s == 4 + 3 * 0.25
    known = {"copy_edge_s": 4.0, "graph_copy_edge_s": 4.0}
    assert predict(away_and_back(mode, **known)).makespan_s == 4 + 4 + 0.25 + 4


def test_edges_between_tasks_and_to_copies_between_gpus_are_no_edges_to_the_host():
    """a on cuda:0 -> copy -> b on cuda:1, and c on another lane of cuda:0."""
    costs = replace(FREE, same_device_s=0.25, other_device_s=4.0, copy_edge_s=99.0, copies_edge_s=99.0)
    work = workload({"a": 1.0, "b": 1.0, "c": 1.0}, [("a", "b", 100), ("a", "c", 0)])
    plan = planned(work, platform(dispatch=costs), {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": "cuda:0/s1"})
    assert ends(plan) == {"a": 1, "a>cuda:1": 2.25, "b": 7.25, "c": 2.25}


@pytest.mark.parametrize(("mode", "known"), [("eager", "peer_edge_s"), ("graph", "graph_peer_edge_s")])
def test_edges_to_copies_to_another_gpu_have_a_latency_of_their_own(mode: str, known: str):
    """a on cuda:0 -> copy -> b on cuda:1, which waits for another GPU."""
    waits = {"same_device_s": 0.25, "graph_fork_s": 0.25, "graph_wait_s": 0.25, "other_device_s": 4.0}
    unknown = replace(FREE, graph_launch_s=0.0, **waits)
    work = workload({"a": 1.0, "b": 1.0}, [("a", "b", 100)])
    for costs, edge_s in ((unknown, 0.25), (replace(unknown, **{known: 2.0}), 2.0)):
        plan = planned(work, platform(dispatch=costs), {"a": "cuda:0/s0", "b": "cuda:1/s0"})
        assert predict(replace(plan, mode=mode)).makespan_s == pytest.approx(1 + edge_s + 1 + 4 + 1)
    assert predict(replace(plan, mode=mode), model=Model(waits=False)).makespan_s == pytest.approx(3)


def test_durations_by_kind_of_device():
    """One task, 8 s on the CPU, 1 s on a GPU."""
    work = workload({"a": {"cpu": 8.0, "cuda": 1.0}})
    assert predict(planned(work, platform(), {"a": "cpu/w0"})).makespan_s == 8
    assert predict(planned(work, platform(), {"a": "cuda:1/s0"})).makespan_s == 1


def test_nothing_to_do():
    timeline = predict(planned(workload({}), platform(), {}))
    assert (len(timeline), timeline.makespan_s) == (0, 0)


def test_unknown_mode_and_steps():
    plan = planned(chain(1), platform(), {"t0": "cuda:0/s0"})
    with pytest.raises(ScheduleError, match="no mode 'grpah' to predict: there is eager"):
        predict(plan, mode="grpah")
    with pytest.raises(ScheduleError, match="steps is 0"):
        predict(plan, steps=0)


def test_a_plan_that_cannot_end_is_refused():
    """a on cuda:0, b on cuda:1; a waits for b and b for a."""
    plan = planned(workload({"a": 1.0, "b": 1.0}), platform(), {"a": "cuda:0/s0", "b": "cuda:1/s0"})
    plan.waits[0], plan.waits[1] = (1,), (0,)  # type: ignore[index]
    with pytest.raises(DeadlockError, match=r"a -> b -> a|b -> a -> b"):
        predict(plan)


KINDS = {"a": torch.neg, "b": torch.abs, "c": torch.exp}


@pytest.mark.parametrize(
    ("now_s", "model", "end_s"),
    [(6.0, Model(), 12.0), (1.0, Model(), 2.0), (0.0, Model(), 4.0), (6.0, Model(pace=False), 4.0)],
)
def test_tasks_on_cpu_lanes_take_as_much_longer_as_their_yardstick(now_s: float, model: Model, end_s: float) -> None:
    """a: a worker; b: a GPU; c: a worker whose cost was measured without a yardstick."""
    work = Workload()
    for name in "abc":
        work.task(KINDS[name], work.input(f"{name}/x", TensorSpec((1,))), name=name, outputs=[TensorSpec((1,))])
    measured = {"a": TaskCost(4.0, product_s=2.0), "b": TaskCost(4.0, product_s=2.0), "c": TaskCost(4.0)}
    models = {"a": "CPU", "b": "GPU", "c": "CPU"}
    costs = Costs({(work[name].signature, models[name]): cost for name, cost in measured.items()})
    where = platform(gpus=1, workers=2, dispatch=replace(FREE, product_s=now_s))
    plan = planned(work, where, {"a": "worker:0/w0", "b": "cuda:0/s0", "c": "worker:1/w0"}, costs=costs)
    seconds = {s.action: s.end_s - s.start_s for s in predict(plan, model=model)}
    assert {name: seconds[name] for name in "abc"} == {"a": end_s, "b": 4.0, "c": 4.0}


@pytest.mark.parametrize(
    ("sweep_s", "model", "end_s"),
    [(3.0, Model(), 5.0), (9.0, Model(), 9.0), (0.0, Model(), 5.0), (9.0, Model(pace=False), 4.0)],
)
def test_a_share_of_such_a_task_goes_with_memory(sweep_s: float, model: Model, end_s: float) -> None:
    """a: of 4 s a quarter went with products of 2 s, which take 4 now, and half with sweeps of 3 s."""
    work = Workload()
    work.task(KINDS["a"], work.input("x", TensorSpec((1,))), name="a", outputs=[TensorSpec((1,))])
    cost = TaskCost(4.0, product_s=2.0, sweep_s=3.0, shares=(0.25, 0.5), rests=((1e-3, 4.0), (1.0, 4.0)))
    costs = Costs({(work["a"].signature, "CPU"): cost})
    where = platform(gpus=0, workers=1, dispatch=replace(FREE, product_s=4.0, sweep_s=sweep_s))
    plan = planned(work, where, {"a": "worker:0/w0"}, costs=costs)
    (span,) = [s for s in predict(plan, model=model) if s.action == "a"]
    assert span.end_s - span.start_s == pytest.approx(end_s)

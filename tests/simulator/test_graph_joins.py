"""Tasks in graphs start later for copies that they wait for beside their lane's last task."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import graphsched as gs
from graphsched.costs import Costs, TaskCost
from graphsched.plan import Plan
from graphsched.simulator import Model, predict
from graphsched.workload import TensorSpec, Value, Workload
from tests.builders import FREE, planned, platform

HOST_S, PEER_S = 0.5, 0.25
GRAPH = replace(FREE, graph_launch_s=1.0, launch_s=1.0, graph_event_s=0.25)
WORK_S = 64.0


def plan_of(reads: str, *, lead: bool = True, gpus: int = 3, lead_s: float = WORK_S, size: int = 2) -> Plan:
    """A task on cuda:0 that reads for each letter what a copy brought: h from the host, 1, 2 from another GPU; and the
    result of a long task on its lane if there is a `lead`."""
    work, x = Workload(), TensorSpec((2, size))
    homes = {"h": "cpu", "1": "cuda:1", "2": "cuda:2"}
    values: list[Value] = []
    for k, letter in enumerate(reads):
        values.append(work.copy(work.input(f"x{k}", x, device=homes[letter]), to="cuda:0", pinned=True, name=f"c{k}"))
    if lead:
        values.append(work.task(torch.neg, work.input("x", x, device="cuda:0"), name="lead", device="cuda:0"))
    work.task(lambda *those: those[0], *values, name="t", device="cuda:0", outputs=[x])
    lanes = dict.fromkeys((["lead"] if lead else []) + ["t"], "cuda:0/s0")
    costs = Costs({(task.signature, "GPU"): TaskCost(WORK_S) for task in work.tasks})
    if lead:
        costs = costs.merged(Costs({(work["lead"].signature, "GPU"): TaskCost(lead_s)}))
    here = platform(gpus=gpus, dispatch=replace(GRAPH, graph_copy_join_s=HOST_S, graph_peer_join_s=PEER_S))
    return replace(planned(work, here, lanes, costs=costs), mode="graph")


def start_of_t(plan: Plan, model: Model) -> float:
    found = predict(plan, model=model)
    return float(found.start_s[plan.names.index("t")])


@pytest.mark.parametrize("timing", [True, False])
@pytest.mark.parametrize(
    ("reads", "lead", "more_s"),
    [
        ("h", True, HOST_S),
        ("1", True, PEER_S),
        ("h1", True, HOST_S + PEER_S),
        ("12", True, 2 * PEER_S),
        ("hh", True, HOST_S),  # one lane: the last implies the first
        ("h", False, 0.0),
        ("h1", False, PEER_S),
        ("12", False, PEER_S),
        ("", True, 0.0),
    ],
)
def test_each_copy_but_the_only_thing_waited_for(reads: str, lead: bool, more_s: float, timing: bool) -> None:
    """c0, c1, [lead] ─▶ t: all copies are over when the lead is."""
    plan, without = plan_of(reads, lead=lead), Model(joins=False, timing=timing)
    assert start_of_t(plan, Model(timing=timing)) - start_of_t(plan, without) == pytest.approx(more_s)


@pytest.mark.parametrize(("reads", "more_s"), [("h", 0.0), ("1", 0.0), ("12", 2 * PEER_S)])
def test_a_copy_that_comes_last_is_seen_as_ever(reads: str, more_s: float) -> None:
    """c0, [c1], lead ─▶ t: the lead is over long before; of two copies that end together one joins the other."""
    plan = plan_of(reads, lead_s=0.0, size=2**30)
    assert start_of_t(plan, Model()) - start_of_t(plan, Model(joins=False)) == pytest.approx(more_s)


def test_nothing_is_later_in_streams() -> None:
    """c0, lead ─▶ t"""
    plan = plan_of("h")
    assert predict(plan, mode="eager").makespan_s == predict(plan, mode="eager", model=Model(joins=False)).makespan_s


def test_joins_are_waits() -> None:
    """c0, lead ─▶ t"""
    plan = plan_of("h")
    assert start_of_t(plan, Model(waits=False)) == start_of_t(plan, Model(waits=False, joins=False))


def test_every_step_has_its_joins() -> None:
    """Two graphs one after the other, c0, lead ─▶ t each."""
    plan = plan_of("h")
    with_s, without_s = (predict(plan, steps=2, model=Model(joins=on)).makespan_s for on in (True, False))
    assert with_s - without_s == pytest.approx(2 * HOST_S)


def test_a_measured_run_that_is_as_predicted_has_no_late_starts() -> None:
    """c0, lead ─▶ t: what a join costs is no error of the waits."""
    plan = plan_of("h")
    predicted = predict(plan)
    found = gs.compare(predicted, replace(predicted, source="measured")).attribution
    assert found is not None
    assert found.figures()["waits"] == pytest.approx(0.0, abs=1e-12)

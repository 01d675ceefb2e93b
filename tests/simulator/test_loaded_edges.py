"""Edges of CUDA graphs beside copies from the host: closed forms on small plans."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from graphsched.plan import Plan
from graphsched.simulator import Model, predict
from graphsched.simulator.loaded_edges import edges_of, with_loads
from graphsched.simulator.predict import tabulated
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, planned, platform

LONGER_S, JOIN_S = 0.25, 0.125
VALUE = TensorSpec((4,))
LOADED = replace(FREE, graph_launch_s=0.0, graph_beside_in_s=LONGER_S, graph_peer_join_s=JOIN_S)
LARGE = 2**34  # numbers that a copy brings for longer than all tasks take


def crossing(copied: int, into: str = "cuda:0", seconds: float = 1.0) -> Plan:
    """a (cuda:0) ──▶ copy ──▶ b (cuda:1); h ──▶ copy of so many numbers into a GPU ──▶ c, beside it."""
    work = Workload()
    a = work.task(torch.neg, work.input("x", VALUE, device="cuda:0"), name="a", duration_s=seconds)
    work.task(torch.neg, a, name="b", duration_s=seconds)
    if copied:
        h = work.input("h", TensorSpec((copied,)), device="cpu")
        work.task(torch.neg, h, name="c", duration_s=0.0)
    placed = {"a": "cuda:0/s0", "b": "cuda:1/s0"} | ({"c": f"{into}/s1"} if copied else {})
    return replace(planned(work, platform(dispatch=LOADED), placed), mode="graph")


def leaving(copied: int) -> Plan:
    """a (cuda:0) ──▶ copy ──▶ b (cuda:1), and out: cuda:0's result to the host, of so many numbers, before all."""
    work = Workload()
    work.copy(work.input("h", TensorSpec((copied,)), device="cuda:0"), to="cpu", pinned=True, name="out")
    a = work.task(torch.neg, work.input("x", VALUE, device="cuda:0"), name="a", duration_s=1.0)
    work.task(torch.neg, a, name="b", duration_s=1.0)
    return replace(planned(work, platform(dispatch=LOADED), {"a": "cuda:0/s0", "b": "cuda:1/s0"}), mode="graph")


def joining(into: str, copied: int = LARGE) -> Plan:
    """a (cuda:1) ──▶ copy ──▶ b; lead ──▶ b (cuda:0); h ──▶ copy into a GPU ──▶ c, beside it.

    The copy to b is over long before the lead.
    """
    work = Workload()
    a = work.task(torch.neg, work.input("x", VALUE, device="cuda:1"), name="a", duration_s=1.0)
    lead = work.task(torch.neg, work.input("y", VALUE, device="cuda:0"), name="lead", duration_s=16.0)
    work.task(torch.add, lead, a, name="b", duration_s=1.0)
    work.task(torch.neg, work.input("h", TensorSpec((copied,)), device="cpu"), name="c", duration_s=0.0)
    placed = {"a": "cuda:1/s0", "lead": "cuda:0/s0", "b": "cuda:0/s0", "c": f"{into}/s1"}
    return replace(planned(work, platform(dispatch=LOADED), placed), mode="graph")


def starts_s(plan: Plan, model: Model = Model()) -> dict[str, float]:
    line = predict(plan, model=model)
    return {name: float(line.start_s[i]) for i, name in enumerate(plan.names)}


@pytest.mark.parametrize("into", ["cuda:0", "cuda:1"])
def test_an_edge_waits_longer_beside_a_copy_into_the_gpu_that_waits(into: str) -> None:
    """The copy to cuda:1 waits on cuda:0 for a, and b on cuda:1 for the copy: one of the two is longer."""
    alone, beside = starts_s(crossing(0)), starts_s(crossing(LARGE, into))
    assert beside["b"] - alone["b"] == pytest.approx(LONGER_S)
    assert beside["a>cuda:1"] - alone["a>cuda:1"] == pytest.approx(LONGER_S if into == "cuda:0" else 0.0)
    off = starts_s(crossing(LARGE, into), Model(beside=False))
    assert off["b"] == pytest.approx(alone["b"])
    assert starts_s(crossing(LARGE, into), Model(waits=False))["b"] <= off["b"]


def test_platforms_measured_before_have_the_mean_of_ways_and_ends() -> None:
    plan = crossing(LARGE)
    before = replace(LOADED, graph_beside_in_s=0.0, graph_beside_s=LONGER_S / 4)
    older = replace(plan, platform=replace(plan.platform, dispatch=before))
    assert starts_s(older)["b"] == pytest.approx(starts_s(plan)["b"])
    assert starts_s(older, Model(beside=False))["b"] == pytest.approx(starts_s(crossing(0))["b"])


def test_a_copy_to_the_host_costs_no_edge_anything() -> None:
    """The copy out of cuda:0 is under way when a ends."""
    plan = leaving(LARGE)
    with_term, without = (starts_s(plan, Model(beside=on)) for on in (True, False))
    assert with_term == without


@pytest.mark.parametrize(("into", "longer_s"), [("cuda:0", LONGER_S), ("cuda:1", 0.0)])
@pytest.mark.parametrize("timing", [True, False])
def test_a_join_with_a_copy_that_was_over_waits_longer(into: str, longer_s: float, timing: bool) -> None:
    """b starts behind the lead by what a join takes, and longer while a copy comes into its GPU."""
    line = predict(joining(into), model=Model(timing=timing))
    ends = {name: float(line.end_s[i]) for i, name in enumerate(line.plan.names)}
    start_s = float(line.start_s[line.plan.names.index("b")])
    assert start_s - ends["lead"] == pytest.approx(JOIN_S + longer_s)


def test_a_copy_that_is_over_costs_nothing() -> None:
    """A small copy ends before a does."""
    assert starts_s(crossing(1))["b"] == pytest.approx(starts_s(crossing(0))["b"])
    line = predict(joining("cuda:0", copied=1))
    start_s, lead_s = line.start_s[line.plan.names.index("b")], line.end_s[line.plan.names.index("lead")]
    assert start_s - lead_s == pytest.approx(JOIN_S)


def test_the_edge_behind_the_copy_itself_is_as_ever() -> None:
    """The copy from the host ends, and nothing else is under way then: what waits for it waits no longer."""
    with_term, without = (starts_s(crossing(LARGE), Model(beside=on))["c"] for on in (True, False))
    assert with_term == pytest.approx(without)


def test_streams_and_plans_without_such_copies_have_none() -> None:
    eager = replace(crossing(LARGE), mode="eager")
    for plan in (eager, crossing(0), leaving(LARGE)):
        columns, _ = tabulated(plan, 1, Model())
        assert edges_of(columns) == []
        assert with_loads(columns) is columns
    columns, _ = tabulated(crossing(LARGE), 1, Model())
    assert len(edges_of(columns)) == 3
    columns, _ = tabulated(joining("cuda:0"), 1, Model())
    assert len(edges_of(columns)) == 4  # a ─▶ copy, copy ─▶ b, lead ─▶ b, the copy from the host ─▶ c

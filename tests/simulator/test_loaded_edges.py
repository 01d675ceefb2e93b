"""Edges of CUDA graphs beside copies from the host: closed forms on small plans."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from graphsched.plan import Plan
from graphsched.simulator import Model, predict
from graphsched.simulator.host_calls import without_events
from graphsched.simulator.loaded_edges import edges_of, joins_of, with_loads
from graphsched.simulator.predict import tabulated
from graphsched.simulator.substitution import Substitution
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, planned, platform

LONGER_S, JOIN_S = 0.25, 0.125
VALUE = TensorSpec((4,))
LOADED = replace(
    FREE, graph_launch_s=0.0, graph_beside_in_s=LONGER_S, graph_peer_join_s=JOIN_S, graph_copy_join_s=JOIN_S
)
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


def joining(into: str, copied: int = LARGE, lane: str = "cuda:0/s0") -> Plan:
    """a (cuda:1) ──▶ copy ──▶ b; lead ──▶ b (cuda:0); h ──▶ copy into a GPU ──▶ c, beside it.

    The copy to b is over long before the lead, which may be on another lane.
    """
    work = Workload()
    a = work.task(torch.neg, work.input("x", VALUE, device="cuda:1"), name="a", duration_s=1.0)
    lead = work.task(torch.neg, work.input("y", VALUE, device="cuda:0"), name="lead", duration_s=16.0)
    work.task(torch.add, lead, a, name="b", duration_s=1.0)
    work.task(torch.neg, work.input("h", TensorSpec((copied,)), device="cpu"), name="c", duration_s=0.0)
    placed = {"a": "cuda:1/s0", "lead": lane, "b": "cuda:0/s0", "c": f"{into}/s2"}
    return replace(planned(work, platform(dispatch=LOADED), placed), mode="graph")


def behind_both(copied: int) -> Plan:
    """a (cuda:1) ──▶ copy ──▶ b; lead (2 s) ──▶ b; side (300 s, another lane) ──▶ b; h ──▶ copy into cuda:0 ──▶ c."""
    work = Workload()
    a = work.task(torch.neg, work.input("x", VALUE, device="cuda:1"), name="a", duration_s=1.0)
    lead = work.task(torch.neg, work.input("y", VALUE, device="cuda:0"), name="lead", duration_s=2.0)
    side = work.task(torch.neg, work.input("z", VALUE, device="cuda:0"), name="side", duration_s=300.0)
    work.task(lambda *those: those[0], lead, side, a, name="b", duration_s=1.0, outputs=[VALUE])
    work.task(torch.neg, work.input("h", TensorSpec((copied,)), device="cpu"), name="c", duration_s=0.0)
    placed = {"a": "cuda:1/s0", "lead": "cuda:0/s0", "side": "cuda:0/s1", "b": "cuda:0/s0", "c": "cuda:0/s2"}
    return replace(planned(work, platform(dispatch=LOADED), placed), mode="graph")


def cut(copied: int) -> Plan:
    """t ──▶ host ──▶ a (cuda:1) ──▶ copy ──▶ b; host ──▶ side ──▶ b (cuda:0, first on its lane in the second graph).

    In the first graph, on b's lane, t is over while h comes into cuda:0; so is that graph when the host's task begins.
    """
    work = Workload()
    t = work.task(torch.neg, work.input("x", VALUE, device="cuda:0"), name="t", duration_s=1.0)
    work.task(torch.neg, work.input("h", TensorSpec((copied,)), device="cpu"), name="c", duration_s=0.0)
    host = work.task(torch.neg, t, name="host", duration_s=2.0)
    a = work.task(torch.neg, host, name="a", duration_s=1.0)
    side = work.task(torch.neg, host, name="side", duration_s=20.0)
    work.task(torch.add, side, a, name="b", duration_s=1.0)
    placed = {"t": "cuda:0/s0", "c": "cuda:0/s1", "host": "cpu/w0", "a": "cuda:1/s0", "side": "cuda:0/s1"}
    return replace(planned(work, platform(dispatch=LOADED), placed | {"b": "cuda:0/s0"}), mode="graph")


def through_nothing(copied: int) -> Plan:
    """a (cuda:0) ──▶ copy ──▶ e, which launches nothing ──▶ b (cuda:1); h ──▶ copy into cuda:1 ──▶ c."""
    work = Workload()
    a = work.task(torch.neg, work.input("x", VALUE, device="cuda:0"), name="a", duration_s=1.0)
    e = work.task(torch.neg, a, name="e", duration_s=0.0)
    work.task(torch.neg, e, name="b", duration_s=1.0)
    work.task(torch.neg, work.input("h", TensorSpec((copied,)), device="cpu"), name="c", duration_s=0.0)
    placed = {"a": "cuda:0/s0", "e": "cuda:1/s0", "b": "cuda:1/s0", "c": "cuda:1/s1"}
    return replace(planned(work, platform(dispatch=LOADED), placed), mode="graph")


def joining_the_copy(lead_s: float, copied: int = 250) -> Plan:
    """lead ──▶ b (cuda:0) ◀── copy ◀── h: the only copy from the host is the one that b joins."""
    work = Workload()
    lead = work.task(torch.neg, work.input("y", VALUE, device="cuda:0"), name="lead", duration_s=lead_s)
    given = work.input("h", TensorSpec((copied,)), device="cpu")
    work.task(lambda *those: those[0], lead, given, name="b", duration_s=1.0, outputs=[VALUE])
    placed = {"lead": "cuda:0/s0", "b": "cuda:0/s0"}
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


def gap_s(plan: Plan, before: str, model: Model = Model()) -> float:
    """From the end of a task to the start of b."""
    line = predict(plan, model=model)
    return float(line.start_s[plan.names.index("b")] - line.end_s[plan.names.index(before)])


@pytest.mark.parametrize("timing", [True, False])
def test_a_join_may_be_the_first_on_its_lane(timing: bool) -> None:
    """What it waits for on another lane is over while a copy comes in."""
    found = [gap_s(joining(into, lane="cuda:0/s1"), "lead", Model(timing=timing)) for into in ("cuda:0", "cuda:1")]
    assert found == pytest.approx([JOIN_S + LONGER_S, JOIN_S], abs=1e-6)


@pytest.mark.parametrize(("copied", "longer_s"), [(250, 0.0), (LARGE, LONGER_S)])
def test_a_join_is_paid_when_all_but_the_last_copy_is_over(copied: int, longer_s: float) -> None:
    """Of two copies that are under way when the lead ends one is over when the task beside it ends."""
    assert gap_s(behind_both(copied), "side") == pytest.approx(JOIN_S + longer_s, abs=1e-6)


def test_what_ended_in_the_graph_before_does_not_count() -> None:
    """The copy was under way when the last task on b's lane ended, in another graph."""
    assert gap_s(cut(1000), "side") == pytest.approx(JOIN_S, abs=1e-6)
    columns, _ = tabulated(cut(1000), 1, Model())
    assert with_loads(columns).join_loads_s == {}


@pytest.mark.parametrize("timing", [True, False])
def test_edges_go_through_tasks_that_launch_nothing(timing: bool) -> None:
    """b waits for the copy without timing events, and e with them."""
    with_term, without = (
        starts_s(through_nothing(LARGE), Model(beside=on, timing=timing))["b"] for on in (True, False)
    )
    assert with_term - without == pytest.approx(LONGER_S)


def test_a_copy_is_not_beside_its_own_join() -> None:
    """Whether it ends right before or after the task before b, b starts at nearly the same time."""
    line = predict(joining_the_copy(1.0))
    (over_s,) = (float(line.end_s[i]) for i in line.plan.copies)
    starts = [starts_s(joining_the_copy(over_s + later_s))["b"] for later_s in (-1e-6, 1e-6)]
    assert starts == pytest.approx([over_s + JOIN_S] * 2, abs=1e-5)


@pytest.mark.parametrize("sooner_s", [0.0, LONGER_S / 2])
def test_a_measured_start_is_late_by_what_it_is_behind_the_load(sooner_s: float) -> None:
    """A run with timing events in which b starts as predicted, or sooner: that is told of it, and no more."""
    plan = joining("cuda:0")
    timed = replace(LOADED, graph_event_s=0.03125)
    line = predict(replace(plan, platform=replace(plan.platform, dispatch=timed)))
    b, start_s, end_s = line.plan.names.index("b"), line.start_s.copy(), line.end_s.copy()
    start_s[b] -= sooner_s
    end_s[b] -= sooner_s
    found = Substitution(replace(line, source="measured", start_s=start_s, end_s=end_s)).late_s()
    assert found[b] == pytest.approx(-sooner_s)
    assert not any(abs(late_s) > 1e-9 for i, late_s in found.items() if i != b)


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
        assert with_loads(columns) is columns
    columns, _ = tabulated(crossing(LARGE), 1, Model())
    nodes = without_events(columns)
    assert (len(edges_of(columns, nodes)), len(joins_of(nodes))) == (3, 0)
    columns, _ = tabulated(joining("cuda:0"), 1, Model())
    nodes = without_events(columns)
    assert (len(edges_of(columns, nodes)), len(joins_of(nodes))) == (3, 1)

"""Edges of CUDA graphs beside copies with the host: closed forms on small plans."""

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

LONGER_S = 0.25
VALUE = TensorSpec((4,))
LOADED = replace(FREE, graph_launch_s=0.0, graph_beside_s=LONGER_S)


def crossing(copied: int, seconds: float = 1.0) -> Plan:
    """a (cuda:0) ──▶ copy ──▶ b (cuda:1); h ──▶ copy of so many numbers into cuda:0 ──▶ c, beside it."""
    work = Workload()
    a = work.task(torch.neg, work.input("x", VALUE, device="cuda:0"), name="a", duration_s=seconds)
    work.task(torch.neg, a, name="b", duration_s=seconds)
    if copied:
        h = work.input("h", TensorSpec((copied,)), device="cpu")
        work.task(torch.neg, h, name="c", duration_s=0.0)
    placed = {"a": "cuda:0/s0", "b": "cuda:1/s0"} | ({"c": "cuda:0/s1"} if copied else {})
    return replace(planned(work, platform(dispatch=LOADED), placed), mode="graph")


def starts_s(plan: Plan, model: Model = Model()) -> dict[str, float]:
    line = predict(plan, model=model)
    return {name: float(line.start_s[i]) for i, name in enumerate(plan.names)}


def test_edges_wait_longer_beside_a_copy_from_the_host() -> None:
    """The copy into cuda:0 is under way when a ends and when its copy to cuda:1 does: both edges are longer."""
    alone, beside = starts_s(crossing(0)), starts_s(crossing(2**34))
    assert beside["b"] - alone["b"] == pytest.approx(2 * LONGER_S)
    off = starts_s(crossing(2**34), Model(beside=False))
    assert off["b"] == pytest.approx(alone["b"])
    assert starts_s(crossing(2**34), Model(waits=False))["b"] <= off["b"]


def test_a_copy_that_is_over_costs_nothing() -> None:
    """A small copy ends before a does."""
    assert starts_s(crossing(1))["b"] == pytest.approx(starts_s(crossing(0))["b"])


def test_the_edge_behind_the_copy_itself_is_as_ever() -> None:
    """The copy from the host ends, and nothing else is under way then: what waits for it waits no longer."""
    with_term, without = (starts_s(crossing(2**34), Model(beside=on))["c"] for on in (True, False))
    assert with_term == pytest.approx(without)


def test_streams_and_plans_without_such_copies_have_none() -> None:
    eager = replace(crossing(2**34), mode="eager")
    for plan in (eager, crossing(0)):
        columns, _ = tabulated(plan, 1, Model())
        assert edges_of(columns) == []
        assert with_loads(columns) is columns
    columns, _ = tabulated(crossing(2**34), 1, Model())
    assert len(edges_of(columns)) == 3

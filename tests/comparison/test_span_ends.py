"""Where spans of a prediction end, next to those of a measurement."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from graphsched.comparison import compare
from graphsched.comparison.span_ends import span_ends_s
from graphsched.costs import Costs, Kernel, Multiprocessors, TaskCost
from graphsched.plan import Placement, Plan, build_plan
from graphsched.platform import Device, Dispatch, Link, Platform
from graphsched.simulator import Model, predict
from graphsched.timeline import Timeline
from graphsched.workload import TensorSpec, Workload

STAMP_S, EVENT_S = 1e-6, 3e-6


def plan_of(**dispatch: Any) -> Plan:
    """In ──▶ a ──▶ b on one lane, the copy on its own; in graph mode, with kernels known to leave room for stamps."""
    work = Workload()
    given = work.copy(work.input("x", TensorSpec((4,)), device="cpu"), to="cuda:0", name="in", pinned=True)
    work.task(torch.neg, work.task(torch.neg, given, name="a"), name="b")
    costs = Dispatch(graph_stamp_s=STAMP_S, graph_event_s=EVENT_S, graph_starts=((1, 1e-5),))
    links = tuple(Link(*ends, "pinned", 1e-5, 1e10) for ends in (("cpu", "cuda:0"), ("cuda:0", "cpu")))
    devices = (Device("cpu", "cpu"), Device("cuda:0", "cuda", "GPU"))
    here = Platform("here", devices, links, dispatch=replace(costs, **dispatch))
    known = TaskCost(1e-4, kernels=(Kernel(1, 32, 32, 0),), processors=Multiprocessors(4, 65536, 2048, 233472, 32))
    table = Costs({(work[name].signature, "GPU"): known for name in "ab"})
    order = Placement(["in", "a", "b"], dict.fromkeys("ab", "cuda:0/s0"))
    return replace(build_plan(work, here, table, order, scheduler="by hand"), mode="graph")


def taken_off(line: Timeline) -> list[float]:
    """Microseconds by which spans end sooner, in the order copy, a, b."""
    sooner = line.end_s - span_ends_s(line)
    return [round(1e6 * float(sooner[line.plan.names.index(name)]), 3) for name in ("in", "a", "b")]


def test_a_stamp_behind_a_task_and_an_event_behind_a_copy_are_not_in_their_spans() -> None:
    assert taken_off(predict(plan_of())) == [3.0, 1.0, 1.0]


def test_ends_are_compared_without_what_stands_behind_them() -> None:
    """Measured spans end a stamp or an event before their lanes are free, as predicted: no error is left."""
    line = predict(plan_of())
    sooner_s = [1e-6 * {"in": 3.0, "a": 1.0, "b": 1.0}.get(name, 0.0) for name in line.plan.names]
    measured = replace(line, source="measured", end_s=line.end_s - sooner_s)
    assert compare(line, measured).end_errors == pytest.approx(0.0, abs=1e-12)
    assert np.abs(compare(line, replace(line, source="measured")).end_errors).max() > 0.003


@pytest.mark.parametrize("case", ["measured", "eager", "no stamps", "no events"])
def test_other_spans_end_where_they_end(case: str) -> None:
    plan = plan_of(**({"graph_stamp_s": 0.0} if case == "no stamps" else {}))
    model = Model(timing=False) if case == "no events" else Model()
    line = predict(replace(plan, mode="eager") if case == "eager" else plan, model=model)
    line = replace(line, source="measured") if case == "measured" else line
    assert span_ends_s(line) is line.end_s

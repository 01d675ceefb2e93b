"""Timing events inside CUDA graphs: those of several lanes of a device pass one after another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.costs import Costs, TaskCost
from graphsched.plan import Plan
from graphsched.simulator import Model, predict
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, layered, planned, platform

ALONE = Model(sharing=False)
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


def test_the_second_of_two_that_end_together_waits() -> None:
    """Both work from 4 to 12 s; the first passes at once, the second two events later."""
    plan = rows(3.0, [8.0], [8.0])
    assert ends(plan) == {"0.0": 12 + 2, "1.0": 12 + 2 * 3 + 2, "": 20}
    assert predict(plan, model=ALONE).makespan_s == 12


@pytest.mark.parametrize("length", [1, 3, 10])
def test_short_tasks_run_at_the_rate_of_events(length: int) -> None:
    """Two lanes of tasks of a second each; 6 s from one pair of events to the next."""
    assert ends(rows(3.0, [1.0] * length, [1.0] * length))[""] == LAUNCH_S + 1 + 6 * (2 * length - 1) + 2


def test_long_tasks_come_apart_once() -> None:
    """1 s from one pair of events to the next: after the first tasks the lanes do not meet again."""
    assert ends(rows(0.5, [8.0] * 5, [8.0] * 5))[""] == LAUNCH_S + 5 * (8 + 2) + 1


def test_kernels_run_beside_events_of_other_lanes() -> None:
    """A task of 40 s beside a row of short ones."""
    found = ends(rows(3.0, [40.0], [1.0, 1.0, 1.0]))
    assert found["0.0"] == LAUNCH_S + 40 + 2
    assert found["1.2"] == LAUNCH_S + 6 + 6 + 1 + 2


def test_who_is_over_first_passes_first() -> None:
    """Issued first, over last."""
    assert ends(rows(3.0, [2.0], [1.0])) == {"1.0": 7, "0.0": 5 + 6 + 2, "": 13}


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


def test_tasks_that_share_the_gpu_leave_it_before_their_events() -> None:
    """Two of 8 s that slow each other to half, then one more on the first lane, alone.

    ::

        lane 0   4 |--- 16 s ---| 20 == 22 |-- 8 s --| 30   32 == 34
        lane 1   4 |--- 16 s ---| 20       26 == 28
    """
    line = predict(rows(3.0, [8.0, 8.0], [8.0]))
    assert line.end_s.tolist() == [22.0, 28.0, 34.0]  # events pass at 20, 26 and 32 s


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

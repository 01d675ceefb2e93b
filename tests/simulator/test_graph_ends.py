"""Graphs that begin or end with copies between GPUs take longer; timed ones begin and end with events."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from graphsched.costs import Costs, TaskCost
from graphsched.plan import Plan
from graphsched.simulator import Model, predict
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, planned, platform

FIRST_S, LAST_S = 4.0, 2.0
GRAPH = replace(FREE, graph_launch_s=1.0, launch_s=1.0, sync_s=0.5, graph_event_s=0.25)


def plan_of(shape: str, **ends: float) -> Plan:
    """`shape`, c for a copy between GPUs and t for a task: each letter waits for the one before, from GPU 0 on."""
    work, at, lanes = Workload(), 0, {}
    value = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    for k, letter in enumerate(shape):
        if letter == "c":
            at = 1 - at
            value = work.copy(value, to=f"cuda:{at}", name=f"c{k}")
        else:
            value = work.task(torch.neg, value, name=f"t{k}", device=f"cuda:{at}")
            lanes[f"t{k}"] = f"cuda:{at}/s0"
    costs = Costs({(task.signature, "GPU"): TaskCost(3.0) for task in work.tasks})
    here = platform(gpus=2, dispatch=replace(GRAPH, **ends))
    return replace(planned(work, here, lanes, costs=costs), mode="graph")


@pytest.mark.parametrize(
    ("shape", "more_s"), [("ct", FIRST_S), ("tc", LAST_S), ("c", FIRST_S + LAST_S), ("tct", 0.0), ("t", 0.0)]
)
def test_both_ends(shape: str, more_s: float) -> None:
    """c ─▶ t, t ─▶ c, c, t ─▶ c ─▶ t, t"""
    plain = predict(plan_of(shape))
    more = predict(plan_of(shape, graph_peer_first_s=FIRST_S, graph_peer_last_s=LAST_S))
    assert more.makespan_s == plain.makespan_s + more_s
    assert more.timed_makespan_s == plain.timed_makespan_s
    assert more.start_s.tolist() == plain.start_s.tolist()


def test_in_streams_and_without_waits_nothing_is_later() -> None:
    given = plan_of("c", graph_peer_first_s=FIRST_S, graph_peer_last_s=LAST_S)
    assert predict(given, mode="eager").makespan_s == predict(plan_of("c"), mode="eager").makespan_s
    off = Model(waits=False)
    assert predict(given, model=off).makespan_s == predict(plan_of("c"), model=off).makespan_s


def test_every_step_begins_with_its_copy() -> None:
    """Two graphs, one after the other."""
    plain, more = (predict(plan_of("ct", graph_peer_first_s=late_s), steps=2).makespan_s for late_s in (0.0, FIRST_S))
    assert plain < more <= plain + 2 * FIRST_S

"""Graphs over several GPUs: they start later, and the thread launches their nodes one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from graphsched.costs import Costs, TaskCost
from graphsched.plan import Plan
from graphsched.simulator import Model, predict
from graphsched.timeline import Timeline
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, planned, platform

GRAPH = replace(FREE, graph_launch_s=3.0, launch_s=1.0, sync_s=0.5)
FIRST_S = 4.0  # from the launch of a graph on one GPU to its first node
ACROSS = {"graph_across_s": 10.0, "graph_across_node_s": 2.0}


def row(seconds: float, number: int, *, gpus: int = 2, launches: int = 1, **dispatch: Any) -> Plan:
    """Independent tasks of these seconds, in turn on the GPUs: t0 on cuda:0, t1 on cuda:1, …"""
    work = Workload()
    inputs = [work.input(f"x{k}", TensorSpec((2, 2)), device=f"cuda:{k}") for k in range(gpus)]
    for k in range(number):
        work.task(torch.neg, inputs[k % gpus], name=f"t{k}", device=f"cuda:{k % gpus}")
    placed = {f"t{k}": f"cuda:{k % gpus}/s0" for k in range(number)}
    costs = Costs({(work["t0"].signature, "GPU"): TaskCost(seconds, launches=launches)})
    here = platform(gpus=2, dispatch=replace(GRAPH, **(ACROSS | dispatch)))
    return replace(planned(work, here, placed, costs=costs), mode="graph")


def starts(line: Timeline) -> list[float]:
    return [float(start) for start in line.start_s]


def test_a_node_starts_when_it_is_launched() -> None:
    """Tasks of 1 s that are launched 2 s apart: the GPUs wait for the thread."""
    line = predict(row(1.0, 5))
    first = FIRST_S + 10
    assert starts(line) == [first + 2 * k for k in range(5)]
    assert line.makespan_s == first + 2 * 4 + 1 + 0.5


def test_long_tasks_do_not_wait_for_the_launch_of_the_next() -> None:
    line = predict(row(100.0, 4))
    first = FIRST_S + 10
    assert starts(line) == [first, first + 2, first + 100, first + 102]


def test_the_thread_is_busy_until_all_is_launched() -> None:
    """Its own share of the launch, and five nodes."""
    line = predict(row(1.0, 5))
    assert line.issue_end_s.tolist() == [3.0 + 5 * 2.0] * 5


def test_an_operation_of_several_nodes_takes_as_many_launches() -> None:
    assert starts(predict(row(1.0, 3, launches=4))) == [FIRST_S + 10 + 8 * k for k in range(3)]


@pytest.mark.parametrize(
    ("gpus", "dispatch", "switches"),
    [(1, {}, {}), (2, dict.fromkeys(ACROSS, 0.0), {}), (2, {"graph_launch_s": 0.0}, {"dispatch": False})],
)
def test_one_gpu_and_platforms_that_do_not_know_it(gpus: int, dispatch: Any, switches: dict[str, bool]) -> None:
    line = predict(row(1.0, 2, gpus=gpus, **dispatch), model=Model(**switches))
    first = 0.0 if switches else FIRST_S
    assert starts(line)[0] == first
    assert starts(line)[1] in {first, first + 1}


def test_events_are_launched_too() -> None:
    """Three nodes of each task."""
    line = predict(row(1.0, 4, graph_event_s=0.125))
    assert starts(line) == [FIRST_S + 10 + 6 * k for k in range(4)]
    assert line.makespan_s == FIRST_S + 10 + 3 * 2 + 1 + 0.5  # without events


def test_runs_that_follow_each_other_are_launched_alike() -> None:
    """The second launch begins when the first is over, after 3 s and three nodes."""
    once, twice = (predict(row(1.0, 3), steps=steps).makespan_s for steps in (1, 2))
    assert (once, twice) == (FIRST_S + 10 + 4 + 1 + 0.5, 9 + once)

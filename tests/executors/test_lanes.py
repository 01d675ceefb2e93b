"""Lanes of workers keep to hardware threads of their own."""

from __future__ import annotations

import os
import threading
import time

import pytest
import torch

from graphsched.executors import Program
from graphsched.executors.lanes import CpuLane, lane_cores
from graphsched.plan import Placement, build_plan
from graphsched.platform import Device, Link, Platform
from graphsched.workload import TensorSpec, Workload

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads cannot be bound here")

DEVICES = ("cpu", "worker:0", "worker:1")
HERE = Platform(
    "here",
    (Device("cpu", "cpu"), Device("worker:0", "worker"), Device("worker:1", "worker")),
    tuple(Link(a, b, "pinned", 1e-6, 1e9) for a in DEVICES for b in DEVICES if a != b),
)


def where(_: torch.Tensor) -> torch.Tensor:
    """The hardware threads that this thread may use, as a tensor."""
    return torch.tensor(sorted(os.sched_getaffinity(0)))


def test_lanes_of_workers_are_spread_over_the_cores_and_the_caller_is_left_alone() -> None:
    """x ─▶ a (worker:0), x ─▶ b (worker:1), x ─▶ c (cpu)"""
    before = os.sched_getaffinity(0)
    cores = sorted(before)
    work = Workload()
    x = work.input("x", torch.rand(2))
    lanes = {"a": "worker:0/s0", "b": "worker:1/s0", "c": "cpu/w0"}
    for name, lane in lanes.items():
        spec = TensorSpec((1,) if name != "c" else (len(cores),), "int64")
        work.task(where, x, name=name, outputs=[spec], device=lane.partition("/")[0])
    plan = build_plan(work, HERE, None, Placement(list(lanes), lanes), scheduler="by hand")
    with Program(plan) as program:
        found = {name: tensor.tolist() for name, tensor in program.run().items()}
    assert found == ({"a": [cores[0]], "b": [cores[1]], "c": cores} if len(cores) > 1 else dict.fromkeys("abc", cores))
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize(("cores", "bound"), [([3, 5, 7], [3, 5]), ([3, 5], [3, 5]), ([3], [])])
def test_lanes_are_bound_where_each_has_a_core_of_its_own(
    cores: list[int], bound: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """a (worker:0) ∥ b (worker:1): on one core neither is bound, as on two with three lanes."""
    work = Workload()
    for name, device in (("a", "worker:0"), ("b", "worker:1")):
        work.task(torch.neg, work.input(f"{name}/x", torch.ones(1), device=device), name=name, device=device)
    lanes = {"a": "worker:0/s0", "b": "worker:1/s0"}
    plan = build_plan(work, HERE, None, Placement(list(lanes), lanes), scheduler="by hand")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(cores))
    assert list(lane_cores(plan).values()) == bound


def test_a_lane_is_at_work_until_all_that_it_was_given_is_done() -> None:
    lane, go = CpuLane("lane", 1), threading.Event()
    assert lane.drain(10.0)
    rests(lane)
    lane.put(go.wait)
    lane.put(lambda: None)
    assert lane.at_work
    go.set()
    rests(lane)
    lane.close()


def rests(lane: CpuLane) -> None:
    """Soon: a lane says that a job is done, and then counts it."""
    until = time.perf_counter() + 10.0
    while lane.at_work and time.perf_counter() < until:
        time.sleep(1e-3)
    assert not lane.at_work

"""Lanes of workers keep to hardware threads of their own."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.executors import Program
from graphsched.executors import program as programs
from graphsched.executors.lane_cores import lane_cores, step_aside
from graphsched.executors.lanes import CpuLane
from graphsched.executors.spinning import spins
from graphsched.plan import Placement, build_plan
from graphsched.platform import Device, Link, Platform
from graphsched.workload import TensorSpec, Workload
from tests.executors.fake_cuda import FakeCuda

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


@pytest.mark.parametrize(
    ("bound", "moves"),
    [([3], [{5, 7}, {3, 5, 7}]), ([3, 7], [{5}, {3, 5, 7}]), ([3, 5, 7], []), ([None], []), ([9], [])],
)
def test_a_thread_steps_aside_from_bound_lanes_and_stays_bound_to_no_core(
    bound: list[int | None], moves: list[set[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes: list[Any] = [SimpleNamespace(core=core) for core in bound]
    made: list[set[int]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 7})
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cores: made.append(cores))
    step_aside(lanes)
    assert made == moves


@pytest.mark.skipif(not spins(), reason="the C library has no lfind or strcmp")
@pytest.mark.parametrize(("cores", "awake"), [(1, False), (4, True)])
def test_a_program_stays_awake_on_cores_that_it_may_use_beside_its_lanes(
    cores: int, awake: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """a (worker:0), on a platform of 64 cores."""
    asides: list[list[int | None]] = []
    monkeypatch.setattr(programs, "cores", lambda: cores)
    monkeypatch.setattr(programs, "step_aside", lambda lanes: asides.append([lane.core for lane in lanes]))
    work = Workload()
    work.task(torch.neg, work.input("x", torch.ones(1), device="worker:0"), name="a", device="worker:0")
    where = replace(HERE, cores=64)
    plan = build_plan(work, where, None, Placement(["a"], {"a": "worker:0/s0"}), scheduler="by hand")
    with Program(plan) as program:
        assert program.watch.spins is awake
        program.time_once()
        program.submit().result()
    assert asides == ([[min(os.sched_getaffinity(0))]] * 2 if awake else [])


def test_a_program_without_lanes_asks_gpus_as_platforms_were_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """a (cuda:0): nothing of the host's computes beside the thread."""
    FakeCuda(1).install(monkeypatch)
    work = Workload()
    work.task(torch.neg, work.input("x", torch.ones(1), device="cuda:0"), name="a", device="cuda:0")
    where = Platform("here", (Device("cpu", "cpu"), Device("cuda:0", "cuda")), cores=64)
    plan = build_plan(work, where, None, Placement(["a"], {"a": "cuda:0/s0"}), scheduler="by hand")
    with Program(plan) as program:
        assert not program.watch.spins

"""Predicted peaks of memory beside what a program takes, counted tensor by tensor; plans that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.costs import Costs, TaskCost
from graphsched.errors import OutOfMemoryError
from graphsched.executors import Program, program
from graphsched.executors.lanes import is_cuda
from graphsched.executors.memory import available_bytes
from graphsched.plan import Plan
from graphsched.platform import Platform
from graphsched.simulator import predict
from graphsched.workload import Workload
from tests.executors.counting import MemoryCounter, prompt_lanes
from tests.executors.fake_cuda import FakeCuda
from tests.executors.programs import by_hand, machine, random_plan, random_workload

GPUS = ("cuda:0", "cuda:1")
WORKERS = ("worker:0", "worker:1")


def counted(plan: Plan) -> dict[str, int]:
    """The most that a program of `plan` takes on each device from its making to the end of its second run."""
    counter = MemoryCounter()
    with pytest.MonkeyPatch.context() as patch:
        if any(is_cuda(lane.device) for lane in plan.lanes):
            FakeCuda(2).install(patch)
        else:
            patch.setattr(program, "cpu_lanes", prompt_lanes)
        counter.install(patch)
        with counter, Program(plan) as made:
            for _ in range(2):
                made.run()
    return {device: nbytes for device, nbytes in counter.peak.items() if nbytes}


def predicted(plan: Plan) -> dict[str, int]:
    return {device: peak.nbytes for device, peak in plan.peak_memory.items()}


@pytest.mark.parametrize("names", [GPUS, WORKERS])
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_in_eager_mode_peaks_are_as_counted(names: tuple[str, ...], seed: int) -> None:
    """Random graphs with states, views, kept values and copies; tensors of whole blocks of 512 bytes."""
    work = random_workload(seed, names, tasks=20)
    on = names if names == GPUS else None
    plan = random_plan(work, machine(*names, between=("peer", "staged")[seed % 2]), seed, 1 + seed % 3, on=on)
    assert predicted(plan) == counted(plan)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_in_graph_mode_peaks_are_as_counted(seed: int) -> None:
    """Counted after each action: while it acts, what it made in the rehearsal before is still there (1 KiB at most)."""
    work = random_workload(seed, GPUS, tasks=15, pinned=seed % 2 == 0)
    plan = replace(random_plan(work, machine(*GPUS), seed, 2, on=GPUS), mode="graph")
    found, expected = counted(plan), predicted(plan)
    assert set(found) == set(expected)
    assert all(0 <= expected[device] - nbytes <= 1024 for device, nbytes in found.items())


# -- plans that do not fit -------------------------------------------------------------------------


def with_memory(platform: Platform, **nbytes: int) -> Platform:
    """The platform with these sizes of memory; ``cuda0`` stands for ``cuda:0``."""
    sizes = {name.replace("cuda", "cuda:").replace("worker", "worker:"): size for name, size in nbytes.items()}
    return replace(platform, devices=tuple(replace(d, memory_bytes=sizes.get(d.name, 0)) for d in platform.devices))


def chain(platform: Platform, lane: str) -> Plan:
    """x ──▶ a ──▶ b ──▶ c, a kilobyte each: three at once in eager mode, five in graph mode (a clone of c)."""
    work = Workload()
    device = lane.partition("/")[0]
    value: Any = work.input("x", torch.ones(256), device=device)
    for name in "abc":
        value = work.task(torch.neg, value, name=name)
    return by_hand(work, platform, lane)


def test_a_plan_that_does_not_fit_is_refused_before_it_takes_anything(
    cuda: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch
) -> None:
    """x ──▶ a ──▶ b ──▶ c on one lane; 3 kB are needed."""
    cuda(1)
    plan = chain(with_memory(machine("cuda:0"), cuda0=3071), "cuda:0/s0")
    monkeypatch.setattr(program, "Buffers", lambda plan: pytest.fail("memory was taken"))
    with pytest.raises(OutOfMemoryError) as caught:
        Program(plan)
    assert str(caught.value) == (
        "the plan does not fit cuda:0: its peak at 'b' is 3.072 kB, there are 3.071 kB. Inputs and states take "
        "1.024 kB. The largest alive then: x (1.024 kB), a (1.024 kB, of task 'a'), b (1.024 kB, of task 'b'): "
        "use a smaller batch or more devices, or keep fewer values"
    )


def test_a_plan_that_just_fits_runs(cuda: Callable[[int], FakeCuda]) -> None:
    cuda(1)
    with Program(chain(with_memory(machine("cuda:0"), cuda0=3072), "cuda:0/s0")) as made:
        assert made.run().keys() == {"c"}


def test_what_fits_in_eager_mode_may_not_in_graph_mode(cuda: Callable[[int], FakeCuda]) -> None:
    """The mode that counts is the program's, not the plan's."""
    cuda(1)
    plan = chain(with_memory(machine("cuda:0"), cuda0=4096), "cuda:0/s0")
    with pytest.raises(OutOfMemoryError, match="use mode='eager', which gives memory back, a smaller batch"):
        Program(plan, mode="graph")
    with Program(plan) as made:
        made.run()


def test_workers_have_memory_too() -> None:
    plan = chain(with_memory(machine("worker:0"), worker0=3071), "worker:0/s0")
    with pytest.raises(OutOfMemoryError, match="does not fit worker:0"):
        Program(plan)


def test_predicting_refuses_nothing() -> None:
    """A plan for a machine that is too small can be looked at."""
    plan = chain(with_memory(machine("cuda:0"), cuda0=1), "cuda:0/s0")
    assert predict(plan).makespan_s > 0
    assert plan.peak_memory["cuda:0"].nbytes == 3072


def test_a_long_list_of_what_is_alive_is_cut_and_workspaces_are_named(cuda: Callable[[int], FakeCuda]) -> None:
    """x and seven tasks, all kept; those of the last kind need a workspace."""
    cuda(1)
    work = Workload()
    x = work.input("x", torch.ones(256), device="cuda:0")
    made = [work.task(torch.neg, x, name=f"t{i}") for i in range(6)]
    work.task(torch.exp, made[0], name="last")
    work.keep(*made)
    plan = by_hand(work, with_memory(machine("cuda:0"), cuda0=9000), "cuda:0/s0")
    costs = Costs({(work["last"].signature, "processor"): TaskCost(1.0, workspace_bytes=1000)})
    with pytest.raises(OutOfMemoryError, match=r"at 'last' is 9.216 kB, 1 kB of them workspace.* and 3 more: use"):
        Program(replace(plan, costs=costs))


@pytest.mark.parametrize(("known", "expected"), [(0, 700), (500, 500), (900, 700)])
def test_a_gpu_has_what_is_free_and_what_torch_holds(
    monkeypatch: pytest.MonkeyPatch, known: int, expected: int
) -> None:
    """600 bytes are free, torch has 150 of which 50 are in use."""
    for name, value in {
        "is_available": True,
        "device_count": 1,
        "memory_reserved": 150,
        "memory_allocated": 50,
    }.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, value=value: value)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (600, 1000))
    plan = chain(with_memory(machine("cuda:0"), cuda0=known), "cuda:0/s0")
    assert available_bytes(plan, "cuda:0") == expected

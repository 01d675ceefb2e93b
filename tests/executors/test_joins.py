"""Concatenations whose parts are made in their places: the same results, and no memory or kernel of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

import graphsched as gs
from graphsched.executors import Program
from graphsched.executors.buffers import Buffers
from graphsched.executors.calls import copy_call
from graphsched.plan import Plan
from graphsched.workload import Operation
from tests.executors import fake_cuda
from tests.executors.fake_cuda import FakeCuda
from tests.executors.programs import Plain, by_hand, machine
from tests.executors.test_peak_memory import counted, predicted


@pytest.fixture(autouse=True)
def parts_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The races that played GPUs look for are of parts of a whole, which several streams write at the same time."""
    monkeypatch.setattr(fake_cuda, "address", lambda tensor: int(tensor.data_ptr()))


GPUS, WORKERS = ("cuda:0", "cuda:1", "cuda:2"), ("worker:0", "worker:1", "worker:2")


def ring(devices: tuple[str, ...], between: str = "peer", elements: int = 3 * 128) -> tuple[gs.Workload, Plan]:
    """The sum of a value of each device, on all of them; blocks of whole 512 bytes."""
    work = gs.Workload()
    values = [work.input(f"x{k}", torch.arange(elements) + 1.0 * k, device=d) for k, d in enumerate(devices)]
    work.keep(*gs.collectives.all_reduce(work, values, algorithm="ring"))
    return work, gs.schedule(work, machine(*devices, between=between), scheduler="one_stream")


@pytest.mark.parametrize(("devices", "between"), [(WORKERS, "peer"), (GPUS, "peer"), (GPUS, "staged")])
def test_sums_are_right_and_each_whole_is_one_memory(
    devices: tuple[str, ...], between: str, cuda: Callable[[int], FakeCuda]
) -> None:
    """x0, x1, x2 ──▶ blocks round the ring ──▶ a whole on each device."""
    cuda(3)
    work, plan = ring(devices, between)
    assert [join.device for join in plan.joins] == list(devices)
    with Program(plan) as program:
        first = program.run()
        second = program.run(x0=torch.zeros(3 * 128))
        assert {name for join in plan.joins for name in join.starts} == set(program.buffers.places)
    assert all(torch.equal(first[name], value) for name, value in Plain(work).run().items())
    for name, value in Plain(work).run(x0=torch.zeros(3 * 128)).items():
        assert torch.equal(second[name], value)
        assert not torch.equal(first[name], value)  # what was returned before stays as it was


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_peaks_are_as_counted(mode: str) -> None:
    plan = replace(ring(GPUS[:2], elements=2 * 128)[1], mode=mode)
    found, expected = counted(plan), predicted(plan)
    assert all(0 <= expected[device] - found[device] <= (1024 if mode == "graph" else 0) for device in GPUS[:2])


def test_peaks_of_workers_are_as_counted() -> None:
    plan = ring(WORKERS)[1]
    assert counted(plan) == predicted(plan)


def test_steps_in_flight_have_memory_of_their_own() -> None:
    """Two steps at once: neither writes where the other's parts lie."""
    work, plan = ring(WORKERS)
    with Program(plan) as program:
        given = [torch.full((3 * 128,), float(n)) for n in range(4)]
        flights = [program.submit(x0=x) for x in given[:2]]
        found = [flight.result() for flight in flights]
    for x, sums in zip(given, found, strict=False):
        assert all(torch.equal(sums[name], value) for name, value in Plain(work).run(x0=x).items())


aten = torch.ops.aten


def here_and_there(device: str, other: str, elements: int = 4) -> tuple[gs.Workload, gs.Value, gs.Value]:
    """Two values, the second on the other device."""
    work = gs.Workload()
    ones, twos = torch.ones(elements), torch.full((elements,), 2.0)
    return work, work.input("x", ones, device=device), work.input("y", twos, device=other)


def test_a_sum_in_its_place_keeps_its_factor() -> None:
    """x + x + 3 x ─┐
    y ──────────────┴▶ all
    """
    work, x, y = here_and_there(*WORKERS[:2])
    twice = Operation("torch.ops.aten.add.Tensor", aten.add.Tensor, (x, x))
    total = work.task(aten.add_.Tensor, twice, x, alpha=3, name="sum")
    work.keep(work.task(aten.cat.default, [total, y], name="all", duration_s=0.0))
    plan = by_hand(work, machine(*WORKERS), "worker:0/w0")
    assert len(plan.joins) == 1
    with Program(plan) as program:
        assert program.run()["all"].tolist() == [5.0] * 4 + [2.0] * 4


class Told:
    """A place that notes whether its copy lets the thread go on."""

    def copy_(self, _: torch.Tensor, *, non_blocking: bool) -> Any:
        self.non_blocking = non_blocking
        return self


@pytest.mark.parametrize(("source", "goes_on"), [("cpu", True), ("worker:0", False)])
def test_a_worker_makes_its_copies_to_a_gpu_itself(source: str, goes_on: bool, cuda: Callable[[int], FakeCuda]) -> None:
    """It says that the copy is over when the call returns, so that no stream may still be at it."""
    cuda(1)
    work, _, y = here_and_there("cuda:0", source)
    work.keep(work.task(aten.cat.default, [work.copy(y, to="cuda:0", pinned=True)], name="all", duration_s=0.0))
    plan = by_hand(work, machine("cuda:0", "worker:0"), "cuda:0/s0")
    ((i, copy),) = plan.copies.items()
    buffers, place = Buffers(plan), Told()
    assert set(buffers.places) == {plan.names[i]}
    buffers.places[plan.names[i]] = place
    copy_call(plan.names[i], copy, buffers)()
    assert place.non_blocking is goes_on


def test_what_lies_in_a_join_is_cloned_and_counted() -> None:
    """y copied to its place in ``all``, and a view of that copy; a result may have a name of its own."""
    work, x, y = here_and_there(*WORKERS[:2], elements=64)
    total = work.task(aten.add.Tensor, x, x, name="sum")
    work.task(aten.cat.default, [total, y], name="join", names=["all"], duration_s=0.0)
    work.task(aten.slice.Tensor, y, 0, 0, 32, name="view")
    plan = by_hand(work, machine(*WORKERS), "worker:0/w0")
    assert len(plan.joins) == 1
    assert counted(plan) == predicted(plan)

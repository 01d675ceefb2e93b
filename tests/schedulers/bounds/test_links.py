"""Bytes that every plan must move, over the capacities that they cross."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.platform import Device, Link, Platform
from graphsched.schedulers import lower_bound, schedule
from graphsched.schedulers.bounds import link_bound
from graphsched.simulator import Model, predict
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, platform
from tests.schedulers.graphs import add

BYTES = TensorSpec((60,), "int8")


def _wide(shared: dict[str, float], **more: object) -> Platform:
    return platform(shared=shared, **more)  # type: ignore[arg-type]


def test_copies_that_are_asked_for() -> None:
    """Three copies of 60 bytes from cuda:0, one to cuda:0: 180 bytes leave it at 30 B/s."""
    work = Workload()
    x, y = work.input("x", BYTES, device="cuda:0"), work.input("y", BYTES)
    for _ in range(3):
        work.copy(x, to="cpu")
    work.copy(y, to="cuda:0")
    shared = {"out cuda:0": 30.0, "in cuda:0": 100.0}
    assert link_bound(work, _wide(shared)) == 6.0
    assert lower_bound(work, _wide(shared)) == 6.0


def test_a_value_that_another_device_needs_travels_once_there() -> None:
    """b, c on cuda:1 and d on the CPU read what a made on cuda:0: two transfers of 60 bytes."""
    work = Workload()
    a = work.task(print, name="a", outputs=[BYTES], duration_s=0.0, device="cuda:0")
    for name, device in (("b", "cuda:1"), ("c", "cuda:1"), ("d", "cpu"), ("e", "cuda:0")):
        add(work, name, a, duration_s=0.0, device=device)
    assert link_bound(work, _wide({"out cuda:0": 30.0})) == 4.0


def test_what_a_plan_may_choose_does_not_count() -> None:
    """b may run where a does; the copy's source hangs on a."""
    work = Workload()
    a = work.task(print, name="a", outputs=[BYTES], duration_s=0.0)
    add(work, "b", a, duration_s=0.0, device="cuda:0")
    work.copy(a, to="cpu")
    assert link_bound(work, _wide({"out cuda:0": 30.0, "out cuda:1": 30.0})) == 0.0


def test_pageable_copies_follow_each_other() -> None:
    """Two GPUs, 60 bytes each at 100 B/s: the thread waits for one before it issues the other."""
    work = Workload()
    for k in range(2):
        work.copy(work.input(f"x{k}", BYTES, device=f"cuda:{k}"), to="cpu", pinned=False)
    assert link_bound(work, _wide({}, blocking=True)) == pytest.approx(1.2)
    assert link_bound(work, _wide({}, blocking=False)) == 0.0


@pytest.mark.parametrize("memory", [{"pinned": True}, {"fresh": True}, {}])
def test_a_result_of_the_cpu_goes_by_the_memory_that_is_asked_for(memory: dict[str, bool]) -> None:
    """c (cpu) ──▶ three copies of 60 bytes to cuda:0, whatever the kinds of links take: no plan is below the bound."""
    ends, rates = ("cpu", "cuda:0"), {"pinned": 50.0, "pageable": 10.0, "fresh": 2.0}
    links = tuple(Link(*ends, kind, 0.0, rate, blocking=kind != "pinned") for kind, rate in rates.items())  # type: ignore[arg-type]
    here = Platform("kinds", (Device("cpu", "cpu"), Device("cuda:0", "cuda")), links, dispatch=FREE)
    work = Workload()
    c = work.task(print, name="c", outputs=[BYTES], duration_s=0.0, device="cpu")
    for k in range(3):
        work.copy(c, to="cuda:0", name=f"k{k}", **memory)
    found = {schedule(work, here, scheduler=name) for name in ("one_stream", "heft", "search", "dls", "peft")}
    asked = next(iter(memory), "pageable")
    assert {copy.memory for plan in found for copy in plan.copies.values()} == {asked}
    assert min(predict(plan).makespan_s for plan in found) >= link_bound(work, here) * (1 - 1e-9)
    assert link_bound(work, here) == (pytest.approx(180 / rates[asked]) if asked != "pinned" else 0.0)


@pytest.mark.parametrize("contention", [True, False])
def test_pageable_copies_are_outside_graphs(contention: bool) -> None:
    """The bound holds in graph mode, for such a copy takes what it does in a stream; one in a graph would take 1 s."""
    work = Workload()
    made = add(work, "a", device="cuda:0", duration_s=0.0)
    work.copy(made, to="cpu", pinned=False)
    where = _wide({}, blocking=True, latency_s=100.0, dispatch=replace(FREE, graph_copy_out_s=1.0))
    line = predict(schedule(work, where, mode="graph"), model=Model(contention=contention))
    assert line.makespan_s >= lower_bound(work, where, mode="graph") > 100.0


def test_no_capacities_no_bound() -> None:
    devices = (Device("cuda:0", "cuda"), Device("cpu", "cpu"))
    work = Workload()
    work.copy(work.input("x", BYTES, device="cuda:0"), to="cpu")
    assert link_bound(work, Platform("p", devices, (Link("cuda:0", "cpu", "pinned", 0.0, 1.0),))) == 0.0

"""Kernels that go slower while copies enter or leave their GPU's memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from graphsched.costs import TaskCost
from graphsched.plan import Plan
from graphsched.platform import Platform
from graphsched.simulator import Model, predict
from graphsched.simulator.columns import ALONE, NETWORK
from graphsched.simulator.host_memory import CACHED_BYTES
from graphsched.simulator.predict import tabulated
from graphsched.simulator.traffic import LEAST_SHARE, memory_share
from graphsched.workload import TensorSpec, Workload
from tests.builders import kernel, planned, platform
from tests.simulator import beside
from tests.simulator.beside import IN, KNOWN, OUT, PEER, Copy, ends, gpus


def host(traffic_in: float = 1.0, traffic_out: float = 0.5, **options: object) -> Platform:
    return gpus({"traffic_in": traffic_in, "traffic_out": traffic_out}, **options)


def plan_of(
    kernels: Mapping[str, tuple[float, int, str]],
    copies: Mapping[str, Copy],
    where: Platform | None = None,
    **options: Any,
) -> Plan:
    return beside.plan_of(kernels, copies, where or host(), **options)


def test_a_copy_slows_a_kernel_that_fills_the_memory_while_it_lasts() -> None:
    """k (1 s, 100 bytes) beside a copy in of 0.5 s: at 1 / 1.5 until then, 2/3 of it left."""
    plan = plan_of({"k": (1.0, 100, "cuda:0/s0")}, {"c": (*IN, 25)})
    assert ends(plan) == pytest.approx({"k": 0.5 + 2 / 3, "c": 0.5})
    assert ends(plan, Model(traffic=False)) == {"k": 1.0, "c": 0.5}


@pytest.mark.parametrize(
    ("copies", "rate"),
    [
        ({"out": OUT}, 1 / 1.25),
        ({"in": IN, "out": OUT}, 1 / 1.75),
        ({"peer": PEER}, 1 / 1.5),
        ({"in": IN, "peer": PEER}, 1 / 2.0),
        ({"away": ("cuda:0", "cuda:1")}, 1 / 1.25),
        ({"past": ("cpu", "cuda:1")}, 1.0),
    ],
)
def test_directions_have_factors_of_their_own_and_are_added(copies: dict[str, tuple[str, str]], rate: float) -> None:
    """k (1 s) beside copies of 10 s; those that pass its GPU by cost nothing."""
    plan = plan_of({"k": (1.0, 100, "cuda:0/s0")}, {name: (*ends_, 500) for name, ends_ in copies.items()})
    assert ends(plan)["k"] == pytest.approx(1 / rate)


def test_a_copy_that_starts_later_counts_from_then_on() -> None:
    """k (1 s) alone until 0.25; then 0.75 of it at 1 / 1.5 beside a copy of 10 s."""
    plan = plan_of({"k": (1.0, 100, "cuda:0/s0")}, {"c": (*IN, 500)}, late_s=0.25)
    assert ends(plan)["k"] == pytest.approx(0.25 + 0.75 * 1.5)


def test_kernels_on_a_gpu_that_no_copy_touches_do_not_go_through_the_clock() -> None:
    """a on cuda:0 beside a copy into it, b on cuda:1."""
    plan = plan_of({"a": (1.0, 100, "cuda:0/s0"), "b": (1.0, 100, "cuda:1/s0")}, {"c": (*IN, 500)})
    columns, _ = tabulated(plan, 1, Model())
    assert columns.resource == [0, ALONE, NETWORK]
    assert ends(plan) == pytest.approx({"a": 1.5, "b": 1.0, "c": 10.0})


def test_latency_of_a_copy_moves_no_bytes() -> None:
    """A copy of 0.5 s after a latency of 0.25."""
    plan = plan_of({"k": (1.0, 100, "cuda:0/s0")}, {"c": (*IN, 25)}, host(latency_s=0.25))
    assert ends(plan) == pytest.approx({"k": 0.75 + (0.75 - 0.5 / 1.5), "c": 0.75})


def test_a_kernel_is_slowed_by_its_share_of_the_memory_rate() -> None:
    """k, n (1 s each, 50 and 5 bytes) one after the other beside a copy of 10 s; n moves too little to count."""
    plan = plan_of({"k": (1.0, 50, "cuda:0/s0"), "n": (1.0, 5, "cuda:0/s0")}, {"c": (*IN, 500)})
    assert ends(plan) == pytest.approx({"k": 1.25, "n": 2.25, "c": 10.0})
    columns, _ = tabulated(plan, 1, Model())
    assert columns.resource == [0, ALONE, NETWORK]
    assert columns.shares == {0: 0.5}


def test_kernels_on_two_gpus_are_each_slowed_by_its_own_copies() -> None:
    """a on cuda:0, b on cuda:1 beside a copy from the one to the other."""
    lanes = {"a": (1.0, 100, "cuda:0/s0"), "b": (1.0, 100, "cuda:1/s0")}
    assert ends(plan_of(lanes, {"c": ("cuda:0", "cuda:1", 500)})) == pytest.approx({"a": 1.25, "b": 1.5, "c": 10.0})


def test_two_kernels_side_by_side_share_and_are_slowed() -> None:
    """a, b (1 s) on two lanes: each at 1/2 by its curve, at 1/3 while the copy (1.5 s) lasts."""
    two = {"a": (1.0, 100, "cuda:0/s0"), "b": (1.0, 100, "cuda:0/s1")}
    plan = plan_of(two, {"c": (*IN, 75)})
    assert ends(plan) == pytest.approx({"a": 2.5, "b": 2.5, "c": 1.5})
    assert ends(plan, Model(sharing=False)) == pytest.approx({"a": 1.5, "b": 1.5, "c": 1.5})
    assert ends(plan, Model(sharing=False, traffic=False)) == {"a": 1.0, "b": 1.0, "c": 1.5}


def test_kernels_placed_block_by_block_are_not_slowed() -> None:
    """a, b of 8 blocks each on two lanes, which all fit; with the queue of blocks off they are slowed."""
    two = {"a": (1.0, 100, "cuda:0/s0"), "b": (1.0, 100, "cuda:0/s1")}
    plan = plan_of(two, {"c": (*IN, 500)}, like=KNOWN)
    columns, _ = tabulated(plan, 1, Model())
    assert not columns.shares
    assert columns.resource == [0, 0, ALONE]
    assert ends(plan) == ends(plan, Model(traffic=False)) == pytest.approx({"a": 1.0, "b": 1.0, "c": 10.0})
    assert ends(plan, Model(block_queue=False)) == pytest.approx({"a": 1.5, "b": 1.5, "c": 10.0})


def test_a_kernel_of_known_blocks_alone_on_its_gpu_is_slowed() -> None:
    plan = plan_of({"k": (1.0, 100, "cuda:0/s0")}, {"c": (*IN, 500)}, like=KNOWN)
    assert ends(plan)["k"] == pytest.approx(1.5)


def test_measured_pairs_and_traffic_both_count() -> None:
    """a (m = 1) and b (m = 0) slow each other 1.25 times; the copy slows a alone."""
    two = {"a": (1.0, 100, "cuda:0/s0"), "b": (4.0, 0, "cuda:0/s1")}
    plan = plan_of(two, {"c": (*IN, 500)}, pairs={(0, 1): 1.25, (1, 0): 1.25})
    a = 1.25 * 1.5
    assert ends(plan) == pytest.approx({"a": a, "b": a + 4.0 - a / 1.25, "c": 10.0})


def test_transfers_that_share_a_link_slow_by_what_they_get() -> None:
    """Two copies through one bus of 50 bytes/s bring no more than one."""
    here = host(shared={"bus": 50.0})
    plan = plan_of({"k": (1.0, 100, "cuda:0/s0")}, {"in": (*IN, 500), "out": (*OUT, 500)}, here)
    assert ends(plan)["k"] == pytest.approx(1 + 0.25 + 0.125)
    assert ends(plan, Model(contention=False))["k"] == pytest.approx(1.75)
    assert ends(plan, Model(contention=False))["in"] == pytest.approx(10.0)


def test_each_step_of_a_repeated_program_meets_its_own_copies() -> None:
    """k (1 s) twice, copies of 1 s twice: the second k has 1/3 done when the second copy ends at 2 s."""
    plan = plan_of({"k": (1.0, 100, "cuda:0/s0")}, {"c": (*IN, 50)})
    assert predict(plan, steps=2).makespan_s == pytest.approx(2.0 + 2 / 3)


@pytest.mark.parametrize(
    "where", [host(0.0, 0.0), host(0.0, 1.0), replace(host(), devices=platform().devices)], ids=["0", "out", "unknown"]
)
def test_where_nothing_is_slowed_nothing_goes_through_the_clock(where: Platform) -> None:
    """A factor of 0 for the only direction that is used."""
    plan = plan_of({"k": (1.0, 100, "cuda:0/s0")}, {"c": (*IN, 25)}, where)
    columns, _ = tabulated(plan, 1, Model())
    assert columns.resource == [ALONE, ALONE]
    assert not columns.shares
    assert not columns.pressures
    assert ends(plan) == {"k": 1.0, "c": 0.5}


@pytest.mark.parametrize("copies", [{}, {"here": ("cuda:0", "cuda:0", 500)}], ids=["no copies", "within one memory"])
def test_without_copies_that_enter_or_leave_nothing_goes_through_the_clock(copies: dict[str, Copy]) -> None:
    plan = plan_of({"k": (1.0, 100, "cuda:0/s0")}, copies)
    columns, _ = tabulated(plan, 1, Model())
    assert set(columns.resource) == {ALONE}


def test_updates_are_written_as_well_as_read() -> None:
    """Reads 20 bytes, writes 30, and 20 back, in 2 s, of 100 a second; no more than all there is."""
    work = Workload()
    w = work.state("w", TensorSpec((20,), "uint8"))
    work.task(kernel, w, name="step", updates=w, outputs=[TensorSpec((30,), "uint8")])
    gpu = host().device("cuda:0")
    assert memory_share(work["step"], TaskCost(2.0), gpu) == pytest.approx(0.35)
    assert memory_share(work["step"], TaskCost(0.1), gpu) == 1.0
    assert memory_share(work["step"], TaskCost(0.0), gpu) == 0.0
    assert LEAST_SHARE < 0.35


def test_times_alone_are_the_same_to_the_bit_through_the_clock() -> None:
    """Kernels and copies of odd lengths, one after another; the copies are over before the kernels start."""
    times = {f"k{n}": (0.1 + n / 7, 100, "cuda:0/s0") for n in range(9)}
    plan = plan_of(times, {"c": (*IN, 13)}, host(1e-300, 0.0))
    assert ends(plan) == ends(plan, Model(traffic=False))


# -- tasks of the CPU ------------------------------------------------------------------------------

LARGE = 10**7  # bytes: more than what is taken to lie in caches
CPU_RATE = {"bytes_per_s": 1e7, "traffic_in": 0.25, "traffic_out": 0.5}


def beside_cpu(nbytes: int, copies: Mapping[str, Copy], cpu: Mapping[str, float] = CPU_RATE, **options: Any) -> Plan:
    """c (1 s on the CPU, reads so many bytes) beside copies over links of half of what the host's memory moves."""
    plain = platform(bandwidth=5e6, **options)
    here = replace(plain, devices=tuple(replace(d, **cpu) if d.name == "cpu" else d for d in plain.devices))
    work = Workload()
    x = work.input("x", TensorSpec((nbytes,), "uint8"), device="cpu")
    work.task(kernel, x, name="c", outputs=[], device="cpu", duration_s=1.0)
    for name, (source, target, size) in copies.items():
        value = work.input(f"{name}x", TensorSpec((size,), "uint8"), device=source)
        work.copy(value, to=target, name=name, pinned=True)
    return planned(work, here, {"c": "cpu/w0"})


@pytest.mark.parametrize(
    ("copies", "seconds"), [({"out": OUT}, 1.125), ({"in": IN}, 1.25), ({"in": IN, "out": OUT}, 1.375), ({}, 1.0)]
)
def test_copies_slow_a_task_of_the_cpu_that_moves_through_memory(
    copies: dict[str, tuple[str, str]], seconds: float
) -> None:
    """Copies from the GPU come in, copies to it go out, at half of the memory's rate."""
    plan = beside_cpu(LARGE, {name: (*ends_, 10**8) for name, ends_ in copies.items()})
    assert ends(plan)["c"] == pytest.approx(seconds)
    assert ends(plan, Model(traffic=False))["c"] == 1.0


def test_half_the_bytes_are_half_as_slow_and_what_lies_in_caches_is_not_slowed() -> None:
    half = beside_cpu(10**7, {"in": (*IN, 10**8)}, {**CPU_RATE, "bytes_per_s": 2e7})
    assert ends(half)["c"] == pytest.approx(1 + 0.5 * 0.5 * 5e6 / 2e7)
    small = beside_cpu(CACHED_BYTES - 1, {"in": (*IN, 10**8)})
    assert ends(small)["c"] == 1.0
    assert not tabulated(small, 1, Model())[0].shares


def test_a_task_of_the_cpu_slows_copies_from_its_memory() -> None:
    """A copy of 0.2 s takes 1.5 times as long while c runs, one to the host does not."""
    plan = beside_cpu(LARGE, {"in": (*IN, 10**6), "out": (*OUT, 10**6)}, {"bytes_per_s": 1e7, "slowed_out": 0.5})
    assert ends(plan) == pytest.approx({"c": 1.0, "in": 0.3, "out": 0.2})


def test_a_cpu_that_nothing_is_known_of_stays_off_the_clock() -> None:
    plan = beside_cpu(LARGE, {"in": (*IN, 10**8)}, {})
    assert tabulated(plan, 1, Model())[0].resource == [ALONE, ALONE]


def test_copies_slow_tasks_of_lanes_that_share_cores() -> None:
    """c (1 s) on 4 threads of 4 cores beside a copy of 10 s; and beside d on a second lane, too."""
    plain = platform(bandwidth=5e6)
    cpu = {**CPU_RATE, "threads": 4}
    devices = tuple(replace(d, **cpu) if d.name == "cpu" else d for d in plain.devices)  # type: ignore[arg-type]
    found = []
    for lanes in ({"c": "cpu/w0"}, {"c": "cpu/w0", "d": "cpu/w1"}):
        work = Workload()
        for name in lanes:
            x = work.input(f"{name}x", TensorSpec((LARGE,), "uint8"), device="cpu")
            work.task(kernel, x, name=name, outputs=[], device="cpu", duration_s=1.0)
        work.copy(work.input("y", TensorSpec((10**8,), "uint8"), device="cuda:0"), to="cpu", name="out", pinned=True)
        plan = planned(work, replace(plain, devices=devices, cores=4), lanes)
        found.append([ends(plan)["c"], ends(plan, Model(traffic=False))["c"], ends(plan, Model(sharing=False))["c"]])
    assert found == [pytest.approx([1.125, 1.0, 1.125]), pytest.approx([2.25, 2.0, 1.125])]


def test_a_copy_feels_tasks_of_the_cpu_as_they_would_be_without_copies() -> None:
    """Two tasks in a row (1 s, half the memory's rate) beside a copy at 5 / 1.25 MB/s take 1 + 0.5 * 0.5 * 0.24 s."""
    plain = platform(bandwidth=5e6)
    cpu = {"bytes_per_s": 2.0 * CACHED_BYTES, "traffic_out": 0.5, "slowed_out": 0.5}
    devices = tuple(replace(d, **cpu) if d.name == "cpu" else d for d in plain.devices)  # type: ignore[arg-type]
    work = Workload()
    x = work.input("x", TensorSpec((CACHED_BYTES,), "uint8"), device="cpu")
    for name in "cd":
        work.task(kernel, x, name=name, outputs=[], device="cpu", duration_s=1.0)
    work.copy(work.input("y", TensorSpec((10**8,), "uint8"), device="cpu"), to="cuda:0", name="in", pinned=True)
    found = ends(planned(work, replace(plain, devices=devices), {"c": "cpu/w0", "d": "cpu/w0"}))
    rate = 5e6 / 1.25
    each = 1 + 0.5 * 0.5 * rate / (2 * CACHED_BYTES)
    assert found == pytest.approx({"c": each, "d": 2 * each, "in": 2 * each + (10**8 - rate * 2 * each) / 5e6})

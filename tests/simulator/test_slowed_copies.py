"""Copies that go slower while kernels use their GPU's memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsched.costs import Kernel
from graphsched.plan import Plan
from graphsched.platform import Device, Link, Platform
from graphsched.simulator import Model, predict
from graphsched.simulator.block_queue import BlockQueue
from graphsched.simulator.columns import ALONE, NETWORK
from graphsched.simulator.network import Network, Route
from graphsched.simulator.predict import tabulated
from graphsched.simulator.traffic import LEAST_SHARE, Coupling, coupling
from tests.simulator.beside import IN, KNOWN, OUT, PEER, ends, gpus, plan_of

AWAY = ("cuda:0", "cuda:1")
FACTORS = {"slowed_in": 1.0, "slowed_out": 2.0, "slowed_peer_in": 3.0, "slowed_peer_out": 4.0}
FULL = replace(KNOWN, kernels=(Kernel(64, 0, 128, 0),))  # takes all threads there are


def host(factors: Mapping[str, float] = FACTORS, **options: object) -> Platform:
    return gpus(factors, **options)


def one(seconds: float, nbytes: int, lane: str = "cuda:0/s0") -> tuple[float, int, str]:
    """A kernel; its memory share is nbytes / 100 / seconds."""
    return seconds, nbytes, lane


def test_a_copy_is_slow_while_a_kernel_fills_the_memory_and_only_then() -> None:
    """n (0.5 s, no bytes), then k (1 s, fills the memory); 25 bytes of c before k, 50 / 2 beside it, 50 after it."""
    plan = plan_of({"n": one(0.5, 0), "k": one(1.0, 100)}, {"c": (*IN, 100)}, host())
    assert ends(plan) == pytest.approx({"n": 0.5, "k": 1.5, "c": 2.5})
    assert ends(plan, Model(traffic=False)) == {"n": 0.5, "k": 1.5, "c": 2.0}


def test_a_copy_that_is_over_before_the_kernel_knows_nothing_of_it() -> None:
    plan = plan_of({"n": one(0.5, 0), "k": one(1.0, 100)}, {"c": (*IN, 25)}, host())
    assert ends(plan) == {"n": 0.5, "k": 1.5, "c": 0.5}


@pytest.mark.parametrize(
    ("ends_", "factor"),
    [(IN, 1.0), (OUT, 2.0), (PEER, 3.0), (AWAY, 4.0), (("cpu", "cuda:1"), 0.0), (("cuda:1", "cpu"), 0.0)],
)
def test_directions_and_kinds_of_links_have_factors_of_their_own(ends_: tuple[str, str], factor: float) -> None:
    """c of 10 s alone beside a kernel of 10 s; what passes its GPU by is not slowed."""
    found = ends(plan_of({"k": one(10.0, 1000)}, {"c": (*ends_, 500)}, host()))
    assert found["k"] == 10.0
    assert found["c"] == pytest.approx(20.0 - 10.0 / (1.0 + factor))


def test_both_ends_count() -> None:
    """A copy away from a (share 1, factor 4) to b (share 0.5, factor 3): 50 / (1 + 4 + 1.5) for 1 s, then at 50."""
    kernels = {"a": one(1.0, 100), "b": one(1.0, 50, "cuda:1/s0")}
    assert ends(plan_of(kernels, {"c": (*AWAY, 50)}, host()))["c"] == pytest.approx(1.0 + (50 - 50 / 6.5) / 50)


def test_a_kernel_slows_by_its_share_of_the_memory_rate() -> None:
    """k of share 0.5 (1 s), then n of 0.04 for 1 s, which moves too little to count."""
    plan = plan_of({"k": one(1.0, 50), "n": one(1.0, 4)}, {"c": (*IN, 500)}, host())
    assert LEAST_SHARE > 0.04
    assert ends(plan)["c"] == pytest.approx(1.0 + (500 - 50 / 1.5) / 50)
    columns, _ = tabulated(plan, 1, Model())
    assert columns.resource == [0, ALONE, NETWORK]
    assert (columns.shares, columns.slowed, columns.pressures) == ({0: 0.5}, {2: ((0, 1.0),)}, {})


@pytest.mark.parametrize(("nbytes", "use"), [(40, 0.8), (100, 1.0)])
def test_kernels_that_run_at_full_speed_side_by_side_use_the_sum_but_no_more_than_all(nbytes: int, use: float) -> None:
    kernels = {"a": one(1.0, nbytes), "b": one(1.0, nbytes, "cuda:0/s1")}
    found = ends(plan_of(kernels, {"c": (*IN, 500)}, host()), Model(sharing=False))
    assert found["c"] == pytest.approx(1.0 + (500 - 50 / (1 + use)) / 50)


def test_kernels_that_slow_each_other_use_less() -> None:
    """a, b (1 s, share 0.5 each): at half their speed by their curves, so that they use half for 2 s."""
    kernels = {"a": one(1.0, 50), "b": one(1.0, 50, "cuda:0/s1")}
    found = ends(plan_of(kernels, {"c": (*IN, 500)}, host()))
    assert found == pytest.approx({"a": 2.0, "b": 2.0, "c": 2.0 + (500 - 100 / 1.5) / 50})


def test_both_slow_each_other() -> None:
    """c at 50 / 2 while k runs, which goes at 1 / (1 + 25 / 100) beside it; that k is slower makes c no faster."""
    plan = plan_of({"k": one(1.0, 100)}, {"c": (*IN, 500)}, host({"traffic_in": 1.0, "slowed_in": 1.0}))
    assert ends(plan) == pytest.approx({"k": 1.25, "c": 1.25 + (500 - 31.25) / 50})


# -- capacities -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bus", "end_s"), [(50.0, 1.0 + 75 / 50), (30.0, 1.0 + 75 / 30), (25.0, 100 / 25), (20.0, 100 / 20)]
)
def test_who_is_throttled_by_a_capacity_is_not_slowed_again(bus: float, end_s: float) -> None:
    """c of 100 bytes may take 25 a second while k (1 s, factor 1) runs; at 25 or less it does not notice."""
    plan = plan_of({"k": one(1.0, 100)}, {"c": (*IN, 100)}, host(shared={"bus": bus}))
    assert ends(plan)["c"] == pytest.approx(end_s)


def test_what_a_slowed_copy_leaves_goes_to_others() -> None:
    """in (to cuda:0) and past (to cuda:1) over a bus of 50: 12.5 and 37.5 beside k, for 1 s; then 25 each."""
    where = host({"slowed_in": 3.0}, shared={"bus": 50.0})
    plan = plan_of({"k": one(1.0, 100)}, {"in": (*IN, 100), "past": ("cpu", "cuda:1", 100)}, where)
    past = 1.0 + (100 - 37.5) / 25
    assert ends(plan) == pytest.approx({"k": 1.0, "past": past, "in": past + (87.5 - 62.5) / 50})


def test_without_contention_copies_are_slowed_all_the_same() -> None:
    """Two copies over one bus of 50, each as if alone."""
    plan = plan_of({"k": one(1.0, 100)}, {"in": (*IN, 100), "out": (*OUT, 100)}, host(shared={"bus": 50.0}))
    found = ends(plan, Model(contention=False))
    assert found == pytest.approx({"k": 1.0, "in": 2.5, "out": 1.0 + (100 - 50 / 3) / 50})


def test_latency_is_not_slowed() -> None:
    """1 s of latency beside k (1 s), then 50 bytes alone."""
    plan = plan_of({"k": one(1.0, 100)}, {"c": (*IN, 50)}, host(latency_s=1.0))
    assert ends(plan)["c"] == pytest.approx(2.0)


def test_use_that_no_transfer_under_way_feels_sets_no_rates() -> None:
    """Transfers 0 and 1, of which kernels of pool 1 slow the second."""
    calls: list[tuple[float, int]] = []
    routes = {i: Route(0.0, 10.0, 10.0, (i,), False) for i in range(2)}
    timer = lambda time, _, token: calls.append((time, token))  # noqa: E731
    network = Network(routes, [10.0, 10.0], timer, slowed={1: ((1, 1.0),)})
    assert not network.share_memory([0.0, 1.0])
    for i in range(2):
        network.enter(i, 0.0)
    network.refresh(0.0)
    assert network.rates() == [(0, 10.0), (1, 5.0)]
    assert not network.share_memory([0.0, 1.0])
    assert not network.share_memory([0.5, 1.0])
    network.refresh(0.0)
    assert len(calls) == 2
    assert network.share_memory([0.5, 0.25])
    network.refresh(0.0)
    assert network.rates() == [(0, 10.0), (1, 8.0)]
    assert len(calls) == 3


# -- queues of blocks -----------------------------------------------------------------------------


def test_kernels_placed_block_by_block_slow_copies() -> None:
    """a, b of 8 blocks each (1 and 2 s, shares 0.6 and 0.5), which all fit: all of the memory, then half of it."""
    kernels = {"a": one(1.0, 60), "b": one(2.0, 100, "cuda:0/s1")}
    plan = plan_of(kernels, {"c": (*IN, 500)}, host(), like=KNOWN)
    columns, _ = tabulated(plan, 1, Model())
    assert (columns.resource, columns.lone, columns.pressures) == ([0, 0, NETWORK], 0, {})
    assert ends(plan) == pytest.approx({"a": 1.0, "b": 2.0, "c": 2.0 + (500 - 25 - 50 / 1.5) / 50})


def test_copies_do_not_slow_kernels_placed_block_by_block() -> None:
    kernels = {"a": one(1.0, 100), "b": one(1.0, 100, "cuda:0/s1")}
    plan = plan_of(kernels, {"c": (*IN, 500)}, host({"traffic_in": 5.0, "slowed_in": 1.0}), like=KNOWN)
    assert not tabulated(plan, 1, Model())[0].pressures
    assert ends(plan) == pytest.approx({"a": 1.0, "b": 1.0, "c": 1.0 + 475 / 50})


def test_a_kernel_without_a_block_in_flight_uses_nothing() -> None:
    """a (1 s, no bytes) takes all the room there is, b (1 s, all of the memory) waits for it."""
    kernels = {"a": one(1.0, 0), "b": one(1.0, 100, "cuda:0/s1")}
    plan = plan_of(kernels, {"c": (*IN, 500)}, host(), like=FULL)
    assert ends(plan) == pytest.approx({"a": 1.0, "b": 2.0, "c": 2.0 + (500 - 50 - 25) / 50})


def test_a_last_wave_that_moves_less_slows_less() -> None:
    """a (3 s, share 0.5): 64 blocks for 2 s, then a quarter of these, twice as fast, for 1 s; b (no bytes) behind it.

    It uses half, then a quarter of the memory; alone on its GPU, where no queue is simulated, half of it all the time.
    """
    like = {"a": replace(FULL, kernels=(Kernel(80, 0, 128, 0),)), "b": FULL}
    alone = plan_of({"a": one(3.0, 150)}, {"c": (*IN, 500)}, host(), like=like)
    assert ends(alone)["c"] == pytest.approx(3.0 + (500 - 150 / 1.5) / 50)
    plan = plan_of({"a": one(3.0, 150), "b": one(1.0, 0, "cuda:0/s1")}, {"c": (*IN, 500)}, host(), like=like)
    found = ends(plan)
    assert found["a"] == pytest.approx(3.0)
    assert found["c"] == pytest.approx(3.0 + (500 - 100 / 1.5 - 50 / 1.25) / 50)


def test_a_queue_that_is_watched_tells_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a and b others wait, so that a queue which nobody watches would look ahead past their last waves."""
    asked: list[bool] = []
    refresh = BlockQueue.refresh

    def noted(self: BlockQueue, now: float) -> None:
        refresh(self, now)
        asked.append(self.looks_ahead)

    monkeypatch.setattr(BlockQueue, "refresh", noted)
    kernels = {name: one(1.0 + k, 50, f"cuda:0/s{k}") for k, name in enumerate("abc")}
    ends(plan_of(kernels, {"c0": (*IN, 500)}, host(), like=FULL))
    assert set(asked) == {False}
    asked.clear()
    ends(plan_of(kernels, {"c0": (*IN, 500)}, host({"traffic_in": 1.0}), like=FULL))
    assert set(asked) == {True}


# -- what is not slowed ---------------------------------------------------------------------------


@pytest.mark.parametrize("factors", [{}, {"slowed_out": 1.0}, {"slowed_peer_in": 1.0, "slowed_peer_out": 1.0}])
def test_where_nothing_is_slowed_nothing_goes_through_the_clock(factors: dict[str, float]) -> None:
    plan = plan_of({"k": one(1.0, 100)}, {"c": (*IN, 25)}, host(factors))
    columns, _ = tabulated(plan, 1, Model())
    assert columns.resource == [ALONE, ALONE]
    assert (columns.shares, columns.slowed) == ({}, {})
    assert ends(plan) == {"k": 1.0, "c": 0.5}


@pytest.mark.parametrize("copies", [{}, {"here": ("cuda:0", "cuda:0", 500)}, {"past": ("cpu", "cuda:1", 500)}])
def test_without_copies_at_a_kernels_gpu_nothing_goes_through_the_clock(
    copies: dict[str, tuple[str, str, int]],
) -> None:
    columns, _ = tabulated(plan_of({"k": one(1.0, 100)}, copies, host()), 1, Model())
    assert set(columns.resource) == {ALONE}


def test_pageable_memory_has_the_rate_of_the_host() -> None:
    plan = plan_of({"k": one(1.0, 100)}, {"c": (*IN, 100)}, host(), pinned=False)
    assert ends(plan) == {"k": 1.0, "c": 2.0}


@pytest.mark.parametrize("memory", ["staged", "pageable", "fresh"])
def test_only_pinned_and_peer_links_are_slowed(memory: str) -> None:
    there = tuple(Device(f"cuda:{k}", "cuda", **FACTORS, traffic_out=1.0, bytes_per_s=10.0) for k in (0, 1))
    link = Link("cuda:0", "cuda:1", memory, 0.0, 1.0)  # type: ignore[arg-type]
    assert coupling(Platform("desk", there, (link,)), link) == Coupling((("cuda:0", 0.1),), ())


def test_each_step_of_a_repeated_program_meets_its_own_kernels() -> None:
    """k (1.5 s) and c (50 bytes) twice: the first copy takes 2 s, the second 1 s beside k and 0.5 s after it."""
    plan = plan_of({"k": one(1.5, 150)}, {"c": (*IN, 50)}, host())
    assert predict(plan, steps=2).makespan_s == pytest.approx(3.5)


# -- laws -----------------------------------------------------------------------------------------


def flow_s(nbytes: float, kernels: list[tuple[float, float]], factor: float) -> float:
    """End of a copy from time 0 on, at 50 bytes a second, beside kernels (seconds, share) one after another."""
    now = 0.0
    for seconds, share in kernels:
        rate = 50.0 / (1.0 + factor * (share if share > LEAST_SHARE else 0.0))
        if nbytes <= rate * seconds:
            return now + nbytes / rate
        nbytes, now = nbytes - rate * seconds, now + seconds
    return now + nbytes / 50.0


@given(
    st.lists(st.tuples(st.integers(1, 8), st.integers(0, 300)), min_size=1, max_size=6),
    st.integers(1, 1500),
    st.sampled_from([0.0, 0.02, 0.2, 5.0]),
)
def test_a_copy_beside_a_chain_of_kernels(chain: list[tuple[int, int]], nbytes: int, factor: float) -> None:
    """The bytes that flow beside each kernel add up; kernels of any length and share."""
    kernels = {f"k{n}": one(quarters / 4, moved) for n, (quarters, moved) in enumerate(chain)}
    shares = [(quarters / 4, min(1.0, moved / 25 / quarters)) for quarters, moved in chain]
    plan: Plan = plan_of(kernels, {"c": (*OUT, nbytes)}, host({"slowed_out": factor}))
    assert ends(plan)["c"] == pytest.approx(flow_s(nbytes, shares, factor))


def test_times_are_the_same_to_the_bit_where_copies_and_kernels_do_not_meet() -> None:
    """Kernels of odd lengths, of which the first moves nothing; the copy is over before the others start."""
    times = {f"k{n}": one(0.3 + n / 7, 100 if n else 0) for n in range(9)}
    plan = plan_of(times, {"c": (*IN, 13)}, host())
    assert tabulated(plan, 1, Model())[0].slowed
    assert ends(plan) == ends(plan, Model(traffic=False))


def test_a_copy_feels_a_kernel_as_it_would_be_without_copies() -> None:
    """k, n (10 s each, fill the memory) beside c at 50 / 1.5 a second take 13.3 s each; c has 1000 - 889 bytes left."""
    both = {"k": one(10.0, 1000), "n": one(10.0, 1000)}
    plan = plan_of(both, {"c": (*IN, 1000)}, gpus({"traffic_in": 1.0, "slowed_in": 0.5}))
    assert ends(plan) == pytest.approx({"k": 40 / 3, "n": 80 / 3, "c": 80 / 3 + (1000 - 8000 / 9) / 50})

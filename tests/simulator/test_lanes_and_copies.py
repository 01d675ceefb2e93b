"""Copies with the host that go slower while kernels run on several lanes of their GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsched.costs import Costs, Kernel, TaskCost
from graphsched.plan import Plan
from graphsched.platform import Device, Link, Platform
from graphsched.simulator import Model, predict
from graphsched.simulator.columns import ALONE, NETWORK
from graphsched.simulator.network import Network
from graphsched.simulator.predict import tabulated
from graphsched.simulator.substitution import TERMS, Substitution
from graphsched.simulator.traffic import LANES, Coupling, MemoryUse, Unshared, coupling
from graphsched.workload import TensorSpec, Workload
from tests.builders import kernel, planned
from tests.simulator.beside import IN, KNOWN, OUT, PEER, Copy, ends, gpus, plan_of
from tests.simulator.measured import as_measured

AWAY = ("cuda:0", "cuda:1")
FACTORS = {"lanes_in": 1.0, "lanes_out": 3.0}
FREELY = TaskCost(0.0, concurrency=((9, 1.0),))  # as fast beside others as alone
FULL = replace(KNOWN, kernels=(Kernel(64, 0, 128, 0),))  # takes all threads there are
RULES = pytest.mark.parametrize("like", [FREELY, KNOWN], ids=["rates", "blocks"])


def host(factors: Mapping[str, float] = FACTORS, **options: object) -> Platform:
    return gpus(factors, **options)


def on_lanes(*seconds: float, gpu: int = 0, nbytes: int = 0) -> dict[str, tuple[float, int, str]]:
    """A kernel of so many seconds, and bytes, on each of as many lanes."""
    return {f"g{gpu}k{n}": (s, nbytes, f"cuda:{gpu}/s{n}") for n, s in enumerate(seconds)}


def beside(
    seconds: Sequence[float], copies: Mapping[str, Copy], where: Platform | None = None, like: TaskCost = FREELY
) -> Plan:
    """Kernels on lanes of cuda:0, as fast beside each other as alone, and copies."""
    return plan_of(on_lanes(*seconds), copies, where or host(), like=like)


@RULES
@pytest.mark.parametrize("busy", [0, 1, 2, 3, 4])
@pytest.mark.parametrize(("ends_", "factor"), [(IN, 1.0), (OUT, 3.0)], ids=["in", "out"])
def test_two_lanes_of_several_are_as_good_as_all(
    ends_: tuple[str, str], factor: float, busy: int, like: TaskCost
) -> None:
    """Four kernels for 1 s, so many of them for 20 s; c of 100 bytes at 50 a second, or 50 / (1 + factor)."""
    found = ends(beside([20.0] * busy + [1.0] * (4 - busy), {"c": (*ends_, 100)}, like=like))
    slow = 50 / (1 + factor)
    assert found["c"] == pytest.approx(1.0 + (100 - slow) / (slow if busy > 1 else 50))
    assert [found[f"g0k{n}"] for n in range(4)] == pytest.approx([20.0] * busy + [1.0] * (4 - busy))


@RULES
def test_a_copy_is_slow_until_one_of_two_kernels_ends(like: TaskCost) -> None:
    """Three kernels until 0.5 s, two until 1 s, one until 9 s: c at 50 / 2 for 1 s, then at 50."""
    plan = beside([9.0, 1.0, 0.5], {"c": (*IN, 100)}, like=like)
    assert ends(plan)["c"] == pytest.approx(1.0 + 75 / 50)
    assert ends(plan, Model(lanes=False))["c"] == 2.0


@RULES
def test_a_copy_is_slow_from_when_a_second_kernel_begins(like: TaskCost) -> None:
    """c at 50 for 1 s, at 25 for 2 s, at 50 again.

    ::

        w (1 s) ──▶ a (8 s)       cuda:0/s0
              ├───▶ b (2 s)       cuda:0/s1
              └───▶ d (2 s)       cuda:0/s2
    """
    work, costs = Workload(), {}
    made = work.task(kernel, 0, name="w", outputs=[TensorSpec((1,), "uint8")])
    for name in "abd":
        work.task(kernel, made, ord(name), name=name, outputs=[])
    for name, seconds in {"w": 1.0, "a": 8.0, "b": 2.0, "d": 2.0}.items():
        costs[work[name].signature, "GPU"] = replace(like, device_s=seconds)
    work.copy(work.input("x", TensorSpec((150,), "uint8"), device="cpu"), to="cuda:0", name="c", pinned=True)
    lanes = {"w": "cuda:0/s0", "a": "cuda:0/s0", "b": "cuda:0/s1", "d": "cuda:0/s2"}
    found = ends(planned(work, host(), lanes, costs=Costs(costs)))
    assert found == pytest.approx({"w": 1.0, "a": 9.0, "b": 3.0, "d": 3.0, "c": 4.0})


def test_kernels_one_after_another_on_a_lane_count_as_one() -> None:
    """Three lanes for 1 s, then five more kernels of 1 s on the first of them."""
    kernels = on_lanes(1.0, 1.0, 1.0) | {f"more{n}": (1.0, 0, "cuda:0/s0") for n in range(5)}
    found = ends(plan_of(kernels, {"c": (*IN, 100)}, host(), like=FREELY))
    assert (found["more4"], found["c"]) == pytest.approx((6.0, 1.0 + 75 / 50))


@RULES
@pytest.mark.parametrize("lanes", [1, 2])
def test_in_a_plan_with_fewer_lanes_copies_are_as_fast_as_alone(lanes: int, like: TaskCost) -> None:
    """Two kernels of 4.5 s on each lane."""
    assert lanes < LANES
    kernels = on_lanes(*[4.5] * lanes) | {f"more{n}": (4.5, 0, f"cuda:0/s{n}") for n in range(lanes)}
    plan = plan_of(kernels, {"in": (*IN, 100), "out": (*OUT, 100)}, host(), like=like)
    columns = tabulated(plan, 1, Model())[0]
    assert (columns.slowed, columns.several, columns.resource[-2:]) == ({}, frozenset(), [ALONE, ALONE])
    found = ends(plan)
    assert (found["in"], found["out"]) == (2.0, 2.0)


def test_lanes_of_all_gpus_together_are_not_what_counts() -> None:
    """Two lanes of each GPU."""
    plan = plan_of(on_lanes(9.0, 9.0) | on_lanes(9.0, 9.0, gpu=1), {"c": (*IN, 100)}, host(), like=FREELY)
    assert ends(plan)["c"] == 2.0


# -- rules of sharing -----------------------------------------------------------------------------


def test_kernels_that_slow_each_other_are_there_for_longer() -> None:
    """Three kernels of 1 s by their curves, each at a third of its speed: c at 25 for 3 s."""
    found = ends(plan_of(on_lanes(1.0, 1.0, 1.0), {"c": (*IN, 100)}, host()))
    assert found == pytest.approx({"g0k0": 3.0, "g0k1": 3.0, "g0k2": 3.0, "c": 3.0 + 25 / 50})


def test_kernels_whose_pairs_were_measured_count() -> None:
    """Each of three (1 s) takes 1.5 times as long for each beside it: c at 25 for 2 s."""
    pairs = {(a, b): 1.5 for a in range(3) for b in range(3) if a != b}
    found = ends(plan_of(on_lanes(1.0, 1.0, 1.0), {"c": (*IN, 100)}, host(), pairs=pairs, like=FREELY))
    assert (found["g0k0"], found["c"]) == pytest.approx((2.0, 2.0 + 50 / 50))


def test_a_kernel_that_waits_without_blocks_counts() -> None:
    """Three kernels of 1 s, each of which takes all the room there is: the last waits for 2 s, c at 25 meanwhile."""
    plan = beside([1.0, 1.0, 1.0], {"c": (*IN, 100)}, like=FULL)
    assert ends(plan) == pytest.approx({"g0k0": 1.0, "g0k1": 2.0, "g0k2": 3.0, "c": 2.0 + 50 / 50})


def test_a_task_of_several_kernels_counts_once() -> None:
    """Four kernels in each of three tasks, of which one goes on for 8 s alone."""
    several = replace(KNOWN, kernels=(Kernel(8, 0, 128, 0, share=0.25),) * 4)
    found = ends(beside([9.0, 1.0, 1.0], {"c": (*IN, 100)}, like=several))
    assert (found["g0k0"], found["c"]) == pytest.approx((9.0, 1.0 + 75 / 50))


@pytest.mark.parametrize("nbytes", [0, 100])
def test_without_sharing_lanes_count_all_the_same(nbytes: int) -> None:
    """Kernels of 3, 2, 1 and 1 s, each as if alone, be it that all but the last have memory shares or that none has."""
    kernels = {f"k{n}": (3.0 - n if n < 3 else 1.0, nbytes if n < 3 else 0, f"cuda:0/s{n}") for n in range(4)}
    plan = plan_of(kernels, {"c": (*IN, 200)}, host({**FACTORS, "slowed_in": 1e-9}))
    found = ends(plan, Model(sharing=False))
    assert [found[f"k{n}"] for n in range(4)] == [3.0, 2.0, 1.0, 1.0]
    assert found["c"] == pytest.approx(2.0 + (200 - 50) / 50)
    assert ends(plan, Model(sharing=False, lanes=False))["c"] == pytest.approx(4.0)


def test_without_sharing_what_memory_costs_is_added_all_the_same() -> None:
    """Two kernels use 0.4 of the memory's rate each and one nothing, for 1 s: c at 50 / (1 + 0.8 + 0.5)."""
    kernels = on_lanes(1.0, 1.0, nbytes=40) | {"k": (1.0, 0, "cuda:0/s2")}
    plan = plan_of(kernels, {"c": (*IN, 100)}, host({"slowed_in": 1.0, "lanes_in": 0.5}))
    assert ends(plan, Model(sharing=False))["c"] == pytest.approx(1.0 + (100 - 50 / 2.3) / 50)


def test_without_sharing_tasks_of_the_cpu_are_told_from_lanes() -> None:
    """t (1 s on the CPU, fills the host's memory) slows c by 4, three lanes (2 s each) by 1 more."""
    where = host({"lanes_in": 1.0})
    cpu = {"bytes_per_s": 1e7, "slowed_out": 4.0}
    where = replace(where, devices=tuple(replace(d, **cpu) if d.name == "cpu" else d for d in where.devices))  # type: ignore[arg-type]
    work = Workload()
    x = work.input("x", TensorSpec((10**7,), "uint8"), device="cpu")
    work.task(kernel, x, name="t", outputs=[], device="cpu", duration_s=1.0)
    lanes = {f"k{n}": f"cuda:0/s{n}" for n in range(LANES)}
    for n, name in enumerate(lanes):
        work.task(kernel, n, name=name, outputs=[], device="cuda:0")
    work.copy(work.input("y", TensorSpec((200,), "uint8"), device="cpu"), to="cuda:0", name="c", pinned=True)
    costs = Costs({(work[name].signature, "GPU"): TaskCost(2.0) for name in lanes})
    found = ends(planned(work, where, {"t": "cpu/w0", **lanes}, costs=costs), Model(sharing=False))
    assert (found["t"], found["k0"]) == (1.0, 2.0)
    assert found["c"] == pytest.approx(2.0 + (200 - 50 / 6 - 50 / 2) / 50)


# -- beside other things that slow copies ---------------------------------------------------------


def test_what_lanes_and_memory_cost_is_added() -> None:
    """Three kernels (1 s, a fifth of the memory's rate each): c at 50 / (1 + 0.6 + 0.5) for 1 s."""
    where = host({"slowed_in": 1.0, "lanes_in": 0.5})
    found = ends(plan_of(on_lanes(1.0, 1.0, 1.0, nbytes=20), {"c": (*IN, 100)}, where, like=FREELY))
    assert found["c"] == pytest.approx(1.0 + (100 - 50 / 2.1) / 50)


def test_kernels_that_copies_slow_count_as_long_as_they_last() -> None:
    """Three kernels (1 s, half the memory each) beside c at 25, which slows each by 1/8: for 1.125 s."""
    where = host({"traffic_in": 1.0, "lanes_in": 1.0})
    found = ends(plan_of(on_lanes(1.0, 1.0, 1.0, nbytes=50), {"c": (*IN, 100)}, where, like=FREELY))
    assert (found["g0k0"], found["c"]) == pytest.approx((1.125, 1.125 + (100 - 28.125) / 50))


@pytest.mark.parametrize(
    ("model", "longer"),
    [
        (Model(), 0.6 + 0.5),
        (Model(traffic=False), 0.5),
        (Model(lanes=False), 0.6),
        (Model(traffic=False, lanes=False), 0.0),
    ],
    ids=["both", "lanes", "memory", "neither"],
)
def test_each_of_the_two_has_a_switch_of_its_own(model: Model, longer: float) -> None:
    """As in the test before; where c slows kernels, it does not without memory."""
    where = host({"slowed_in": 1.0, "lanes_in": 0.5})
    plan = plan_of(on_lanes(1.0, 1.0, 1.0, nbytes=20), {"c": (*IN, 100)}, where, like=FREELY)
    assert ends(plan, model)["c"] == pytest.approx(1.0 + (100 - 50 / (1 + longer)) / 50)
    pressed = replace(plan, platform=host({"traffic_in": 1.0, "lanes_in": 0.5}))
    assert (ends(pressed, model)["g0k0"] == 1.0) is not model.traffic


@pytest.mark.parametrize(("bus", "end_s"), [(50.0, 1.0 + 75 / 50), (30.0, 1.0 + 75 / 30), (25.0, 4.0), (20.0, 5.0)])
def test_who_is_throttled_by_a_capacity_is_not_slowed_again(bus: float, end_s: float) -> None:
    """c of 100 bytes may take 25 a second for 1 s; at 25 or less it does not notice."""
    assert ends(beside([1.0] * 3, {"c": (*IN, 100)}, host(shared={"bus": bus})))["c"] == pytest.approx(end_s)


def test_without_contention_lanes_slow_copies_all_the_same() -> None:
    plan = beside([1.0] * 3, {"in": (*IN, 100), "out": (*OUT, 100)}, host(shared={"bus": 50.0}))
    found = ends(plan, Model(contention=False))
    assert (found["in"], found["out"]) == pytest.approx((1.0 + 75 / 50, 1.0 + 87.5 / 50))


def test_latency_is_not_slowed() -> None:
    """1 s of latency beside kernels of 1 s, then 50 bytes alone."""
    assert ends(beside([1.0] * 3, {"c": (*IN, 50)}, host(latency_s=1.0)))["c"] == pytest.approx(2.0)


# -- several GPUs ---------------------------------------------------------------------------------


def test_lanes_of_one_gpu_do_not_slow_copies_of_another() -> None:
    plan = beside([9.0] * 3, {"in": ("cpu", "cuda:1", 100), "out": ("cuda:1", "cpu", 100), "here": (*IN, 100)})
    found = ends(plan)
    assert [found[name] for name in ("in", "out", "here")] == pytest.approx([2.0, 2.0, 4.0])


def test_each_gpu_has_its_own_lanes() -> None:
    """Kernels of 1 s on three lanes of cuda:0, of 3 s on three of cuda:1."""
    kernels = on_lanes(1.0, 1.0, 1.0) | on_lanes(3.0, 3.0, 3.0, gpu=1)
    found = ends(plan_of(kernels, {"c0": (*IN, 100), "c1": ("cpu", "cuda:1", 100)}, host(), like=FREELY))
    assert (found["c0"], found["c1"]) == pytest.approx((1.0 + 75 / 50, 3.0 + 25 / 50))


def test_a_gpu_with_lanes_enough_beside_one_with_too_few() -> None:
    """Two lanes of cuda:0, three of cuda:1, which come second."""
    kernels = on_lanes(9.0, 9.0) | on_lanes(9.0, 9.0, 9.0, gpu=1)
    found = ends(plan_of(kernels, {"c0": (*IN, 100), "c1": ("cpu", "cuda:1", 100)}, host(), like=FREELY))
    assert (found["c0"], found["c1"]) == pytest.approx((2.0, 4.0))


@RULES
def test_lanes_of_one_gpu_and_the_memory_of_another(like: TaskCost) -> None:
    """k (1 s) fills the memory of cuda:0, alone there; three kernels (1 s) that move nothing are on cuda:1."""
    where = host({"slowed_in": 1.0, "lanes_in": 2.0})
    kernels = {"k": (1.0, 100, "cuda:0/s0")} | on_lanes(1.0, 1.0, 1.0, gpu=1)
    plan = plan_of(kernels, {"c0": (*IN, 100), "c1": ("cpu", "cuda:1", 100)}, where, like=like)
    columns = tabulated(plan, 1, Model())[0]
    assert (columns.pools, columns.lone, columns.several) == (3, 1, {0})
    assert columns.slowed == {4: ((1, 1.0),), 5: ((0, 1.0), (3, 2.0))} or columns.slowed[5][-1] == (3, 2.0)
    found = ends(plan)
    assert (found["c0"], found["c1"]) == pytest.approx((1.0 + 75 / 50, 1.0 + (100 - 50 / 3) / 50))


# -- what is not slowed ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factors", "model"),
    [({}, Model()), (FACTORS, Model(lanes=False)), ({"slowed_peer_in": 1.0}, Model())],
    ids=["unknown", "switched off", "other factors"],
)
def test_where_nothing_is_slowed_copies_do_not_go_through_the_clock(factors: dict[str, float], model: Model) -> None:
    plan = beside([9.0] * 3, {"in": (*IN, 100), "out": (*OUT, 100)}, host(factors))
    columns = tabulated(plan, 1, model)[0]
    assert (columns.slowed, columns.several, columns.resource) == ({}, frozenset(), [0, 0, 0, ALONE, ALONE])
    found = ends(plan, model)
    assert (found["in"], found["out"]) == (2.0, 2.0)


def test_a_way_whose_factor_is_unknown_is_not_slowed() -> None:
    plan = beside([9.0] * 3, {"in": (*IN, 100), "out": (*OUT, 100)}, host({"lanes_out": 1.0}))
    assert tabulated(plan, 1, Model())[0].resource[-2:] == [ALONE, NETWORK]
    found = ends(plan)
    assert (found["in"], found["out"]) == pytest.approx((2.0, 4.0))


def test_lanes_that_slow_no_copy_of_the_plan_are_not_counted() -> None:
    plan = beside([9.0] * 3, {"in": (*IN, 100)}, host({"lanes_out": 1.0, "slowed_in": 1.0}))
    assert tabulated(plan, 1, Model())[0].several == frozenset()


@pytest.mark.parametrize("ends_", [PEER, AWAY, ("cuda:0", "cuda:0")])
def test_copies_between_gpus_and_within_one_are_not_slowed(ends_: tuple[str, str]) -> None:
    plan = beside([9.0] * 3, {"c": (*ends_, 100)})
    assert tabulated(plan, 1, Model())[0].resource[-1] == ALONE
    assert ends(plan)["c"] == 2.0


def test_copies_of_pageable_memory_are_not_slowed() -> None:
    plan = plan_of(on_lanes(9.0, 9.0, 9.0), {"c": (*IN, 100)}, host(), like=FREELY, pinned=False)
    assert ends(plan)["c"] == 2.0


@pytest.mark.parametrize("memory", ["pinned", "pageable", "fresh", "staged", "peer"])
def test_only_pinned_links_feel_lanes(memory: str) -> None:
    here = (Device("cpu", "cpu"), Device("cuda:0", "cuda", **FACTORS))
    link = Link("cuda:0", "cpu", memory, 0.0, 1.0)  # type: ignore[arg-type]
    expected = (("cuda:0", 3.0),) if memory == "pinned" else ()
    assert coupling(Platform("desk", here, (link,)), link) == Coupling((), (), expected)


# -- steps, modes, figures in the place of modelled ones ------------------------------------------


def test_each_step_of_a_repeated_program_meets_its_own_lanes() -> None:
    """Kernels of 1 s on three lanes and c (50 bytes) three times: the copies take 2 s, 1 + 0.5 s and 1 s."""
    plan = beside([1.0] * 3, {"c": (*IN, 50)})
    assert predict(plan, steps=3).makespan_s == pytest.approx(2.0 + 1.5 + 1.0)
    assert predict(plan, steps=3, model=Model(lanes=False)).makespan_s == pytest.approx(3.0)
    columns = tabulated(plan, 3, Model())[0]
    assert columns.slowed == {3 + 4 * k: ((columns.pools, 1.0),) for k in range(3)}


@pytest.mark.parametrize("mode", ["eager", "graph", "distributed"])
def test_it_is_so_in_every_mode(mode: str) -> None:
    plan = replace(beside([9.0, 1.0, 1.0], {"c": (*IN, 100)}), mode=mode)
    span = {span.action: span.duration_s for span in predict(plan)}
    off = {span.action: span.duration_s for span in predict(plan, model=Model(lanes=False))}
    assert (span["c"], off["c"]) == pytest.approx((1.0 + 75 / 50, 2.0), rel=1e-4)


def test_a_copy_beside_lanes_counts_as_slowed_by_others() -> None:
    plan = beside([9.0] * 3, {"in": (*IN, 100), "past": ("cpu", "cuda:1", 100)})
    predicted = predict(plan)
    swap = Substitution(as_measured(predicted, plan))
    assert swap.loaded(predicted) == {plan.index_of["in"]}
    assert [swap.makespan_s(terms) for terms in ((), ("transfers",))] == pytest.approx([9.0, 9.0])


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("like", [FREELY, KNOWN, FULL, TaskCost(0.0)], ids=["freely", "blocks", "in turn", "curves"])
def test_measured_tasks_on_several_lanes_slow_copies_as_modelled_ones_do(like: TaskCost, mode: str) -> None:
    """c outlasts all kernels; with figures in the place of any that are as predicted nothing changes."""
    plan = replace(beside([1.0, 3.0, 0.5], {"c": (*IN, 1000)}, like=like), mode=mode)
    line = predict(plan)
    swap = Substitution(as_measured(line, plan))
    terms = [(), ("compute",), ("compute", "waits"), ("compute", "dispatch"), ("compute", "transfers"), TERMS]
    assert line.timed_makespan_s > 20.4
    assert [swap.makespan_s(of) for of in terms] == pytest.approx([line.timed_makespan_s] * len(terms))


@pytest.mark.parametrize(("mode", "longer_s"), [("eager", 0.0), ("graph", 0.125)])
def test_what_a_measured_task_took_holds_what_others_cost_it(mode: str, longer_s: float) -> None:
    """Copies slow the kernels, whose nodes start 0.25 s after one another in a graph: both are in their spans.

    These begin before a node may start, so that the second one counts for 0.25 s more, in which c is half as fast.
    """
    where = host({"traffic_in": 1.0, "lanes_in": 1.0})
    where = replace(where, dispatch=replace(where.dispatch, graph_rates=((2, 0.25),)))
    kernels = on_lanes(1.0, 3.0, 0.5, nbytes=50)
    plan = replace(plan_of(kernels, {"c": (*IN, 1000)}, where, like=FREELY), mode=mode)
    assert bool(tabulated(plan, 1, Model())[0].spacing_s.get(0)) == (mode == "graph")
    line = predict(plan)
    swap = Substitution(as_measured(line, plan))
    assert swap.makespan_s(("compute",)) == pytest.approx(line.timed_makespan_s + longer_s)


def test_measured_tasks_that_take_longer_slow_copies_for_longer() -> None:
    """Kernels of 2 s in the place of those of 1 s, which slow each other to a third, so that they take 3 s."""
    plan = plan_of(on_lanes(1.0, 1.0, 1.0), {"c": (*IN, 1000)}, host())
    line = predict(plan)
    kernels = [plan.index_of[f"g0k{n}"] for n in range(3)]
    end_s = line.end_s.copy()
    end_s[kernels] = 2.0
    swap = Substitution(as_measured(replace(line, end_s=end_s), plan))
    assert swap.makespan_s(()) == pytest.approx(3.0 + (1000 - 75) / 50)
    assert swap.makespan_s(("compute",)) == pytest.approx(2.0 + (1000 - 50) / 50)


def test_an_interval_lies_around_what_is_predicted_beside_lanes() -> None:
    line = predict(beside([1.0] * 3, {"c": (*IN, 500)}))
    assert line.interval_s is not None
    assert line.makespan_s == pytest.approx(10.5)
    assert line.interval_s[0] < line.makespan_s < line.interval_s[1]


# -- laws -----------------------------------------------------------------------------------------


def flow_s(nbytes: float, seconds: Sequence[float], factor: float) -> float:
    """End of a copy from time 0 on, at 50 bytes a second, beside a kernel of so many seconds on each lane."""
    slow_s = sorted(seconds)[-2] if len(seconds) >= LANES else 0.0
    slow = 50.0 / (1.0 + factor)
    return nbytes / slow if nbytes <= slow * slow_s else slow_s + (nbytes - slow * slow_s) / 50.0


@RULES
@given(
    seconds=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    nbytes=st.integers(1, 300),
    factor=st.sampled_from([0.02, 0.2, 5.0]),
)
def test_a_copy_beside_kernels_of_any_length(like: TaskCost, seconds: list[int], nbytes: int, factor: float) -> None:
    times = [quarters / 4 for quarters in seconds]
    plan = beside(times, {"c": (*OUT, nbytes)}, host({"lanes_out": factor}), like=like)
    assert ends(plan)["c"] == pytest.approx(flow_s(nbytes, times, factor))


def test_times_are_the_same_to_the_bit_where_no_two_lanes_are_busy() -> None:
    """Kernels of odd lengths on one lane; the two others are done before the copy begins."""
    kernels = on_lanes(0.1, 0.1, 0.1) | {f"more{n}": (0.3 + n / 7, 0, "cuda:0/s0") for n in range(9)}
    plan = plan_of(kernels, {"c": (*IN, 13)}, host(), like=FREELY, late_s=0.25)
    assert tabulated(plan, 1, Model())[0].slowed
    assert ends(plan) == ends(plan, Model(lanes=False))


def test_use_that_changes_nothing_sets_no_rates() -> None:
    """Of two pools the first has lanes enough: a third kernel beside two is no news."""
    rules = [Unshared(), Unshared()]
    use, found = MemoryUse({}, rules, several={0}), []
    for action in range(3):
        rules[0].start(action)
        rules[1].start(action)
        found.append(use.now([0, 1]))
    assert found == [[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0]]
    network = Network({}, [], lambda *_: None)
    assert [network.share_memory(uses) for uses in found] == [False] * 3


def test_only_pools_whose_tasks_changed_are_looked_at() -> None:
    rules = [Unshared(), Unshared()]
    use = MemoryUse({7: 0.25, 8: 0.5}, rules, several={0, 1})
    rules[0].start(7)
    rules[1].start(8)
    assert [use.now(changed) for changed in ([0], [], [1])] == [[0.25, 0, 0, 0], [0.25, 0, 0, 0], [0.25, 0.5, 0, 0]]


def test_a_copy_that_comes_or_goes_has_no_pool_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of 9 s on three lanes; two copies begin meanwhile, and one ends."""
    asked: list[list[int]] = []
    now = MemoryUse.now

    def noted(self: MemoryUse, changed: Sequence[int]) -> Sequence[float]:
        asked.append(list(changed))
        return now(self, changed)

    monkeypatch.setattr(MemoryUse, "now", noted)
    found = ends(beside([9.0] * 3, {"c": (*IN, 100), "d": (*IN, 500)}))
    assert (found["c"], found["d"]) == pytest.approx((4.0, 9.0 + (500 - 125) / 50))
    assert [0] in asked
    assert {tuple(changed) for changed in asked} == {(0,)}

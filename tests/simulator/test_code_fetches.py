"""Tasks that fetch their code together: closed forms on forks of two and three lanes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.costs import CacheStates, Costs, Kernel, Multiprocessors, TaskCost
from graphsched.plan import Plan
from graphsched.simulator import Model, predict
from graphsched.simulator.code_fetches import HINDERS_S, TOGETHER_S, Fetch, Fetches, fetches_of
from graphsched.simulator.instruction_cache import Fetched
from tests.builders import FREE, operations, planned, platform

LONG_S = 8e-6
GPU = Multiprocessors(count=8, registers=65536, threads=2048, shared_bytes=2**17, blocks=32)
GATE_S = 1e-7


def cost_of(code: str, beside_s: float, beside_lost_s: float = 0.0, *, blocks: bool = True) -> TaskCost:
    states = CacheStates(footprint=1.0, beside_s=beside_s, beside_lost_s=beside_lost_s)
    kernels = (Kernel(1, 1024, 64, 1024, code=code),) if blocks else ()
    known = {"kernels": kernels, "processors": GPU if blocks else None, "cache": states}
    return TaskCost(LONG_S, graph_s=LONG_S, concurrency=((1, 1.0), (4, 1.0)), **known)


def fork(costs: list[TaskCost], *, kinds: list[int] | None = None, lanes: list[int] | None = None) -> Plan:
    """t0, t1, …: no edges, each on a lane of its own; from a gate every 0.1 µs one may start."""
    kinds = kinds or list(range(len(costs)))
    work, known = operations({f"t{k}": kind for k, kind in enumerate(kinds)}, costs)
    dispatch = replace(FREE, graph_launch_s=0.0, graph_node_s=0.0, graph_rates=((2, GATE_S), (4, GATE_S)))
    placed = {f"t{k}": f"cuda:0/s{(lanes or range(len(kinds)))[k]}" for k in range(len(kinds))}
    return replace(planned(work, platform(dispatch=dispatch, costs=known), placed), mode="graph")


def longer_s(plan: Plan) -> list[float]:
    """By task in order, what it takes longer than without the term."""
    on, off = predict(plan), predict(plan, model=Model(fetches=False))
    runs = [i for i, kind in enumerate(plan.kinds) if kind == "run"]
    return [on.end_s[i] - on.start_s[i] - (off.end_s[i] - off.start_s[i]) for i in runs]


@pytest.mark.parametrize("blocks", [True, False])
def test_the_second_of_two_is_hindered_by_the_first(blocks: bool) -> None:
    """The first takes what it takes alone; where the kernels of all are known, and where they are not."""
    plan = fork([cost_of("a", 5e-6), cost_of("b", 3e-6, blocks=blocks)])
    assert longer_s(plan) == pytest.approx([0.0, 3e-6], abs=1e-12)


def test_all_behind_the_first_are_hindered_and_only_once() -> None:
    """a, b and c on three lanes."""
    plan = fork([cost_of("a", 5e-6), cost_of("b", 3e-6), cost_of("c", 4e-6)])
    assert longer_s(plan) == pytest.approx([0.0, 3e-6, 4e-6], abs=1e-12)


def test_one_with_little_code_hinders_nobody_and_is_hindered() -> None:
    """The first of the two would be made 1 µs longer itself, too little to hinder; the last is behind the second."""
    little, much = cost_of("a", HINDERS_S / 2), cost_of("b", 5e-6)
    assert longer_s(fork([little, much])) == pytest.approx([0.0, 0.0], abs=1e-12)
    assert longer_s(fork([much, little])) == pytest.approx([0.0, HINDERS_S / 2], abs=1e-12)


def test_kernels_of_one_code_do_not_hinder_each_other() -> None:
    """Two operations by one kernel, and one operation twice: the code has to be fetched once."""
    assert longer_s(fork([cost_of("a", 5e-6), cost_of("a", 3e-6)])) == pytest.approx([0.0, 0.0], abs=1e-12)
    assert longer_s(fork([cost_of("a", 5e-6)], kinds=[0, 0])) == pytest.approx([0.0, 0.0], abs=1e-12)


def test_tasks_on_one_lane_do_not_hinder_each_other() -> None:
    """a, then b behind it, beside c, which is hindered by a: b starts when all of the code of both is there."""
    plan = fork([cost_of("a", 5e-6), cost_of("b", 3e-6), cost_of("c", 4e-6)], lanes=[0, 0, 1])
    assert longer_s(plan) == pytest.approx([0.0, 0.0, 4e-6], abs=1e-12)


@pytest.mark.parametrize(("later_s", "hindered"), [(0.5e-6, True), (0.99e-6, True), (1.01e-6, False), (5e-6, False)])
def test_only_those_that_start_together_fetch_together(later_s: float, hindered: bool) -> None:
    """However long the first runs."""
    assert TOGETHER_S == 1e-6
    fetches = Fetches({0: Fetch(5e-6, {"a": 1.0}), 1: Fetch(3e-6, {"b": 1.0})})
    assert fetches.longer_s(0, 1.0) == 0.0
    assert fetches.longer_s(1, 1.0 + later_s) == (3e-6 if hindered else 0.0)


@pytest.mark.parametrize(("lost", "gone", "longer_s"), [(1.0, 1.0, 7e-6), (1.0, 0.5, 5e-6), (0.5, 0.0, 1.5e-6)])
def test_it_is_the_code_that_has_to_be_fetched_that_counts(lost: float, gone: float, longer_s: float) -> None:
    """3 µs where the cache of data has it, 4 more where it has not."""
    found = fetches_of({0: Fetched(CacheStates(beside_s=3e-6, beside_lost_s=4e-6), {"a": 1.0}, lost, gone)})
    assert found[0].longer_s == pytest.approx(longer_s)


def test_code_that_is_there_has_not_to_be_fetched() -> None:
    """One that lost nothing, one of which nothing was measured: none of them is in the way of others."""
    states = [CacheStates(beside_s=5e-6), CacheStates(company_s=1.0), CacheStates(1.0, 1.0)]
    assert not fetches_of({i: Fetched(state, {"a": 1.0}, float(i > 0), 1.0) for i, state in enumerate(states)})


def test_tasks_of_other_gpus_and_in_streams_are_not_in_the_way() -> None:
    """a and b, on a lane of each of two GPUs, or in eager mode."""
    plan = fork([cost_of("a", 5e-6), cost_of("b", 3e-6)])
    assert predict(plan, mode="eager").makespan_s == predict(plan, mode="eager", model=Model(fetches=False)).makespan_s
    costs = [cost_of("a", 5e-6), cost_of("b", 3e-6)]
    work, known = operations({"t0": 0, "t1": 1}, costs)
    apart = planned(work, platform(dispatch=FREE, costs=known), {"t0": "cuda:0/s0", "t1": "cuda:1/s0"})
    apart = replace(apart, mode="graph")
    assert predict(apart).makespan_s == predict(apart, model=Model(fetches=False)).makespan_s


def test_costs_keep_what_was_measured() -> None:
    """Through the rows of a file; rows without the figures, as older ones, have none."""
    cost = cost_of("a", 3e-6, 4e-6)
    rows = Costs({("op", "GPU"): cost}).to_dict()
    assert Costs.from_dict(rows)["op", "GPU"].cache == cost.cache
    for name in ("beside_s", "beside_lost_s"):
        rows[0]["cache"].pop(name, None)
    assert Costs.from_dict(rows)["op", "GPU"].cache == CacheStates(footprint=1.0)

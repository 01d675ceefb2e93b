"""`Plan.check` on plans that no text could make, and its speed in steps."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import networkx as nx
import pytest

from graphsched.errors import PlanError
from graphsched.plan import Lane, Placement, Plan, build_plan, check, known
from graphsched.workload import Workload
from tests.plan.hand import MATRIX, add, hand_platform, plan_of, sink


def _pair() -> Plan:
    """a (cuda:0) ─▶ b (cuda:1)"""
    work = Workload()
    sink(work, "b", add(work, "a", work.input("x", MATRIX, device="cuda:0")))
    return plan_of(work, {"a": "cuda:0/s0", "b": "cuda:1/s0"})


@pytest.mark.parametrize("checks", [check, Plan.check])
def test_check_is_the_method_and_the_function(checks: Callable[[Plan], None]) -> None:
    checks(_pair())
    with pytest.raises(PlanError, match="task 'b' of the workload is missing"):
        checks(replace(_pair(), names=["a", "a>cuda:1", "c"]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": ["a", "a>cuda:1", "c"]}, "task 'b' of the workload is missing"),
        ({"names": ["a", "a>cuda:1", "a"]}, "action 'a' appears 2 times"),
        ({"waits": [(), (0,), ()]}, "'b' depends on 'a>cuda:1'"),
        ({"waits": [(), (), (1,)]}, "'a>cuda:1' depends on 'a'"),
        ({"waits": [(2,), (0,), (1,)]}, "a -> a>cuda:1 -> b -> a"),
        ({"kinds": ["copy", "copy", "run"]}, "task 'a' is a run, the plan has a copy"),
        ({"lane_of": [2, 2, 3]}, "task 'a' may not run on cuda:0>cuda:1"),
        ({"frees": {1: ("a",)}}, "'a' is freed on another lane"),
        ({"frees": {0: ("a",)}}, "'a' is freed, but 'a>cuda:1' may still use it"),
        ({"homes": {"x": "cuda:0", "a": "cuda:1"}}, "a is not on cuda:0 but on cuda:1"),
    ],
)
def test_a_column_that_is_wrong(change: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        replace(_pair(), **change).check()


def test_a_plan_for_a_platform_without_its_link() -> None:
    plan = _pair()
    links = tuple(k for k in plan.platform.links if (k.source, k.target) != ("cuda:0", "cuda:1"))
    with pytest.raises(PlanError, match=r"line 12: no link from 'cuda:0' to 'cuda:1'"):
        replace(plan, platform=replace(plan.platform, links=links)).check()


def test_more_lanes_than_a_device_has() -> None:
    plan = _pair()
    lanes = (*plan.lanes, *(Lane.named(f"cuda:1/s{k}") for k in range(1, 33)))
    with pytest.raises(PlanError, match="cuda:1 has 32 compute lanes, cuda:1/s32 is one too many"):
        replace(plan, lanes=lanes).check()


def test_the_scheduler_may_wait_for_less_but_a_barrier_may_not() -> None:
    work = Workload()
    for name in "ab":
        sink(work, name)
    plan = plan_of(work, {"a": "cuda:0/s0", "b": "cuda:1/s0"}, wait_after={"b"})
    assert plan.waits[2] == (0, 1)
    replace(plan, waits=[(), (), (1,)]).check()
    work.barrier("stop")
    plan = plan_of(work, {"a": "cuda:0/s0", "b": "cuda:1/s0"})
    with pytest.raises(PlanError, match="'stop' depends on 'a'"):
        replace(plan, waits=[(), (), (1,)]).check()


def test_what_came_before_a_wait_of_the_thread_is_over_after_it() -> None:
    work = Workload()
    a = add(work, "a", work.input("x", MATRIX, device="cuda:0"))
    work.barrier("stop")
    sink(work, "b", a)
    plan = plan_of(work, {"a": "cuda:0/s0", "b": "cuda:0/s1"})
    number = {lane.name: k for k, lane in enumerate(plan.lanes)}
    assert plan.waits == [(), (0,), ()]
    assert known(plan)[2][number["cuda:0/s0"]] == 0


def _steps(n: int) -> int:
    """Function calls that building and checking a plan of n tasks takes: the work done, without a clock."""
    graph = nx.DiGraph()
    for i in range(n):
        graph.add_node(i, duration_s=1.0)
        if i:
            graph.add_edge(i - 1 if i % 2 else i - 2, i, nbytes=8)  # even ones feed the next even one and an odd one
    work = Workload.from_graph(graph)
    lanes = {t: f"cuda:0/s{int(t) % 2}" for t in work.graph}  # the even lane never hears of the odd one
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    placed = Placement(list(work.graph), lanes)
    sys.setprofile(count)
    try:
        build_plan(work, hand_platform(), None, placed, scheduler="by_hand").check()
    finally:
        sys.setprofile(None)
    return calls


def test_work_grows_in_proportion_to_the_plan() -> None:
    assert _steps(2000) < 2.5 * _steps(1000)

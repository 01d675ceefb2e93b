"""What tasks take at least is looked up once for those that take the same."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings

from graphsched.costs import Costs, TaskCost
from graphsched.schedulers.bounds import (
    bounds_by_name,
    critical_path_bound,
    fastest,
    interval_bound,
    link_bound,
    lower_bound,
    work_bound,
)
from graphsched.schedulers.bounds.fastest import Fastest
from graphsched.workload import Workload
from tests.schedulers.graphs import MATRIX, add, dags, graph, machine, measured

CHAIN = [("a", "b"), ("b", "c"), ("c", "d")]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the cost of each task is asked for, by name."""
    found: Counter[str] = Counter()
    real = fastest.task_cost

    def counted(task, device, costs):  # type: ignore[no-untyped-def]
        found[task.name] += 1
        return real(task, device, costs)

    monkeypatch.setattr(fastest, "task_cost", counted)
    return found


def test_all_bounds_ask_once_for_each_duration(asked: Counter[str]) -> None:
    """a ─▶ b ─▶ c ─▶ d: c takes as long as a."""
    work = graph(CHAIN, a=1.0, b=2.0, c=1.0, d={"cuda": 4.0, "cpu": 9.0})
    assert lower_bound(work, machine(1, cpu=False)) == 8.0
    assert asked == {"a": 1, "b": 1, "d": 1}


def test_one_bound_asks_once_for_each_duration(asked: Counter[str]) -> None:
    interval_bound(graph(CHAIN, a=1.0, b=2.0, c=1.0, d={"cuda": 4.0}), machine(1, cpu=False))
    assert asked == {"a": 1, "b": 1, "d": 1}


def test_given_durations_of_measured_operations_are_not_mixed_up() -> None:
    """Both take a second; s is an operation that gains from company and has a curve, t is not known."""
    work = Workload()
    x = work.input("x", MATRIX, device="cuda:0")
    add(work, "s", x, duration_s=None)
    add(work, "t", x, x)
    add(work, "u", x)
    cost = TaskCost(1.0, concurrency=((4, 1.5),))
    known = Fastest(work, machine(1, cpu=False), Costs({(work["s"].signature, "chip"): cost}), "eager")
    assert work["u"].signature == work["s"].signature
    for name, share in (("s", 1.5 / 4), ("t", 1.0), ("u", 1.0), ("s", 1.5 / 4)):
        assert known.alone_s(work[name], ("cuda:0",)) == 1.0
        assert set(known.shares_s(work[name], ("cuda:0",))) == {share}


@settings(deadline=None, max_examples=60)
@given(dags())
def test_answers_that_are_kept_are_those_of_each_task_alone(dag) -> None:  # type: ignore[no-untyped-def]
    work, platform = Workload.from_graph(dag), machine(2)
    kept = Fastest(work, platform, None, "eager")
    for task in work.tasks:
        for devices in (("cuda:0", "cuda:1", "cpu"), ("cpu",), ("cuda:1",)):
            anew = Fastest(work, platform, None, "eager")
            assert kept.alone_s(task, devices) == anew.alone_s(task, devices)
            assert kept.shares_s(task, devices) == anew.shares_s(task, devices)


@settings(deadline=None, max_examples=40)
@given(measured())
def test_bounds_by_name_are_those_of_each_alone(made: tuple[Workload, Costs]) -> None:
    work, costs = made
    platform = machine(2)
    for mode in ("eager", "graph"):
        assert bounds_by_name(work, platform, costs, mode=mode) == {
            "critical path": critical_path_bound(work, platform, costs, mode=mode),
            "work": work_bound(work, platform, costs, mode=mode),
            "intervals": interval_bound(work, platform, costs, mode=mode),
            "links": link_bound(work, platform),
        }

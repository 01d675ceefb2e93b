"""Optima, their proofs, and what happens where there is none."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.errors import ScheduleError
from graphsched.formats.stg import read_stg
from graphsched.plan import build_plan
from graphsched.schedulers import lower_bound, schedule
from graphsched.schedulers import optimal as module
from graphsched.schedulers.asking.progress import Progress, reported_to
from graphsched.schedulers.benchmarks.known_optima import packed, threaded
from graphsched.schedulers.optimal import Solution, find_optimum
from graphsched.simulator import predict
from graphsched.workload import Workload
from tests.schedulers.brute_force import shortest
from tests.schedulers.graphs import add, dags, graph, machine, workloads
from tests.schedulers.ideal import makespan
from tests.schedulers.processors import STG, best_known, processors, random_dag, small_dags
from tests.schedulers.searching.test_fast_clock import open_machine

pytest.importorskip("ortools")


@pytest.fixture
def unsearched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The solver does all the work."""
    monkeypatch.setattr(module, "SEARCHED_TASKS", 0)


def assert_solved(found: Solution, work: Workload, best: float) -> None:
    """A bound that holds, a placement that takes what is said, and an optimum where that is claimed."""
    assert found.bound_s <= best * (1 + 1e-9)
    assert found.makespan_s >= best * (1 - 1e-9)
    if found.is_proven:
        assert found.makespan_s == pytest.approx(best, rel=2e-4)
    assert found.gap == pytest.approx(1 - found.bound_s / found.makespan_s if found.makespan_s else 0.0, abs=1e-12)


@pytest.mark.usefixtures("unsearched")
@settings(deadline=None, max_examples=40)
@given(dag=dags(most=5))
def test_graphs_with_communication(dag: nx.DiGraph) -> None:
    """Unlike devices and transfers: as short as the best of all plans, and proven to be."""
    work, platform = Workload.from_graph(dag), open_machine(2)
    found = find_optimum(work, platform)
    assert_solved(found, work, shortest(work, platform))
    assert found.is_proven
    plan = build_plan(work, platform, None, found.placement, scheduler="x")
    plan.check()
    assert makespan(plan) == found.makespan_s


@pytest.mark.usefixtures("unsearched")
@settings(deadline=None, max_examples=60)
@given(work=workloads(most=5))
def test_workloads_of_all_kinds(work: Workload) -> None:
    """States, views, updates, copies and barriers."""
    platform = open_machine(2)
    assert_solved(find_optimum(work, platform), work, shortest(work, platform))


@pytest.mark.usefixtures("unsearched")
@settings(deadline=None, max_examples=30)
@given(dag=small_dags(6), count=st.integers(2, 3))
def test_identical_processors(dag: nx.DiGraph, count: int) -> None:
    """As short as the best of all plans, and proven to be."""
    work, platform = Workload.from_graph(dag), processors(count)
    found = find_optimum(work, platform)
    assert_solved(found, work, shortest(work, platform))
    assert found.is_proven


@pytest.mark.usefixtures("unsearched")
def test_copies_go_in_the_order_of_their_readers() -> None:
    """a's copy would fit on the lane before b's, but x, which reads it, comes after y: 11 s, and not 8.

    a(1) and b(4) run on cuda:0, y(1) and x(1) on cuda:1. b's copy takes 5 to 6, a's then 6 to 10, and x 10 to 11.

    ::

        a ───4 bytes──▶ x
        b ─1─▶ y ──────▶
    """
    dag = nx.DiGraph()
    for name, where, took in (("a", 0, 1.0), ("b", 0, 4.0), ("y", 1, 1.0), ("x", 1, 1.0)):
        dag.add_node(name, duration_s={f"cuda:{where}": took})
    dag.add_edges_from([("a", "x", {"nbytes": 4}), ("b", "y", {"nbytes": 1}), ("y", "x"), ("a", "b")])
    work = Workload.from_graph(dag)
    found = find_optimum(work, open_machine(2))
    assert found.makespan_s == shortest(work, open_machine(2)) == found.bound_s == 11.0


@pytest.mark.usefixtures("unsearched")
def test_copies_of_one_reader_go_in_the_order_of_its_reads() -> None:
    """x reads a, then b, which is there first: its copy waits behind a's, 5 to 6 and 6 to 10; x ends at 11, not at 7.

    ::

        b(1) ─4─▶ x(1)
        a(4) ─1─▶
    """
    dag = nx.DiGraph()
    for name, where, took in (("b", 0, 1.0), ("a", 0, 4.0), ("x", 1, 1.0)):
        dag.add_node(name, duration_s={f"cuda:{where}": took})
    dag.add_edges_from([("b", "a"), ("a", "x", {"nbytes": 1}), ("b", "x", {"nbytes": 4})])
    work = Workload.from_graph(dag)
    found = find_optimum(work, open_machine(2))
    assert found.makespan_s == shortest(work, open_machine(2)) == found.bound_s == 11.0


@pytest.mark.usefixtures("unsearched")
def test_one_copy_engine_serves_all_lanes() -> None:
    """b and c read 6 bytes each from a, on two other GPUs: 1 + 6 + 6 + 1."""
    dag = nx.DiGraph()
    for k, name in enumerate("abc"):
        dag.add_node(name, duration_s={f"cuda:{k}": 1.0})
    dag.add_edge("a", "b", nbytes=6)
    dag.add_edge("a", "c", nbytes=6)
    work, platform = Workload.from_graph(dag), machine(3, cpu=False)
    found = find_optimum(work, platform)
    assert (found.makespan_s, found.bound_s) == (14.0, 14.0)
    assert predict(schedule(work, platform, scheduler="optimal")).makespan_s == 14.0


@pytest.mark.usefixtures("unsearched")
@pytest.mark.parametrize("method", [packed, threaded])
def test_optima_that_are_known_are_found(method: object) -> None:
    """Workloads with communication that were built around their optimum."""
    for seed in range(3):
        made = method(2, 8, communication=1.0, seed=seed)  # type: ignore[operator]
        found = find_optimum(made.work, made.platform)
        assert (found.makespan_s, found.is_proven) == (made.makespan_s, True)


@pytest.mark.parametrize("name", ["100/rand0012.stg", "100/rand0084.stg", "50/rand0080.stg"])
def test_graphs_whose_optimum_is_above_the_lower_bound(name: str) -> None:
    """On two processors: the solver proves what the bounds do not."""
    work = Workload.from_graph(read_stg(STG / name))
    found = find_optimum(work, processors(2), seconds=60.0)
    assert found.makespan_s == found.bound_s == best_known()[name, 2]
    assert found.makespan_s > lower_bound(work, processors(2))


def test_the_plan_says_what_is_proven() -> None:
    """In its scheduler's name and as a bound."""
    work = Workload.from_graph(read_stg(STG / "100/rand0012.stg"))
    proven = schedule(work, processors(2), scheduler="optimal", seconds=60.0)
    assert (proven.scheduler, proven.bound_s) == ("optimal seconds=60.0 (proven)", 312.0)
    hurried = schedule(work, processors(2), scheduler="optimal", seconds=0.0)
    assert hurried.scheduler.startswith("optimal seconds=0.0 (gap ")
    assert hurried.bound_s == 296.0
    assert predict(hurried).makespan_s == predict(proven).makespan_s == 312.0


def test_the_plan_has_a_bound_only_where_it_holds_for_more_lanes() -> None:
    """Two tasks of 2 s: on a lane of a CPU that has four; on a GPU, where side by side they take as long or longer."""
    from graphsched.costs import Costs, TaskCost

    assert schedule(graph(a={"cpu": 2.0}, b={"cpu": 2.0}), machine(1), scheduler="optimal").bound_s is None
    work = Workload()
    for name in "ab":
        add(work, name, duration_s=None)
    for curve, bound in (((), 4.0), (((2, 1.0),), None)):
        costs = Costs({(work[name].signature, "chip"): TaskCost(2.0, concurrency=curve) for name in "ab"})
        plan = schedule(work, machine(1, cpu=False), costs, scheduler="optimal")
        assert (plan.bound_s, plan.scheduler) == (bound, "optimal (proven)")


@pytest.mark.usefixtures("unsearched")
def test_seconds_that_are_no_whole_numbers_of_any_unit() -> None:
    """Thirds and square roots: proven to within 0.01 %."""
    dag = random_dag(6, 1)
    for k, node in enumerate(dag):
        dag.nodes[node]["duration_s"] = {"cuda:0": 1 / (k + 3), "cuda:1": (k + 1) ** -0.5}
    work = Workload.from_graph(dag)
    found = find_optimum(work, open_machine(2))
    assert found.is_proven
    assert_solved(found, work, shortest(work, open_machine(2)))


def test_effort_makes_a_run_without_proof_repeatable() -> None:
    """Too little for a proof, and the same both times."""
    made = packed(3, 24, communication=2.0, seed=2)
    one, two = (find_optimum(made.work, made.platform, effort=0.1, seconds=100.0) for _ in range(2))
    assert (one.placement, one.bound_s) == (two.placement, two.bound_s)
    assert one.bound_s <= one.makespan_s


def test_it_reports_what_it_knows() -> None:
    """The end last: makespan and bound are those of the solution."""
    told: list[Progress] = []
    work = Workload.from_graph(read_stg(STG / "50/rand0080.stg"))
    with reported_to(told.append):
        found = find_optimum(work, processors(2))
    assert (told[-1].makespan_s, told[-1].bound_s) == (found.makespan_s, found.bound_s)
    assert {progress.scheduler for progress in told} == {"optimal"}


# -- what cannot be done -------------------------------------------------------------------------


def test_without_or_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install, and what to use instead; also where no solver would be needed."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ScheduleError, match=r"needs OR-Tools.*pip install 'graphsched\[optimal\]'.*'search'"):
        schedule(graph(a=1.0), machine(1), scheduler="optimal")


def test_graphs_that_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Told at once, with what would do."""
    with pytest.raises(ScheduleError, match=r"up to 2,000 tasks, this one has 2,001: use 'search'"):
        schedule(Workload.from_graph(random_dag(2001, 0)), processors(2), scheduler="optimal")
    monkeypatch.setattr(module, "MOST_INTERVALS", 10)
    made = packed(3, 12)
    with pytest.raises(ScheduleError, match=r"up to 10 tasks × places and copies × pairs of devices"):
        schedule(made.work, made.platform, scheduler="optimal")


@pytest.mark.parametrize("wrong", [{"seconds": -1.0}, {"workers": 0}, {"effort": -0.5}, {"lanes": 0}])
def test_options_out_of_range(wrong: dict[str, object]) -> None:
    with pytest.raises(ScheduleError, match=next(iter(wrong))):
        schedule(graph(a=1.0), machine(1), scheduler="optimal", **wrong)


def test_costs_default_to_those_of_the_platform() -> None:
    """A task without a duration is looked up there."""
    from graphsched.costs import Costs, TaskCost

    work = Workload()
    add(work, "a", duration_s=None)
    costs = Costs({(work["a"].signature, "chip"): TaskCost(3.0)})
    platform = replace(machine(1, cpu=False), costs=costs)
    assert find_optimum(work, platform).makespan_s == 3.0
    assert find_optimum(work, platform, Costs()).makespan_s < 1.0


def test_proven_is_what_the_simulator_says_too() -> None:
    """Two lanes of one GPU take 4 s for a and b whatever they do. Side by side, as the solver would have them, both are
    over at 4, and c at 5: that is proven to within a second, and not to be the best.

    ::

        a (2, cuda) ─▶ c (1, cpu)        b (2, cuda)
    """
    work = graph(a={"cuda": 2.0}, b={"cuda": 2.0})
    assert schedule(work, machine(1), scheduler="optimal", lanes=2).scheduler == "optimal lanes=2 (proven)"
    work = graph([("a", "c")], a={"cuda": 2.0}, b={"cuda": 2.0}, c={"cpu": 1.0})
    plan = schedule(work, machine(1), scheduler="optimal", lanes=2)
    assert plan.scheduler == "optimal lanes=2 (gap 20.00 %)"
    assert predict(plan).makespan_s == 5.0

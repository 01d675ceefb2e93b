"""The scheduler that searches."""

from __future__ import annotations

import time

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.errors import PlatformError, ScheduleError
from graphsched.formats.stg import read_stg
from graphsched.schedulers import lower_bound, schedule
from graphsched.schedulers.asking.progress import Progress, reported_to
from graphsched.schedulers.benchmarks.known_optima import packed
from graphsched.schedulers.search import STARTS, search
from graphsched.simulator import predict
from graphsched.workload import Workload
from tests.schedulers.graphs import dags, graph, machine, workloads
from tests.schedulers.processors import STG, best_known, processors, random_dag


def seconds(work: Workload, platform: object, scheduler: str, **options: object) -> float:
    return predict(schedule(work, platform, scheduler=scheduler, **options)).makespan_s  # type: ignore[arg-type]


@settings(deadline=None, max_examples=40)
@given(dag=dags(), name=st.sampled_from(STARTS))
def test_it_is_never_worse_than_a_list_schedule(dag: nx.DiGraph, name: str) -> None:
    work = Workload.from_graph(dag)
    assert seconds(work, machine(2), "search", iterations=20) <= seconds(work, machine(2), name) * (1 + 1e-12)


@settings(deadline=None, max_examples=30)
@given(work=workloads())
def test_it_is_never_worse_than_heft(work: Workload) -> None:
    """With states, copies and barriers."""
    assert seconds(work, machine(2), "search", iterations=20) <= seconds(work, machine(2), "heft") * (1 + 1e-12)


def test_it_finds_better_ones() -> None:
    """Tasks that just fill four devices, with transfers."""
    made = packed(4, 40, communication=1.0)
    found = {name: seconds(made.work, made.platform, name) for name in ("heft", "peft")}
    assert min(found.values()) > made.makespan_s
    assert seconds(made.work, made.platform, "search", iterations=1000) < min(found.values())


def test_identical_processors_within_a_few_iterations() -> None:
    """Optimal where critical-path scheduling is not."""
    work = Workload.from_graph(read_stg(STG / "50/rand0028.stg"))
    assert seconds(work, processors(4), "search", iterations=500) == lower_bound(work, processors(4)) == 162.0
    assert seconds(work, processors(4), "critical_path") > 162.0


def test_the_same_seed_and_iterations_give_the_same_plan() -> None:
    made = packed(3, 20, seed=1)
    plans = {
        seed: schedule(made.work, made.platform, scheduler="search", iterations=200, seed=seed).text
        for seed in (0, 1, 2)
    }
    for seed, text in plans.items():
        assert schedule(made.work, made.platform, scheduler="search", iterations=200, seed=seed).text == text
    assert len({text.split("lanes\n")[1] for text in plans.values()}) > 1


def test_a_time_budget_ends_it() -> None:
    """Half a second for what a thousand times as many iterations would not finish."""
    work = Workload.from_graph(random_dag(300, 2))
    begin = time.perf_counter()
    schedule(work, processors(7), scheduler="search", seconds=0.5, iterations=10**9)
    assert time.perf_counter() - begin < 20.0


def test_it_reports_how_far_it_has_come() -> None:
    """Parts of the budget in order, the best so far and the bound."""
    told: list[Progress] = []
    made = packed(3, 20, communication=2.0, seed=1)
    with reported_to(told.append):
        found = seconds(made.work, made.platform, "search", iterations=300)
    assert told[0].done < 0.05
    assert told[-1].done == 1.0
    assert [p.done for p in told] == sorted(p.done for p in told)
    assert [p.makespan_s for p in told] == sorted((p.makespan_s for p in told), reverse=True)
    assert told[-1].makespan_s == pytest.approx(found)
    assert {p.bound_s for p in told} == {made.makespan_s}


def test_nothing_is_searched_where_a_list_schedule_reaches_the_bound() -> None:
    told: list[Progress] = []
    with reported_to(told.append):
        schedule(graph(a=1.0, b=1.0), processors(2), scheduler="search")
    assert told == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"iterations": -1}, "iterations=-1: 0 or more"),
        ({"seconds": -1.0}, r"seconds=-1\.0: 0 or more"),
        ({"lanes": 0}, "lanes=0"),
        ({"depth": 3}, "no option 'depth'"),
    ],
)
def test_options_out_of_range(options: dict[str, object], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        schedule(graph(a=1.0), machine(1), scheduler="search", **options)


def test_what_no_list_scheduler_can_place() -> None:
    """Two tasks bound to devices that no link joins."""
    dag = nx.DiGraph([("a", "b")])
    dag.edges["a", "b"]["nbytes"] = 1
    nx.set_node_attributes(dag, {"a": {"worker:0": 1.0}, "b": {"worker:1": 1.0}}, "duration_s")
    with pytest.raises(PlatformError, match="no link"):
        search(Workload.from_graph(dag), processors(2), processors(2).costs)


@pytest.mark.slow
def test_the_standard_task_graphs() -> None:
    """2,000 iterations each: 0.02 % above the optimum on average, at most."""
    excess = []
    for (name, count), best in best_known().items():
        work = Workload.from_graph(read_stg(STG / name))
        excess.append(seconds(work, processors(count), "search", iterations=2000) / best - 1)
    assert len(excess) == 120
    assert min(excess) >= 0
    assert sum(excess) / len(excess) <= 0.0002

"""Which workloads are problems of identical processors, and what starts become there."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.costs import Costs
from graphsched.plan import build_plan
from graphsched.platform import Platform
from graphsched.schedulers.placing.candidates import find_candidates
from graphsched.schedulers.placing.lanes import lane_counts
from graphsched.schedulers.searching.identical import Identical, find_identical
from graphsched.schedulers.searching.list_decoding import by_task
from graphsched.simulator import predict
from graphsched.workload import Workload
from tests.schedulers.graphs import MATRIX, add, graph, machine
from tests.schedulers.processors import identical, processors, small_dags


def found(work: Workload, platform: Platform, lanes: int = 1) -> Identical | None:
    return find_identical(work, platform, Costs(), lane_counts(platform, find_candidates(work, platform).used(), lanes))


def test_tasks_by_number_in_the_order_of_the_workload() -> None:
    """a ─▶ b on two processors."""
    tasks = found(graph([("a", "b")], a=1.0, b=2.0), processors(2))
    assert tasks is not None
    assert (tasks.names, tasks.seconds, tasks.lanes) == (["a", "b"], [1.0, 2.0], ["worker:0/s0", "worker:1/s0"])
    assert (tasks.before, tasks.after, tasks.tails_s()) == ([[], [0]], [[1], []], [3.0, 2.0])


def test_time_runs_backwards() -> None:
    """a ─▶ b, a ─▶ c: c and b before a."""
    tasks = identical(graph_of([("a", "b"), ("a", "c")], a=1.0, b=2.0, c=3.0), 1).backwards()
    assert (tasks.names, tasks.seconds, tasks.before) == (["c", "b", "a"], [3.0, 2.0, 1.0], [[], [], [1, 0]])


def graph_of(edges: list[tuple[str, str]], **seconds: float) -> nx.DiGraph:
    made = nx.DiGraph()
    made.add_nodes_from((name, {"duration_s": s}) for name, s in seconds.items())
    made.add_edges_from(edges)
    return made


def test_what_is_not_a_problem_of_identical_processors() -> None:
    """Unlike devices, a task that is bound, values that must be copied, copies and barriers."""
    assert found(graph(a={"cuda:0": 1.0, "cuda:1": 2.0}), machine(2, cpu=False)) is None
    bound, passing, copying, waiting = Workload(), Workload(), Workload(), Workload()
    add(bound, "a", device="cuda:1")
    add(bound, "b")
    add(passing, "b", add(passing, "a"))
    copying.copy(add(copying, "a"), to="cpu")
    add(waiting, "a")
    waiting.barrier()
    for work in (bound, passing, copying, waiting):
        assert found(work, machine(2, cpu=False)) is None, work.name


def test_lanes_of_one_device_share_all_values() -> None:
    """Tasks that pass values on three lanes of a CPU; not where an input lies elsewhere."""
    host = machine(1)
    work = Workload()
    add(work, "b", add(work, "a", device="cpu"), device="cpu")
    tasks = found(work, host, lanes=3)
    assert tasks is not None
    assert tasks.lanes == ["cpu/w0", "cpu/w1", "cpu/w2"]
    add(work, "c", work.input("x", MATRIX, device="cuda:0"), device="cpu")
    assert found(work, host, lanes=3) is None


@settings(deadline=None, max_examples=80)
@given(dag=small_dags(), count=st.integers(1, 4))
def test_a_placement_is_predicted_as_its_starts_say(dag: nx.DiGraph, count: int) -> None:
    """Simulated, on lanes that are free when their tasks start."""
    tasks = identical(dag, count)
    start_s = by_task(tasks, [-tail for tail in tasks.tails_s()])
    plan = build_plan(Workload.from_graph(dag), processors(count), None, tasks.placement(start_s, "own"), scheduler="x")
    plan.check()
    assert predict(plan).makespan_s == pytest.approx(tasks.makespan_s(start_s))

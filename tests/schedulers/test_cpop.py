"""CPOP against the example of its paper, and case by case."""

from __future__ import annotations

import networkx as nx
import pytest

from graphsched.costs import Costs
from graphsched.plan import Plan
from graphsched.schedulers import schedule
from graphsched.schedulers.cpop import critical_path_of, paths_through
from graphsched.schedulers.placing.levels import levels_above, levels_below, transfer_seconds, typical_seconds
from graphsched.schedulers.placing.timetable import Timetable
from graphsched.workload import Workload
from tests.schedulers.graphs import MATRIX, add, graph, lanes_of, machine
from tests.schedulers.papers import THREE, by_paper, timed, topcuoglu


def table_of(work: Workload) -> Timetable:
    """An empty timetable on three devices."""
    return Timetable(work, THREE, Costs(), lanes=1, copies="own", contention=False)


def test_priorities_of_the_paper() -> None:
    """The paper's table of ranks: downward, upward, and the critical path n1 n2 n9 n10 of 108."""
    work = topcuoglu()
    table = table_of(work)
    seconds, transfers = typical_seconds(table), transfer_seconds(table)
    above, below = levels_above(work, seconds, transfers), levels_below(work, seconds, transfers)
    names = [f"n{i}" for i in range(1, 11)]
    down = [0, 31, 25, 22, 24, 27, 62.333, 66.667, 63.667, 93.333]
    up = [108, 77, 80, 80, 69, 63.333, 42.667, 35.667, 44.333, 14.667]
    assert [above[name] for name in names] == pytest.approx(down, abs=5e-4)
    assert [below[name] for name in names] == pytest.approx(up, abs=5e-4)
    assert critical_path_of(work, paths_through(table)) == ["n1", "n2", "n9", "n10"]


def test_the_critical_path_is_the_longest() -> None:
    """Not the first: a, c and e (7 s), through the second successor and the second last task.

    ::

        x (1)     a (1) ─▶ b (1) ─▶ d (1)
                    └────▶ c (5) ─▶ e (1)
    """
    edges = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "e")]
    work = graph(edges, x=1.0, a=1.0, b=1.0, d=1.0, c=5.0, e=1.0)
    assert critical_path_of(work, paths_through(table_of(work))) == ["a", "c", "e"]


def test_schedule_of_the_paper() -> None:
    """The paper's schedule: the critical path on P2 (54 there, 66 and 63 elsewhere), makespan 86."""
    where, starts, makespan_s = by_paper("cpop", topcuoglu())
    assert makespan_s == 86
    assert [where[name] for name in ("n1", "n2", "n9", "n10")] == [2, 2, 2, 2]
    assert [starts[name] for name in ("n1", "n2", "n5", "n9", "n10")] == [0, 16, 35, 65, 79]


def starts_of(plan: Plan) -> dict[str, float]:
    """When tasks start, without queues."""
    return timed(plan).start_s


def test_the_critical_path_stays_on_the_fastest_device() -> None:
    """a, b and c take 3 s a task on cuda:0 and 2 s on cuda:1, though cuda:0 ends `a` first (1 s).

    ::

        a ─▶ b ─▶ c       d (on cuda:0: 1, cuda:1: 9)
    """
    dag = nx.DiGraph([("a", "b"), ("b", "c")])
    dag.add_node("d")
    seconds = {"a": (1.0, 2.0), "b": (4.0, 2.0), "c": (4.0, 2.0), "d": (1.0, 9.0)}
    nx.set_node_attributes(dag, {n: {"cuda:0": x, "cuda:1": y} for n, (x, y) in seconds.items()}, "duration_s")
    plan = schedule(Workload.from_graph(dag), machine(2, cpu=False), scheduler="cpop")
    assert {name: lane[:6] for name, lane in lanes_of(plan).items()} == {
        "a": "cuda:1", "b": "cuda:1", "c": "cuda:1", "d": "cuda:0",
    }  # fmt: skip


def test_the_device_of_the_path_is_one_for_most_of_it() -> None:
    """As above, with a last task for the cpu alone: the cpu's sum (1 s) is less, but it may run one task only.

    ::

        a ─▶ b ─▶ c ─▶ end (cpu: 1)
    """
    dag = nx.DiGraph([("a", "b"), ("b", "c"), ("c", "end")])
    seconds = {"a": (1.0, 2.0), "b": (4.0, 2.0), "c": (4.0, 2.0)}
    nx.set_node_attributes(dag, {n: {"cuda:0": x, "cuda:1": y} for n, (x, y) in seconds.items()}, "duration_s")
    dag.nodes["end"]["duration_s"] = {"cpu": 1.0}
    lanes = lanes_of(schedule(Workload.from_graph(dag), machine(2), scheduler="cpop"))
    assert [lanes[name][:6] for name in "abc"] == ["cuda:1"] * 3


def test_tasks_of_the_path_that_may_not_run_there_go_elsewhere() -> None:
    """b may run on the cpu alone; the rest of the path is on the GPU, where both others may run.

    ::

        a (1) ─▶ b (cpu) ─▶ c (1)
    """
    work = Workload()
    a = add(work, "a", device="cuda")
    add(work, "c", add(work, "b", a, device="cpu"), device="cuda")
    plan = schedule(work, machine(1), scheduler="cpop")
    plan.check()
    lanes = lanes_of(plan)
    assert [lanes[name] for name in "abc"] == ["cuda:0/s0", "cpu/w0", "cuda:0/s0"]


def test_fills_a_gap() -> None:
    """d (1 s) goes before b, which waits for 5 bytes from a.

    ::

        a (1, cuda:0) ─5 bytes─▶ b (9, cuda:1)        d (1, cuda:1)
    """
    dag = nx.DiGraph([("a", "b", {"nbytes": 5})])
    dag.add_node("d")
    nx.set_node_attributes(dag, {"a": {"cuda:0": 1.0}, "b": {"cuda:1": 9.0}, "d": {"cuda:1": 1.0}}, "duration_s")
    plan = schedule(Workload.from_graph(dag), machine(2), scheduler="cpop")
    assert starts_of(plan) == {"a": 0, "d": 0, "b": 6}


def test_a_workload_of_copies_and_barriers_alone_has_no_path_to_place() -> None:
    """Nothing runs, all is passed by."""
    work = Workload()
    x = work.input("x", MATRIX, device="cuda:0")
    work.copy(x, to="cpu", pinned=True, name="copy")
    work.barrier("wall")
    assert schedule(work, machine(1), scheduler="cpop").names == ["copy", "wall"]
    assert len(schedule(graph(), machine(1), scheduler="cpop")) == 0

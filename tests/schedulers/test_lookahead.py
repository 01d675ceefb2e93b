"""Lookahead against a published schedule, and case by case."""

from __future__ import annotations

import networkx as nx

from graphsched.costs import Costs
from graphsched.platform import Device, Link, Platform
from graphsched.schedulers import schedule
from graphsched.schedulers.placing.timetable import Timetable
from graphsched.workload import Workload
from tests.schedulers.graphs import MATRIX, add, lanes_of, machine
from tests.schedulers.papers import THREE, arabnejad, by_paper, timed, topcuoglu


def test_published_schedule() -> None:
    """On the graph of Arabnejad and Barbosa 2014: 127, as they say, between PEFT's 122 and HEFT's 133."""
    where, starts, makespan_s = by_paper("lookahead", arabnejad())
    assert makespan_s == 127
    assert list(where.values()) == [2, 2, 1, 3, 2, 3, 1, 2, 2, 2]
    assert list(starts.values()) == [0, 48, 52, 52, 21, 28, 84, 67, 90, 111]


def test_better_than_heft_on_its_paper() -> None:
    """76 on the graph of Topcuoglu 2002, where HEFT has 80."""
    assert by_paper("lookahead", topcuoglu())[2] == 76
    assert by_paper("heft", topcuoglu())[2] == 80


def test_the_successor_counts() -> None:
    """a is over first on cuda:0, but b must run on cuda:1 and would wait for 5 bytes: 7 s instead of 3.

    ::

        a (cuda:0: 1, cuda:1: 2) ─5 bytes─▶ b (cuda:1: 1)
    """
    dag = nx.DiGraph([("a", "b", {"nbytes": 5})])
    nx.set_node_attributes(dag, {"a": {"cuda:0": 1.0, "cuda:1": 2.0}, "b": {"cuda:1": 1.0}}, "duration_s")
    plan = schedule(Workload.from_graph(dag), machine(2, cpu=False), scheduler="lookahead")
    assert lanes_of(plan)["a"] == "cuda:1/s0"
    assert timed(plan).makespan_s == 3


def test_where_successors_end_at_one_time_the_task_itself_decides() -> None:
    """b waits for `long` (9 s) anyway, so a goes where it is over first, though cuda:1 stands first for it.

    ::

        a (cuda:0: 2, cuda:1: 1) ─▶ b (cpu: 1) ◀─ long (cpu: 9)
    """
    dag = nx.DiGraph([("a", "b"), ("long", "b")])
    seconds = {"a": {"cuda:0": 2.0, "cuda:1": 1.0}, "long": {"cpu": 9.0}, "b": {"cpu": 1.0}}
    nx.set_node_attributes(dag, seconds, "duration_s")
    plan = schedule(Workload.from_graph(dag), machine(2), scheduler="lookahead")
    assert lanes_of(plan)["a"] == "cuda:1/s0"


def test_a_copy_is_a_successor_too() -> None:
    """a's copy to the cpu takes 256 s from the GPU and none inside the cpu's memory, where a takes 9 s for 1.

    ::

        a (cuda: 1, cpu: 9) ─▶ copy to cpu
    """
    work = Workload()
    work.copy(add(work, "a", duration_s={"cuda": 1.0, "cpu": 9.0}), to="cpu", pinned=True, name="copy")
    links = (Link("cuda:0", "cpu", "pinned", 0.0, 1.0), Link("cpu", "cpu", "local", 0.0, 1e9))
    near = Platform("near", (Device("cuda:0", "cuda"), Device("cpu", "cpu")), links)
    assert lanes_of(schedule(work, near))["a"] == "cuda:0/s0"
    assert lanes_of(schedule(work, near, scheduler="lookahead"))["a"] == "cpu/w0"


def test_predecessors_of_successors_may_have_no_place_yet() -> None:
    """When a is tried, b reads a version of w, which lives on cuda:1, that `step` has not written yet.

    ::

        a (9) ─▶ b(w@1)        w ─▶ step(w) ─▶ b
    """
    work = Workload()
    w = work.state("w", MATRIX, device="cuda:1")
    a = add(work, "a", duration_s=9.0)
    add(work, "step", w, updates=w)
    add(work, "b", a, w, device="cuda:0")
    plan = schedule(work, machine(2, cpu=False), scheduler="lookahead")
    plan.check()
    assert [name for name in plan.names if name in work.graph] == ["a", "step", "b"]


def test_a_device_from_which_nothing_leads_to_the_successor_is_avoided() -> None:
    """b may run on cuda:0 alone, and no link leads there."""
    dag = nx.DiGraph([("a", "b", {"nbytes": 1})])
    nx.set_node_attributes(dag, {"a": {"cuda:0": 9.0, "cuda:1": 1.0}, "b": {"cuda:0": 1.0}}, "duration_s")
    plan = schedule(Workload.from_graph(dag), Platform("apart", THREE.devices), scheduler="lookahead")
    assert set(lanes_of(plan).values()) == {"cuda:0/s0"}


def test_trials_leave_nothing_behind() -> None:
    """A timetable in which all was tried and nothing placed is like a new one: same chances for each task."""
    work = Workload()
    w = work.state("w", MATRIX)
    a = add(work, "a", w, work.input("x", MATRIX, device="cuda:1"))
    work.copy(a, to="cuda:0", pinned=True, name="copy")
    add(work, "b", a, w, updates=w)
    table = Timetable(work, machine(2), Costs(), lanes=2, copies="own", contention=True)
    before = {name: list(table.chances(work[name])) for name in ("a", "b")}
    for device in ("cuda:0", "cuda:1"):
        with table.tried():
            table.place(work["a"], device)
            table.pass_by(work["copy"])
            table.place_best(work["b"])
            assert table.makespan_s > 0
    assert (table.start_s, table.end_s, table.makespan_s) == ({}, {}, 0.0)
    assert {name: list(table.chances(work[name])) for name in ("a", "b")} == before

"""Schedulers over ready tasks against the plainest form of their rules, and with copies that queue."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.costs import Costs
from graphsched.errors import PlatformError
from graphsched.platform import Device, Platform
from graphsched.schedulers import schedule
from graphsched.schedulers.placing.ready_list import LOOKS, Ready, place_ready
from graphsched.schedulers.placing.timetable import Timetable
from graphsched.workload import Workload
from tests.schedulers.graphs import MATRIX, add, dags, lanes_of, machine
from tests.schedulers.naive import schedule_naively
from tests.schedulers.papers import timed

RULES = ("etf", "dls", "min_min", "max_min")


@settings(deadline=None, max_examples=200)
@given(dag=dags(), rule=st.sampled_from(RULES))
def test_each_step_is_the_rules(dag: nx.DiGraph, rule: str) -> None:
    """Device and start of each task, where copies do not queue."""
    here = machine(2)
    plan = schedule(Workload.from_graph(dag), here, scheduler=rule, contention=False)
    expected = schedule_naively(rule, dag, [device.name for device in here.devices])
    table = timed(plan)
    found = {name: (lanes_of(plan)[name].partition("/")[0], table.start_s[name]) for name in dag}
    assert found == expected


def fork(size: int, nbytes: int) -> Workload:
    """One task, and many that each need `nbytes` of their own of it.

    ::

        root (1) ─▶ t1 (1), t2 (1), …
    """
    dag = nx.DiGraph()
    dag.add_node("root", duration_s={"cuda:0": 1.0})
    dag.add_nodes_from((f"t{i}", {"duration_s": 1.0}) for i in range(size))
    dag.add_edges_from(("root", f"t{i}", {"nbytes": nbytes}) for i in range(size))
    return Workload.from_graph(dag)


@pytest.mark.parametrize("rule", [*RULES, "critical_path"])
def test_copies_that_queue_are_no_surprise(rule: str) -> None:
    """A copy takes 2 s: cuda:1 can start a task at 3, 5 and 7, cuda:0 at 1, 2, 3, …, and first where both can.

    Without queues cuda:1 is thought to start one at 3, 4 and 5.
    """
    starts = {}
    for contention in (True, False):
        plan = schedule(fork(9, 2), machine(2, cpu=False), scheduler=rule, contention=contention)
        table = timed(plan, contention=True)
        starts[contention] = [table.start_s[name] for name in table.start_s if lanes_of(plan)[name] == "cuda:1/s0"]
    assert starts == {True: [3, 5], False: [3, 5, 7]}


@pytest.mark.parametrize("rule", [*RULES, "critical_path"])
def test_many_queues_are_no_reason_to_look_for_ever(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For 60 tasks that all queue for the same links, no more than `LOOKS` tasks are looked at a step."""
    looks = []
    real = Timetable.ready_s
    monkeypatch.setattr(Timetable, "ready_s", lambda self, *what: looks.append(what) or real(self, *what))
    schedule(fork(60, 3), machine(4, cpu=False), scheduler=rule)
    assert len(looks) <= 61 * 4 * (LOOKS + 1)


def test_who_chooses_sees_only_what_may_be() -> None:
    """Infinite where a task may not run, in the order of the workload; copies and barriers are not offered."""
    work = Workload()
    add(work, "a", device="cuda:1")
    work.barrier("wall")
    add(work, "b", device="cpu")
    seen: list[list[list[float]]] = []

    def choose(ready: Ready) -> tuple[int, int]:
        seen.append(ready.start_s.tolist())
        return 0, int(ready.start_s[0].argmin())

    table = Timetable(work, machine(2), Costs(), lanes=1, copies="own", contention=True)
    place_ready(table, choose)
    assert list(table.counts) == ["cuda:1", "cpu"]
    assert seen == [[[0.0, float("inf")]], [[float("inf"), 1.0]]]
    assert table.placement().order == ["a", "wall", "b"]


def test_long_chains_of_copies_are_no_deeper_than_short_ones() -> None:
    """2,000 copies to and fro, one behind the other: the limit of Python's stack is 1,000.

    ::

        x ─▶ c0 ─▶ c1 ─▶ … ─▶ c1999 ─▶ a
    """
    work = Workload()
    value = work.input("x", MATRIX, device="cpu")
    for k in range(2000):
        value = work.copy(value, to=("cuda:0", "cpu")[k % 2], pinned=True, name=f"c{k}")
    add(work, "a", value)
    for rule in ("etf", "work_stealing"):
        assert "a" in schedule(work, machine(1), scheduler=rule).names


@pytest.mark.parametrize("rule", [*RULES, "critical_path"])
def test_a_task_that_nothing_can_reach(rule: str) -> None:
    """The error names both ends of the link that is missing; the rest of the workload is not to blame."""
    work = Workload()
    x = work.input("x", MATRIX, device="cuda:0")
    add(work, "fine", x)
    add(work, "lost", x, device="cuda:1")
    apart = Platform("apart", (Device("cuda:0", "cuda"), Device("cuda:1", "cuda")))
    with pytest.raises(PlatformError, match="no link from 'cuda:0' to 'cuda:1'"):
        schedule(work, apart, scheduler=rule)

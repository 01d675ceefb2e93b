"""Critical-path list scheduling by hand."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.schedulers import schedule
from graphsched.workload import Workload
from tests.schedulers.graphs import graph, lanes_of, machine
from tests.schedulers.papers import graham, timed
from tests.schedulers.processors import processors, small_dags

TWO = machine(2, cpu=False)


def test_by_hand() -> None:
    """The longest way first: a (6), then d (4), c (3), b (2), on two devices.

    ::

        a (2) ─▶ e (4)      b (2)      c (3)      d (1) ─▶ f (3)

    At 0 a and d start, at 1 c (3) and f (3) are ready: c stands first and runs to 4. At 2 e (4) to 6. At 4 f to 7. At 6
    b to 8.
    """
    work = graph([("a", "e"), ("d", "f")], a=2.0, b=2.0, c=3.0, d=1.0, e=4.0, f=3.0)
    table = timed(schedule(work, TWO, scheduler="critical_path"))
    assert {name: table.start_s[name] for name in "abcdef"} == {"a": 0, "d": 0, "c": 1, "e": 2, "f": 4, "b": 6}
    assert table.makespan_s == 8


def test_no_lane_waits_for_a_better_task() -> None:
    """At 1 `short` (3 s to the end) starts on cuda:1, though `next` (5) could start there at 3: Graham's rule.

    ::

        first (1, cuda:0) ─▶ long (9, cuda:0)        pre (1, cuda:1) ─▶ short (3, cuda:1)
          └──2 bytes──▶ next (5, cuda:1)
    """
    dag = nx.DiGraph([("first", "long"), ("first", "next", {"nbytes": 2}), ("pre", "short")])
    seconds = {"first": {"cuda:0": 1.0}, "long": {"cuda:0": 9.0}, "pre": {"cuda:1": 1.0}}
    seconds |= {"next": {"cuda:1": 5.0}, "short": {"cuda:1": 3.0}}
    nx.set_node_attributes(dag, seconds, "duration_s")
    table = timed(schedule(Workload.from_graph(dag), TWO, scheduler="critical_path"))
    assert table.start_s == {"first": 0, "pre": 0, "long": 1, "short": 1, "next": 4}


def test_of_equals_the_one_with_the_most_successors() -> None:
    """Both ways are of 3 s; b opens the way for two tasks.

    ::

        a (1) ─▶ x (2)        b (1) ─▶ y (2)
                              └─▶ z (2)
    """
    work = graph([("a", "x"), ("b", "y"), ("b", "z")], a=1.0, x=2.0, b=1.0, y=2.0, z=2.0)
    assert schedule(work, machine(1, cpu=False), scheduler="critical_path").names[0] == "b"


def test_the_list_knows_no_transfers_but_the_starts_do() -> None:
    """a's way is longer without transfers, so it goes first on the only lane; b's has 100 bytes.

    ::

        a (1) ─▶ x (5)        b (1) ─100 bytes─▶ y (1)
    """
    dag = nx.DiGraph()
    dag.add_nodes_from((n, {"duration_s": s}) for n, s in {"b": 1.0, "y": 1.0, "a": 1.0, "x": 5.0}.items())
    dag.add_edges_from([("a", "x"), ("b", "y", {"nbytes": 100})])
    plan = schedule(Workload.from_graph(dag), machine(1, cpu=False), scheduler="critical_path")
    assert plan.names == ["a", "x", "b", "y"]
    pair = schedule(Workload.from_graph(dag), TWO, scheduler="critical_path")
    assert lanes_of(pair)["y"] == lanes_of(pair)["b"]


def test_the_device_is_that_where_the_task_is_over_first() -> None:
    """cuda:1 is idle and slow (9 s): b waits for the 2 s of a, for it is then over at 3."""
    work = graph(a={"cuda:0": 2.0}, b={"cuda:0": 1.0, "cuda:1": 9.0})
    assert lanes_of(schedule(work, TWO, scheduler="critical_path"))["b"] == "cuda:0/s0"


def test_from_the_end_where_that_is_shorter() -> None:
    """Forwards a and d (3 s to the end each) begin, and c is left for the end: 5. Backwards d and b (2 s, then a)
    begin, then c, then a: in the order of that schedule a and c begin, and all is over at 4.

    ::

        a (1) ─▶ b (2)        c (2)        d (3)
    """
    table = timed(schedule(graph([("a", "b")], a=1.0, b=2.0, c=2.0, d=3.0), TWO, scheduler="critical_path"))
    assert table.makespan_s == 4
    assert {table.start_s["a"], table.start_s["c"]} == {0}


@settings(deadline=None, max_examples=60)
@given(dag=small_dags(9), count=st.integers(1, 3))
def test_no_processor_waits_while_a_task_is_ready(dag: nx.DiGraph, count: int) -> None:
    """Whichever of the two lists it is."""
    work = Workload.from_graph(dag)
    found = timed(schedule(work, processors(count), scheduler="critical_path"))
    spans = [(found.start_s[name], found.end_s[name]) for name in work.graph]
    for name in work.graph:
        ready = max((found.end_s[before] for before in work.graph.pred[name]), default=0.0)
        moments = [ready, *(end for _, end in spans)]
        for moment in [each for each in moments if ready <= each < found.start_s[name]]:
            assert sum(start <= moment < end for start, end in spans) == count


@pytest.mark.parametrize(
    ("work", "count", "best"),
    [
        (graham(), 3, 12),
        (graham(), 4, 12),
        (graham(less=1), 3, 10),
        (graham(without=[("T4", "T5"), ("T4", "T6")]), 3, 12),
    ],
)
def test_published_anomalies_do_not_happen(work: Workload, count: int, best: float) -> None:
    """The tasks of Graham 1969: the longest way, T1 ─▶ T9, goes first, and no schedule is shorter than it.

    In the order of the list they take 12; 15 on more processors, 13 with shorter tasks, 16 with fewer edges.
    """
    plan = schedule(work, processors(count), scheduler="critical_path")
    assert timed(plan).makespan_s == best

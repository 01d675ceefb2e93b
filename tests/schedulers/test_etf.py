"""ETF by hand, and where its ties decide."""

from __future__ import annotations

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.schedulers import schedule
from graphsched.workload import Workload
from tests.schedulers.brute_force import shortest
from tests.schedulers.graphs import graph, lanes_of, machine
from tests.schedulers.papers import timed


def diamond() -> Workload:
    """Four tasks for two devices.

    ::

        a (2) ─3 bytes─▶ c (3) ◀─1 byte─ b (3)
          └────1 byte──▶ d (2)
    """
    dag = nx.DiGraph()
    dag.add_nodes_from(
        (name, {"duration_s": seconds}) for name, seconds in zip("abcd", (2.0, 3.0, 3.0, 2.0), strict=True)
    )
    dag.add_weighted_edges_from([("a", "c", 3), ("b", "c", 1), ("a", "d", 1)], weight="nbytes")
    return Workload.from_graph(dag)


def test_by_hand() -> None:
    """Levels: a 5, b 6, c 3, d 2.

    a and b can start at 0 everywhere: b has the longer way and takes cuda:0 (0 to 3). a can start at 0 on cuda:1.
    Then c can start at max(3, 2 + 3) = 5 on cuda:0 and at max(2, 3 + 1) = 4 on cuda:1, d at max(3, 2 + 1) = 3 and at 2:
    d is first, on cuda:1 (2 to 4). Last c on cuda:1 at 4. Makespan 7.
    """
    plan = schedule(diamond(), machine(2, cpu=False), scheduler="etf")
    assert {n: lanes_of(plan)[n] for n in "abcd"} == {
        "a": "cuda:1/s0", "b": "cuda:0/s0", "c": "cuda:1/s0", "d": "cuda:1/s0",
    }  # fmt: skip
    table = timed(plan)
    assert {n: table.start_s[n] for n in "abcd"} == {"a": 0, "b": 0, "c": 4, "d": 2}
    assert table.makespan_s == 7


def test_of_devices_where_it_could_start_at_once_the_fastest() -> None:
    """Both are idle; the second takes 1 s for 5."""
    work = graph(a={"cuda:0": 5.0, "cuda:1": 1.0})
    assert lanes_of(schedule(work, machine(2, cpu=False), scheduler="etf")) == {"a": "cuda:1/s0"}


def test_an_early_start_counts_more_than_an_early_end() -> None:
    """b could be over at 3 behind `a`; it starts at 0 on the slow device and is over at 9.

    ::

        a (cuda:0: 2)       b (cuda:0: 1, cuda:1: 9)
    """
    work = graph(a={"cuda:0": 20.0}, b={"cuda:0": 1.0, "cuda:1": 9.0})
    plan = schedule(work, machine(2, cpu=False), scheduler="etf")
    assert lanes_of(plan) == {"a": "cuda:0/s0", "b": "cuda:1/s0"}


def test_starts_that_differ_by_rounding_are_equal() -> None:
    """x is ready at 0.1 + 0.2, y at 0.3, which is less; x has the longer way and goes first on the only lane left.

    ::

        c (0.3) ─▶ y (1)        a (0.1) ─▶ b (0.2) ─▶ x (2)
    """
    seconds = {"a": 0.1, "b": 0.2, "c": 0.3, "x": 2.0, "y": 1.0}
    where = {"a": "cuda:0", "b": "cuda:0", "c": "cuda:1", "x": "cpu", "y": "cpu"}
    edges = [("c", "y"), ("a", "b"), ("b", "x")]
    work = graph(edges, **{name: {where[name]: each} for name, each in seconds.items()})
    plan = schedule(work, machine(2), scheduler="etf")
    assert [name for name in plan.names if name in "xy"] == ["x", "y"]


@st.composite
def communicating(draw: st.DrawFn) -> nx.DiGraph:
    """Up to six tasks, each before some of the later ones, to which it sends some bytes."""
    dag = nx.DiGraph()
    for i in range(draw(st.integers(2, 6))):
        dag.add_node(f"t{i}", duration_s=draw(st.sampled_from([1.0, 2.0, 5.0])))
        for j in draw(st.sets(st.integers(0, i - 1), max_size=2)) if i else ():
            dag.add_edge(f"t{j}", f"t{i}", nbytes=draw(st.sampled_from([0, 1, 4, 20])))
    return dag


@settings(max_examples=60, deadline=None)
@given(communicating())
def test_published_bound(dag: nx.DiGraph) -> None:
    """At most (2 - 1/n) times the optimum without communication, and the most communication of any chain.

    Source: Hwang et al. 1989; the optimum by trying all orders and places. Two devices; 1 byte a second.
    """
    silent = dag.copy()
    nx.set_edge_attributes(silent, 0, "nbytes")
    best_s = shortest(Workload.from_graph(silent), machine(2, cpu=False))
    plan = schedule(Workload.from_graph(dag), machine(2, cpu=False), scheduler="etf", contention=False)
    most_sent_s = nx.dag_longest_path_length(dag, weight="nbytes")
    assert timed(plan).makespan_s <= (2 - 1 / 2) * best_s + most_sent_s + 1e-9

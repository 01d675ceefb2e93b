"""List schedules from keys."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.schedulers.searching.list_decoding import Decoder, by_task, by_time
from tests.schedulers.processors import assert_starts, identical, random_dag, small_dags


def three(c: float) -> nx.DiGraph:
    """a(2) ─▶ b(10), a ─▶ d(10), b and d ─▶ z(10), and c beside."""
    graph = nx.DiGraph([("a", "b"), ("a", "d"), ("b", "z"), ("d", "z")])
    nx.set_node_attributes(graph, {"a": 2.0, "b": 10.0, "d": 10.0, "z": 10.0}, "duration_s")
    graph.add_node("c", duration_s=c)
    return graph


def test_one_decoder_leaves_no_processor_idle_and_the_other_waits() -> None:
    """With c last: a processor that takes c at once is late for d; one that waits for a is not.

    ::

        a ─▶ b, d ─▶ z        c(3)
    """
    tasks = identical(three(3.0), 2)
    keys = [["a", "b", "d", "z", "c"].index(name) for name in tasks.names]
    assert tasks.makespan_s(by_time(tasks, keys)) == 23.0
    assert tasks.makespan_s(by_task(tasks, keys)) == 22.0


@pytest.mark.parametrize("decoder", [by_time, by_task])
@settings(deadline=None, max_examples=80)
@given(dag=small_dags(), count=st.integers(1, 4), data=st.data())
def test_schedules_are_right(decoder: Decoder, dag: nx.DiGraph, count: int, data: st.DataObject) -> None:
    """Whatever the keys."""
    tasks = identical(dag, count)
    keys = data.draw(st.lists(st.floats(-10, 10), min_size=len(tasks), max_size=len(tasks)))
    assert_starts(tasks, decoder(tasks, keys))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("count", [2, 3, 5])
def test_packing_again_makes_nothing_later(seed: int, count: int) -> None:
    """With the starts of a schedule as keys no task starts later than there."""
    tasks = identical(random_dag(40, seed), count)
    first = by_time(tasks, [-tail for tail in tasks.tails_s()])
    again = by_task(tasks, first)
    assert all(b <= a for a, b in zip(first, again, strict=True))
    late = [start + 5.0 for start in first]
    assert by_task(tasks, late) == again


def test_what_takes_no_time_fits_between_two_tasks() -> None:
    """a(2), b(2) on one processor, z(0) after a: z at 2, and b at 2."""
    graph = nx.DiGraph([("a", "z")])
    nx.set_node_attributes(graph, {"a": 2.0, "z": 0.0}, "duration_s")
    graph.add_node("b", duration_s=2.0)
    tasks = identical(graph, 1)
    starts = dict(zip(tasks.names, by_task(tasks, [["a", "b", "z"].index(name) for name in tasks.names]), strict=True))
    assert starts == {"a": 0.0, "b": 2.0, "z": 2.0}

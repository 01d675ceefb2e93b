"""Measured times in place of modelled ones where CUDA graphs hold the plan, or parts of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from graphsched.errors import CaptureError
from graphsched.plan import OUTSIDE, Plan, check_capturable, segments_of
from graphsched.simulator import predict
from graphsched.simulator.substitution import TERMS, Substitution, Term
from graphsched.timeline import Timeline
from tests.builders import FREE, platform
from tests.simulator.measured import as_measured, of_durations, slower_links, twin
from tests.simulator.test_properties import random_plan
from tests.simulator.test_substitution import ALL, FACTOR, perturbed

GRAPHS = replace(
    ALL, graph_launch_s=0.3, graph_launch_node_s=0.01, graph_starts=((1, 0.5), (10, 0.8), (40, 1.1)),
    graph_lane_s=0.02, graph_root_s=0.0313, graph_wait_s=0.01, graph_fork_s=0.05, graph_across_s=0.07,
    graph_across_start_s=0.03, graph_across_root_s=0.02, graph_across_edge_s=0.0107,
    graph_look_s=0.731, graph_known_s=0.08, graph_look_again_s=0.7,
    graph_event_s=0.1013, graph_timed_edge_s=0.03,  # so that no two events come at the same time
    graph_rates=((2, 0.2), (4, 0.1)), graph_event_rates=((2, 0.0971), (4, 0.1531)),
)  # fmt: skip
ONE = replace(FREE, graph_launch_s=3.0, launch_s=1.0, graph_event_s=0.5, sync_s=0.5)


def in_graphs(seed: int) -> Plan:
    """A random layered DAG on GPUs, CPU lanes and a worker, with waits and blocking copies: one segment or several."""
    plan = replace(random_plan(seed, dispatch=GRAPHS), mode="graph")
    try:
        check_capturable(plan)
    except CaptureError:
        assume(False)
    return plan


@given(seed=st.integers(0, 10_000), factors=st.lists(FACTOR, min_size=4, max_size=4))
@settings(max_examples=60, deadline=None)
def test_all_classes_replaced_is_the_measured_run(seed: int, factors: list[float]) -> None:
    measured = perturbed(in_graphs(seed), factors)
    assert Substitution(measured).makespan_s(TERMS) == pytest.approx(measured.timed_makespan_s, rel=1e-6)


@given(seed=st.integers(0, 10_000), starts=FACTOR, events=st.floats(0.05, 1.0))
@settings(max_examples=40, deadline=None)
def test_so_it_is_where_graphs_cost_something_else(seed: int, starts: float, events: float) -> None:
    """Graphs that start sooner or later, and events that take another time."""
    plan = in_graphs(seed)
    slower = {"graph_starts": ((1, starts),), "graph_event_rates": ((2, events),), "graph_fork_s": events}
    measured = twin(plan, dispatch=replace(GRAPHS, **slower))  # type: ignore[arg-type]
    assert Substitution(measured).makespan_s(TERMS) == pytest.approx(measured.timed_makespan_s, rel=1e-6)


@given(seed=st.integers(0, 10_000), share=st.floats(0.0, 1.0))
@settings(max_examples=40, deadline=None)
def test_so_it_is_where_pieces_of_a_graph_are_launched_sooner(seed: int, share: float) -> None:
    """A second for each piece as predicted, a part of one as measured: what is late is launched before that."""
    plan = in_graphs(seed)
    slow = dict.fromkeys(("graph_across_root_s", "graph_across_edge_s"), 1.0)
    predicted = replace(plan, platform=replace(plan.platform, dispatch=replace(GRAPHS, **slow)))  # type: ignore[arg-type]
    fast = dict.fromkeys(slow, share)
    measured = twin(predicted, dispatch=replace(GRAPHS, **fast))  # type: ignore[arg-type]
    assert Substitution(measured).makespan_s(TERMS) == pytest.approx(measured.timed_makespan_s, rel=1e-6)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_a_perfect_prediction_is_changed_by_nothing(seed: int) -> None:
    plan = in_graphs(seed)
    line = predict(plan)
    swap = Substitution(as_measured(line, plan))
    alone: tuple[tuple[Term, ...], ...] = (("dispatch",), ("waits",))
    for terms in (*alone, TERMS):
        assert swap.makespan_s(terms) == pytest.approx(line.timed_makespan_s, rel=1e-6)


def test_random_plans_are_cut_into_segments() -> None:
    """The laws above are about more than one graph."""
    plans = [replace(random_plan(seed, dispatch=GRAPHS), mode="graph") for seed in range(10)]
    assert sum(len(segments_of(plan)) > 1 and OUTSIDE in segments_of(plan).of for plan in plans) >= 5


# -- one class at a time --------------------------------------------------------------------------------


def pair(**dispatch: Any) -> Plan:
    """a ──▶ copy of 100 bytes, 1 s ──▶ b on another GPU, 2 s each."""
    where = platform(dispatch=replace(ONE, **dispatch))
    lanes = {"a": "cuda:0/s0", "b": "cuda:1/s0"}
    return replace(of_durations({"a": 2.0, "b": 2.0}, [("a", "b", 100)], where, lanes), mode="graph")


def changes(measured: Timeline) -> dict[Term, float]:
    swap = Substitution(measured)
    return {term: swap.makespan_s((term,)) - swap.makespan_s(()) for term in TERMS}


def only(term: Term, seconds: float) -> dict[Term, object]:
    return {name: pytest.approx(seconds if name == term else 0.0, abs=1e-9) for name in TERMS}


def test_a_longer_launch_is_dispatch() -> None:
    plan = pair()
    assert changes(twin(plan, dispatch=replace(ONE, graph_launch_s=5.0))) == only("dispatch", 2.0)


def test_a_later_start_behind_the_launch_is_waits() -> None:
    plan = pair(graph_starts=((1, 4.0),))
    assert changes(twin(plan, dispatch=replace(ONE, graph_starts=((1, 6.0),)))) == only("waits", 2.0)


def test_an_earlier_start_shows_that_the_launch_was_earlier() -> None:
    plan = pair(graph_starts=((1, 6.0),))
    assert changes(twin(plan, dispatch=replace(ONE, graph_starts=((1, 4.0),)))) == only("dispatch", -2.0)


@pytest.mark.parametrize(("root_s", "less_s"), [(0.5, 9.0), (5.0, 0.0)])
def test_a_launch_of_several_pieces_is_told_as_a_whole(root_s: float, less_s: float) -> None:
    """Three tasks on lanes of one GPU, launched in 3 s and 5 s more for each further one."""
    lanes = {name: f"cuda:0/s{k}" for k, name in enumerate("abc")}
    here = platform(gpus=1, dispatch=replace(ONE, graph_root_s=5.0))
    plan = replace(of_durations(dict.fromkeys(lanes, 2.0), [], here, lanes), mode="graph")
    measured = twin(plan, dispatch=replace(ONE, graph_root_s=root_s))
    assert Substitution(measured).issue_s()[0] == -less_s


def test_slower_links_are_transfers() -> None:
    plan = pair()
    assert changes(twin(plan, links=slower_links(plan.platform, 1.5))) == only("transfers", 0.5)


def test_longer_edges_are_waits() -> None:
    assert changes(twin(pair(), dispatch=replace(ONE, other_device_s=0.75))) == only("waits", 0.75)


def test_what_events_of_other_lanes_cost_is_in_the_span() -> None:
    """Two tasks of 2 s side by side: an event takes 2 s by the model, 3 s measured.

    ::

        modelled   a   4 == 6 |--| 8 == 10              measured   a   4 === 7 |--| 9     10 === 13
                   b        6 == 8 |--| 10 = 10.5                  b         7 === 10 |--| 12   13 = 13.5

    Seen from its start a took 1.5 s longer, and b a second; started as late as measured, modelled events still meet.
    """
    where = platform(gpus=1, dispatch=replace(ONE, graph_event_rates=((2, 2.0),)))
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s1"}
    plan = replace(of_durations({"a": 2.0, "b": 2.0}, [], where, lanes), mode="graph")
    measured = twin(plan, dispatch=replace(ONE, graph_event_rates=((2, 3.0),)))
    assert changes(measured) == only("compute", 1.5) | {"waits": pytest.approx(2.0)}
    assert Substitution(measured).makespan_s(("compute", "waits")) == measured.timed_makespan_s


def test_a_late_return_before_a_launch_is_waits() -> None:
    """a in a graph; b on a CPU for 20 s, the thread waits for it, then c in a second graph. Each return 1 s later."""
    lanes = {"a": "cuda:0/s0", "b": "cpu/w0", "c": "cuda:0/s0"}
    durations = {"a": 2.0, "b": 20.0, "c": 2.0}
    plan = of_durations(durations, [], platform(gpus=1, dispatch=ONE), lanes, wait_after=["b"])
    assert changes(twin(replace(plan, mode="graph"), dispatch=replace(ONE, sync_s=1.5))) == only("waits", 2.0)


@pytest.mark.parametrize("slept", [(), ((1000, 0.25),), ((1000, 0.75),)])
@pytest.mark.parametrize("returns_s", [0.0, 0.5, 1.0, 2.0])
def test_a_thread_that_went_on_sooner_behind_a_result_gives_the_run_back(
    returns_s: float, slept: tuple[tuple[int, float], ...]
) -> None:
    """c (4 s, on a CPU) ──▶ g (1 s, on a GPU): the thread went on so late behind c, and a second late by the model."""
    lanes = {"c": "cpu/w0", "g": "cuda:0/s0"}
    costs = replace(FREE, result_s=1.0, graph_launch_s=0.2, graph_slept_colds=slept)
    plan = of_durations({"c": 4.0, "g": 1.0}, [("c", "g", 0)], platform(gpus=1, dispatch=costs), lanes)
    measured = twin(replace(plan, mode="graph"), dispatch=replace(costs, result_s=returns_s))
    assert Substitution(measured).makespan_s(TERMS) == pytest.approx(measured.timed_makespan_s)

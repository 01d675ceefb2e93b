"""Goals: which figure each looks at, and when it is reached."""

from __future__ import annotations

import pytest

from graphsched.records.accuracy import accuracy_of
from graphsched.records.causes import Cause
from graphsched.records.goals import GOALS, Goal, coverage
from tests.records.entries import entry
from tests.records.examples import chain

ROWS = ("limit", "figure", "reached")


def goals(*cases):
    """Figures of the goals by name."""
    return {row["goal"]: row["figure"] for row in accuracy_of(cases)["goals"]}


@pytest.mark.parametrize(("figure", "reached"), [(0.5, True), (1.0, True), (1.5, False), (None, None)])
def test_a_limit_is_reached_from_below(figure, reached):
    assert Goal("g", 1.0, lambda d: d["x"]).row({"x": figure}) == {
        "goal": "g",
        "limit": 1.0,
        "at_least": False,
        "figure": figure,
        "reached": reached,
    }


@pytest.mark.parametrize(("figure", "reached"), [(0.5, False), (1.0, True), (1.5, True)])
def test_a_least_value_is_reached_from_above(figure, reached):
    assert Goal("g", 1.0, lambda d: d["x"], at_least=True).row({"x": figure})["reached"] is reached


def test_each_goal_looks_at_its_own_figure():
    gpu = entry(1.1, 1.0, starts=(0.2,), ends=(0.3,))
    shared = entry(1.4, 1.0, group="sm_sharing", lane_ends=(0.5,), scheduler="round_robin", lanes=2)
    host = entry(1.6, 1.0, group="host_bound", work=chain())
    assert goals(gpu, shared, host) == {
        "cases": 3,
        "workloads": 2,
        "workloads under 4 schedules or more": 0,
        "GPU-bound: makespan, median": pytest.approx(0.1),
        "GPU-bound: makespan, p95, or 5 µs": pytest.approx(0.1),
        "GPU-bound: cases over 5 % without a written cause": 1,
        "GPU-bound: starts of actions, p95": pytest.approx(0.2),
        "GPU-bound: ends of actions, p95": pytest.approx(0.3),
        "kernels share a GPU: makespan, median": pytest.approx(0.4),
        "kernels share a GPU: makespan, p95": pytest.approx(0.4),
        "kernels share a GPU: ends of lanes, median": pytest.approx(0.5),
        "kernels share a GPU: ends of lanes, p95": pytest.approx(0.5),
        "host-bound: makespan, median": pytest.approx(0.6),
        "host-bound: makespan, p95": pytest.approx(0.6),
        "pairs of schedules in the measured order": None,
        "measured inside the 90 % interval": None,
        "predicted best against the best, beyond noise": 0.0,
    }


def test_short_cases_may_be_off_by_5_microseconds():
    figures = goals(entry(10e-6, 14e-6))
    assert figures["GPU-bound: makespan, p95, or 5 µs"] == 0.0
    assert figures["GPU-bound: makespan, median"] == pytest.approx(2 / 7)


def test_medians_and_percentiles_are_not_mixed_up():
    cases = [entry(1.0 + 0.01 * k, 1.0, group=g) for k in range(21) for g in ("makespan", "sm_sharing", "host_bound")]
    figures = goals(*cases)
    assert [figures[f"{g}: makespan, median"] for g in ("GPU-bound", "kernels share a GPU", "host-bound")] == (
        pytest.approx([0.1] * 3)
    )
    p95 = ("GPU-bound: makespan, p95, or 5 µs", "kernels share a GPU: makespan, p95", "host-bound: makespan, p95")
    assert [figures[name] for name in p95] == pytest.approx([0.19] * 3)


def test_no_cases_reach_no_goal():
    reached = {row["goal"]: row["reached"] for row in accuracy_of([])["goals"]}
    assert len(reached) == len(GOALS)
    assert {reached[name] for name in ("cases", "workloads")} == {False}
    assert True not in [value for name, value in reached.items() if "without a written cause" not in name]


def test_schedules_of_a_workload_are_schedulers_with_their_options():
    four = [
        entry(1.0, 1.0),
        entry(1.0, 1.0, scheduler="heft"),
        entry(1.0, 1.0, scheduler="round_robin", lanes=1),
        entry(1.0, 1.0, scheduler="round_robin", lanes=2),
    ]
    assert coverage(four) == {"workloads": 1, "compared": 1}
    assert coverage(four[:3]) == {"workloads": 1, "compared": 0}
    assert coverage([*four[:3], entry(1.0, 1.0, label="again")]) == {"workloads": 1, "compared": 0}
    assert coverage([*four, entry(1.0, 1.0, work=chain())]) == {"workloads": 2, "compared": 1}


# -- by mode ---------------------------------------------------------------------------------------


def test_goals_of_a_mode_are_those_of_its_cases_alone():
    """In eager mode the faster schedule is named, and a large error has its cause; in graph mode neither."""
    causes = [Cause({"mode": "eager"}, "an old driver")]
    eager = [entry(1.1, 1.0, label="a"), entry(1.2, 1.1, label="b", group="sm_sharing", scheduler="heft")]
    graph = [
        entry(1.4, 1.0, label="a", mode="graph"),
        entry(1.3, 1.1, label="b", mode="graph", group="sm_sharing", scheduler="heft"),
    ]
    by_mode = accuracy_of([graph[0], *eager, graph[1]], causes)["goals_by_mode"]
    assert list(by_mode) == ["eager", "graph"]
    assert by_mode["eager"] == accuracy_of(eager, causes)["goals"]
    assert by_mode["graph"] == accuracy_of(graph, causes)["goals"]
    rows = {mode: {row["goal"]: row for row in found} for mode, found in by_mode.items()}
    large, order = "GPU-bound: cases over 5 % without a written cause", "pairs of schedules in the measured order"
    assert [(rows[mode][large]["figure"], rows[mode][large]["reached"]) for mode in rows] == [(0, True), (1, False)]
    assert [(rows[mode][order]["figure"], rows[mode][order]["reached"]) for mode in rows] == [(1.0, True), (0.0, False)]


def test_one_mode_has_the_goals_of_all():
    data = accuracy_of([entry(1.1, 1.0, mode="graph")])
    assert data["goals_by_mode"] == {"graph": data["goals"]}
    assert accuracy_of([])["goals_by_mode"] == {}

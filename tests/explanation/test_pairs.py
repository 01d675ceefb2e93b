"""Why two actions did not overlap: one small plan for each reason."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from graphsched.costs import TaskCost
from graphsched.errors import PlanError
from graphsched.explanation import explain, why_not
from graphsched.simulator import predict
from graphsched.timeline import Timeline
from graphsched.workload import TensorSpec, Workload
from tests.builders import operations, planned, platform, workload
from tests.explanation.hand import charged, predicted, served_in_turn
from tests.schedulers.graphs import add
from tests.timelines import overlap, timeline

TWO = {"a": "cuda:0/s0", "b": "cuda:1/s0"}


def test_they_did() -> None:
    found = why_not(predicted({"a": 2.0, "b": 1.0}, TWO), "a", "b")
    assert (found.kind, found.overlap_s, found.apart_s) == ("overlapped", 1.0, 0.0)
    assert str(found) == "a and b ran side by side for 1 s"


def test_what_a_graph_holds_runs_while_the_thread_still_launches_it() -> None:
    """a and b on two GPUs, one graph: b starts 3 s after a, the launch takes 13 s."""
    where = platform(dispatch=charged(graph_across_s=10.0, graph_across_root_s=3.0))
    long, short = (planned(workload({"a": a_s, "b": 5.0}, []), where, TWO) for a_s in (5.0, 1.0))
    found = why_not(predict(replace(long, mode="graph"), mode="graph"), "a", "b")
    assert (found.kind, found.overlap_s) == ("overlapped", pytest.approx(2.0, rel=1e-3))
    assert why_not(predict(replace(short, mode="graph"), mode="graph"), "a", "b").kind == "dispatch"


def test_a_dependency_and_its_path() -> None:
    """a ─▶ a>cuda:1 ─▶ b ─▶ c"""
    line = predicted(dict.fromkeys("abc", 1.0), TWO | {"c": "cuda:1/s1"}, [("a", "b", 100), ("b", "c", 0)])
    found = why_not(line, "c", "a")
    assert (found.first, found.second, found.kind) == ("a", "c", "dependency")
    assert found.through == ("a>cuda:1", "b")
    assert found.apart_s == 2.0
    assert str(found) == "c and a did not overlap: c needs a (a → a>cuda:1 → b → c)"


def test_a_dependency_on_one_lane_is_no_matter_of_the_lane() -> None:
    """The plan has no wait for it."""
    line = predicted({"a": 1.0, "b": 1.0}, dict.fromkeys("ab", "cuda:0/s0"), [("a", "b", 0)])
    assert why_not(line, "a", "b").kind == "dependency"


def test_a_long_path_is_shortened() -> None:
    names = [f"t{k}" for k in range(9)]
    edges = [(a, b, 0) for a, b in pairwise(names)]
    line = predicted(dict.fromkeys(names, 1.0), dict.fromkeys(names, "cuda:0/s0"), edges)
    assert "(t0 → t1 → t2 → … → t6 → t7 → t8)" in str(why_not(line, "t0", "t8"))


def test_the_thread_waited_in_between() -> None:
    found = why_not(predicted({"a": 1.0, "b": 1.0}, TWO, wait_after=["a"]), "a", "b")
    assert (found.kind, found.through) == ("barrier", ("wait0",))


def test_one_lane() -> None:
    found = why_not(predicted({"a": 1.0, "b": 1.0}, dict.fromkeys("ab", "cuda:0/s0")), "b", "a")
    assert (found.first, found.second, found.kind) == ("a", "b", "lane")
    assert "both are on cuda:0/s0" in str(found)


def test_a_pageable_copy_held_the_thread() -> None:
    work = Workload()
    x = work.input("x", TensorSpec((100,), "int8"), device="cuda:0")
    work.copy(x, to="cpu", pinned=False, name="down")
    add(work, "b")
    line = predict(planned(work, platform(blocking=True), {"b": "cuda:1/s0"}))
    assert why_not(line, "down", "b").kind == "blocking"


def test_late_dispatch() -> None:
    """Issuing takes 3 s, a takes 1."""
    line = predicted({"a": 1.0, "b": 1.0}, TWO, where=platform(dispatch=charged(run_s=3.0)))
    found = why_not(line, "a", "b")
    assert (found.kind, found.apart_s) == ("dispatch", 2.0)
    assert str(found) == "b and a did not overlap: b was issued late, 2 s after a had ended"


def test_a_cpu_lane_that_had_to_wake() -> None:
    """Handing a task over takes 1 s, waking 3: a runs from 4 s to 4.5, b from 5 s."""
    where = platform(dispatch=charged(handoff_s=1.0, wake_s=3.0))
    found = why_not(predicted({"a": 0.5, "b": 0.5}, {"a": "cpu/w0", "b": "cpu/w1"}, where=where), "a", "b")
    assert (found.kind, found.apart_s) == ("dispatch", 0.5)
    assert str(found) == "b and a did not overlap: b was issued late, and could run 500 ms after a had ended"


def test_a_graph_that_is_launched_sooner_than_its_costs_say() -> None:
    """By these b and c are launched at 3 s; b begins at 1 s, c behind it."""
    where = platform(dispatch=charged(graph_across_s=10.0, graph_across_root_s=3.0))
    plan = planned(workload({"a": 1.0, "b": 1.0, "c": 2.0}), where, TWO | {"c": "cuda:1/s0"})
    spans = [(0.0, 1.0), (1.0, 2.0), (2.0 + 1e-6, 4.0)]
    line = timeline(replace(plan, mode="graph"), spans, issues=[(0.0, 0.5)] * 3, source="measured")
    assert why_not(line, "a", "b").kind == "dispatch"
    found = why_not(line, "a", "c")
    assert (found.kind, found.through) == ("behind", ("b",))


def test_a_full_launch_queue() -> None:
    names = [f"s{k}" for k in range(6)]
    lanes = dict.fromkeys(names, "cuda:0/s0") | {"late": "cuda:0/s1"}
    where = platform(dispatch=replace(charged(run_s=0.01), queue_depth=4))
    found = why_not(predicted(dict.fromkeys([*names, "late"], 1.0), lanes, where=where), "s0", "late")
    assert (found.kind, found.through) == ("queue", ("s2",))


def test_behind_others() -> None:
    """b stands behind c on cuda:1, which is longer than a."""
    line = predicted({"a": 1.0, "c": 3.0, "b": 1.0}, TWO | {"c": "cuda:1/s0"})
    found = why_not(line, "a", "b")
    assert (found.kind, found.through) == ("behind", ("c",))
    assert "b stood on cuda:1/s0 behind c (over at 3 s)" in str(found)


def test_a_full_device() -> None:
    """Two that fill the device, side by side: each takes twice as long."""
    found = why_not(predicted({"a": 1.0, "b": 1.0}, {"a": "cuda:0/s0", "b": "cuda:0/s1"}), "a", "b")
    assert (found.kind, found.overlap_s) == ("device", 2.0)
    assert "gained nothing: together they took 2 s longer than alone (cuda:0 was full)" in str(found)


def test_a_device_with_room() -> None:
    """Beside each other they take a quarter longer."""
    work, costs = operations({"a": 0, "b": 0}, [TaskCost(1.0, concurrency=((1, 1.0), (2, 1.25)))])
    plan = planned(work, platform(costs=costs), {"a": "cuda:0/s0", "b": "cuda:0/s1"}, costs=costs)
    found = why_not(predict(plan), "a", "b")
    assert found.kind == "overlapped"
    assert "together they took 500 ms longer than alone" in str(found)


def test_a_busy_engine() -> None:
    """Two copies by one port of the CPU."""
    work = Workload()
    x = work.input("x", TensorSpec((100,), "int8"))
    for k in range(2):
        work.copy(x, to=f"cuda:{k}", name=f"up{k}")
    found = why_not(predict(planned(work, platform(shared={"out cpu": 100.0}), {})), "up0", "up1")
    assert found.kind == "engine"
    assert "out cpu was busy with both" in str(found)


def test_an_engine_that_serves_one_after_the_other() -> None:
    found = why_not(served_in_turn(), "up0", "up1")
    assert (found.kind, found.overlap_s) == ("engine", 0.0)
    assert str(found) == "up1 and up0 did not overlap: up1 was ready, but out cpu served up0 first"


@pytest.mark.parametrize(("source", "kind"), [("measured", "unexplained"), ("predicted", "dispatch")])
def test_nothing_that_shows(source: str, kind: str) -> None:
    """Issued at 0, ready at 0, started at 5; in a prediction nothing else is left than that it was launched then."""
    plan = predicted({"a": 1.0, "b": 1.0}, TWO).plan
    line = timeline(plan, [(0.0, 1.0), (5.0, 6.0)], issues=[(0.0, 0.0), (0.0, 0.0)], source=source)
    assert why_not(line, "a", "b").kind == kind


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (("a", "bb"), "no action 'bb' in the plan: the nearest are b"),
        (("a", 7), "no action number 7: the plan has 3, from 0"),
        (("a", "a"), "'a' is named twice"),
        (("wait0", "a"), "'wait0' is a wait of the dispatching thread"),
    ],
)
def test_a_pair_that_cannot_be_asked_for(pair: tuple[str, str], message: str) -> None:
    line = predicted({"a": 1.0, "b": 1.0}, TWO, wait_after=["a"])
    with pytest.raises(PlanError, match=message):
        explain(line).why_not(*pair)


def test_numbers_name_actions_too_and_json_has_it_all() -> None:
    line: Timeline = predicted({"a": 2.0, "b": 1.0}, TWO)
    assert why_not(line, 0, 1) == why_not(line, "b", "a")
    assert why_not(line, 0, 1).to_dict() == {
        "first": "a", "second": "b", "kind": "overlapped", "through": (), "overlap_s": 1.0, "apart_s": 0.0,
        "text": "a and b ran side by side for 1 s",
    }  # fmt: skip


def test_names_that_begin_the_plan_are_offered_where_none_is_near() -> None:
    with pytest.raises(PlanError, match=r"the first are mm0\.0, "):
        explain(timeline(overlap(1), [(0, 1), (1, 2)])).action("zzzzzzzz")

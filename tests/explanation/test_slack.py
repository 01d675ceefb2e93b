"""Slack: a task that takes so much longer changes nothing, one that takes more does."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.explanation import explain
from graphsched.platform import Dispatch
from graphsched.simulator import predict
from graphsched.timeline import Timeline
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, layered, planned, platform, workload
from tests.explanation.hand import charged, predicted
from tests.schedulers.graphs import add
from tests.timelines import timeline


def test_the_shorter_arm_of_a_diamond_has_slack() -> None:
    """a ─▶ b(1), c(3) ─▶ d: b may end 2 s later."""
    edges = [("a", "b", 0), ("a", "c", 0), ("b", "d", 0), ("c", "d", 0)]
    lanes = {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": "cuda:0/s0", "d": "cuda:0/s0"}
    line = predicted({"a": 1.0, "b": 1.0, "c": 3.0, "d": 1.0}, lanes, edges)
    explanation = explain(line)
    assert {name: explanation.action(name).slack_s for name in "abcd"} == {"a": 0.0, "b": 2.0, "c": 0.0, "d": 0.0}
    assert {name: explanation.action(name).critical for name in "abcd"} == {"a": 1, "b": 0, "c": 1, "d": 1}


def test_the_threads_wait_hands_slack_on() -> None:
    """b on cuda:1 may last until the wait for a (3 s) returns; c follows."""
    line = predicted(
        {"b": 1.0, "a": 3.0, "c": 1.0},
        {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": "cuda:0/s0"},
        wait_after=["a"],
        where=platform(dispatch=charged(sync_s=0.5)),
    )
    explanation = explain(line)
    assert [explanation.action(name).slack_s for name in ("b", "a", "wait0", "c")] == [2.0, 0.0, 0.0, 0.0]


def test_what_holds_the_thread_may_last_as_long_as_the_thread_waits_anyhow() -> None:
    """The pageable copy, of 0.1 µs, holds the thread, which then waits for a (5 s)."""
    work = Workload()
    x = work.input("x", TensorSpec((100,), "int8"), device="cuda:0")
    add(work, "a", x, duration_s=5.0)
    work.copy(x, to="cpu", pinned=False, name="down")
    add(work, "b", x)
    lanes = {"a": "cuda:1/s0", "b": "cuda:1/s0"}
    plan = planned(work, platform(blocking=True, bandwidth=1e9), lanes, wait_after=["down"])
    down = explain(predict(plan)).action("down")
    assert down.slack_s == pytest.approx(5.0, rel=1e-4)


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_a_result_that_the_thread_waits_for_has_no_slack(mode: str) -> None:
    """a (2 s) and b (3 s) on CPU lanes ─▶ c: its issue, of 0.25 s, or the launch of its graph comes after both."""
    lanes = {"a": "cpu/w0", "b": "cpu/w1", "c": "cuda:0/s0"}
    work = workload({"a": 2.0, "b": 3.0, "c": 1.0}, [("a", "c", 0), ("b", "c", 0)])
    plan = planned(work, platform(dispatch=charged(run_s=0.25, graph_launch_s=0.25)), lanes)
    line = predict(replace(plan, mode=mode))
    explanation = explain(line)
    assert {name: explanation.action(name).slack_s for name in "abc"} == {"a": 1.0, "b": 0.0, "c": 0.0}
    assert explanation.action("b").critical


def test_a_pageable_copy_that_comes_last_has_no_slack() -> None:
    """The thread records the event after it, 0.25 s, once it is over."""
    work = Workload()
    x = work.input("x", TensorSpec((100,), "int8"), device="cuda:0")
    work.copy(x, to="cpu", pinned=False, name="down")
    plan = planned(work, platform(blocking=True, dispatch=charged(timed_record_s=0.25)), {})
    assert explain(predict(plan)).action("down").slack_s == 0.0


@pytest.mark.parametrize(("source", "slack_s"), [("predicted", [0.0, 2.0, 0.0]), ("measured", [1.0, 3.0, 0.0])])
def test_what_a_prediction_leaves_before_a_start_is_no_slack(source: str, slack_s: list[float]) -> None:
    """a (3 s), b (1 s) ─▶ c, which starts 1 s after a: nothing else holds it, so that it would if a ended later."""
    lanes = {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": "cuda:0/s0"}
    edges = [("a", "c", 0), ("b", "c", 0)]
    plan = planned(workload({"a": 3.0, "b": 1.0, "c": 1.0}, edges), platform(), lanes)
    line = timeline(plan, [(0.0, 3.0), (0.0, 1.0), (4.0, 5.0)], issues=[(0.0, 0.0)] * 3, source=source)
    assert explain(line).slack_s == pytest.approx(slack_s)


def test_the_small_gaps_of_a_measured_lane_do_not_add_up_to_slack() -> None:
    """a ─ b ─ c on one lane, 1 µs between them; then 1 ms of nothing before d."""
    lanes = dict.fromkeys("abcd", "cuda:0/s0")
    spans = [(0.0, 1e-3), (1.001e-3, 2e-3), (2.001e-3, 3e-3), (4e-3, 5e-3)]
    plan = planned(workload(dict.fromkeys("abcd", 1e-3)), platform(), lanes)
    line = timeline(plan, spans, issues=[(0.0, 0.0)] * 4, source="measured")
    assert explain(line).slack_s == pytest.approx([1e-3, 1e-3, 1e-3, 0.0])


def _with(seed: int, longer: dict[str, float], dispatch: Dispatch) -> Timeline:
    rng = random.Random(seed)
    work = layered(seed)
    lanes = {name: f"cuda:{rng.randrange(3)}/s0" for name in work.graph}
    waits = [name for name in work.graph if rng.random() < 0.1]
    durations = {t.name: t.duration_s + longer.get(t.name, 0.0) for t in work.tasks}  # type: ignore[operator]
    edges = [(a, b, 0) for a, b in work.graph.edges]
    where = platform(gpus=3, dispatch=dispatch)
    return predict(planned(workload(durations, edges), where, lanes, order=list(work.graph), wait_after=waits))


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10**6), st.integers(0, 15), st.sampled_from([FREE, charged(run_s=0.1, sync_s=0.05, wait_s=0.02)]))
def test_slack_is_what_a_task_may_take_longer(seed: int, k: int, dispatch: Dispatch) -> None:
    line = _with(seed, {}, dispatch)
    name = f"t{k}"
    slack = explain(line).action(name).slack_s
    assert _with(seed, {name: slack}, dispatch).timed_makespan_s == pytest.approx(line.timed_makespan_s)
    later = _with(seed, {name: slack + 1.0}, dispatch)
    assert later.timed_makespan_s == pytest.approx(line.timed_makespan_s + 1.0)

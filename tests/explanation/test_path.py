"""The critical path through actions, lanes, the thread and the launch queue; its parts add up."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.explanation.facts import gather
from graphsched.explanation.path import critical_path
from graphsched.explanation.slack import slacks
from graphsched.explanation.usage import lane_uses
from graphsched.platform import Dispatch
from graphsched.simulator import predict
from graphsched.timeline import Timeline
from graphsched.workload import Workload
from tests.builders import FREE, planned, platform, workload
from tests.explanation.hand import charged, number, parts_of, path_of, predicted, steps_of
from tests.schedulers.graphs import add
from tests.simulator.test_properties import NOISY, random_plan
from tests.timelines import overlap, plan_of, timeline


def test_dependencies_and_what_stands_on_the_lane_before() -> None:
    """d needs b only, and stands behind c on its lane.

    ::

        cuda:0/s0   a(1) ──▶ c(3), d(1)
        cuda:1/s0     └────▶ b(1) ─▶ d
    """
    lanes = dict.fromkeys("acd", "cuda:0/s0") | {"b": "cuda:1/s0"}
    line = predicted({"a": 1.0, "b": 1.0, "c": 3.0, "d": 1.0}, lanes, [("a", "b", 0), ("a", "c", 0), ("b", "d", 0)])
    assert steps_of(line) == [("action", "a", "thread"), ("action", "c", "wait"), ("action", "d", "lane")]
    assert parts_of(line) == {"compute": 5.0}
    _, path = path_of(line)
    assert [(step.start_s, step.end_s) for step in path] == [(0.0, 1.0), (1.0, 4.0), (4.0, 5.0)]
    assert path[2].cause.alone_s == 2.0  # b was over at 2


def test_a_wait_on_another_lane_has_its_latency() -> None:
    line = predicted(
        {"a": 1.0, "b": 1.0},
        {"a": "cuda:0/s0", "b": "cuda:0/s1"},
        [("a", "b", 0)],
        where=platform(dispatch=charged(same_device_s=0.25)),
    )
    assert steps_of(line)[1] == ("action", "b", "wait")
    assert parts_of(line) == {"compute": 2.0, "latency": 0.25}


def test_late_dispatch_is_the_threads_time() -> None:
    """Each issue takes 2 s, each task 1: the path is the thread's, then the last task."""
    lanes = dict.fromkeys("abc", "cuda:0/s0")
    line = predicted(dict.fromkeys("abc", 1.0), lanes, where=platform(dispatch=charged(run_s=2.0)))
    assert steps_of(line) == [("thread", "c", "start"), ("action", "c", "thread")]
    assert parts_of(line) == {"dispatch": 6.0, "compute": 1.0}
    _, path = path_of(line)
    assert line.plan.names[path[0].first] == "a"


def test_the_thread_returns_from_a_wait() -> None:
    """A wait after a; the thread's return from it, and from the end, take 0.5 s each."""
    line = predicted(
        {"a": 1.0, "b": 1.0},
        {"a": "cuda:0/s0", "b": "cuda:0/s0"},
        wait_after=["a"],
        where=platform(dispatch=charged(sync_s=0.5, run_s=0.25)),
    )
    assert steps_of(line) == [
        ("thread", "a", "start"),
        ("action", "a", "thread"),
        ("thread", "b", "return"),
        ("action", "b", "thread"),
        ("end", "b", "wait"),
    ]
    assert parts_of(line) == {"dispatch": 0.5, "compute": 2.0, "return": 1.0}


def test_a_pageable_copy_holds_the_thread() -> None:
    """b, on the other GPU, is issued after the copy of a is over."""
    work = Workload()
    a = add(work, "a")
    work.copy(a, to="cpu", pinned=False, name="down")  # type: ignore[arg-type]
    add(work, "b")
    where = platform(blocking=True, dispatch=charged(run_s=0.25))
    line = predict(planned(work, where, {"a": "cuda:0/s0", "b": "cuda:1/s0"}))
    assert ("thread", "b", "blocking") in steps_of(line)


def test_a_full_launch_queue_goes_back_to_what_made_room() -> None:
    """A queue of four launches, six on s0: the last is issued when there is room, though its lane is idle."""
    names = [f"s{k}" for k in range(6)]
    lanes = dict.fromkeys(names, "cuda:0/s0") | {"late": "cuda:0/s1"}
    dispatch = replace(charged(run_s=0.01), queue_depth=4)
    where = platform(dispatch=dispatch)
    line = predicted(dict.fromkeys(names, 1.0) | {"late": 9.0}, lanes, where=where)
    found = steps_of(line)
    assert ("thread", "late", "queue") in found
    assert found[-1][:2] == ("action", "late")


def test_the_thread_waits_for_a_result_of_the_cpu() -> None:
    """b, on the CPU, makes what c needs; d, on the other GPU, is issued after c."""
    lanes = {"b": "cpu/w0", "c": "cuda:0/s0", "d": "cuda:1/s0"}
    where = platform(dispatch=charged(run_s=0.25))
    line = predicted({"b": 2.0, "c": 1.0, "d": 5.0}, lanes, [("b", "c", 0)], where=where, order=["b", "c", "d"])
    found = steps_of(line)
    assert [step for step in found if step[1] != "end"] == [
        ("action", "b", "thread"),
        ("thread", "d", "result"),
        ("action", "d", "thread"),
    ]


@pytest.mark.parametrize("late_s", [0.0, 0.01])
def test_a_launch_waits_for_a_result_of_the_cpu_before_it_begins(late_s: float) -> None:
    """The thread launches a, hands b to the CPU's lane, and launches c and d once b is over (0.25 s each).

    What is measured begins a little later than the result is there.

    ::

        a (1, cuda) ──▶ b (2, cpu) ──▶ c (1, cuda) ──▶ d (1, cuda)
    """
    edges = [("a", "b", 0), ("b", "c", 0), ("c", "d", 0)]
    lanes = {"a": "cuda:0/s0", "b": "cpu/w0", "c": "cuda:0/s0", "d": "cuda:0/s0"}
    work = workload({"a": 1.0, "b": 2.0, "c": 1.0, "d": 1.0}, edges)
    plan = planned(work, platform(dispatch=charged(graph_launch_s=0.25)), lanes)
    line = predict(replace(plan, mode="graph"))
    c, d = number(line.plan, "c"), number(line.plan, "d")
    over_s = line.end_s[number(line.plan, "b")]
    assert line.issue_start_s[c] == line.issue_start_s[d] == over_s
    issues = line.issue_start_s.copy()
    issues[[c, d]] = over_s + late_s
    line = replace(line, issue_start_s=issues)
    found = steps_of(line)
    assert found[:4] == [
        ("thread", "a", "start"),
        ("action", "a", "thread"),
        ("action", "b", "wait"),
        ("thread", "c", "result"),
    ]
    assert parts_of(line)["dispatch"] == pytest.approx(0.5)
    thread = next(use for use in lane_uses(gather(line)) if use.name == "host/py")
    assert thread.busy_s == pytest.approx(0.5)


def test_the_path_of_nothing() -> None:
    line = timeline(plan_of(Workload(), {}), [])
    assert critical_path(gather(line)) == ()


def test_measured_spans_that_contradict_each_other_within_the_clocks_still_add_up() -> None:
    """copy0 begins 2 µs before its product ends, by its own GPU's clock."""
    plan = overlap(2)
    us = 1e-6
    names = plan.names
    spans = {"mm0.0": (10, 110), "copy0.0": (108, 308), "mm0.1": (110, 210), "copy0.1": (309, 509)}
    line = timeline(
        plan, [tuple(x * us for x in spans[name]) for name in names], source="measured", clock_uncertainty_s=5e-6,
        timed_makespan_s=520 * us, issues=[(k * us, k * us) for k in range(4)],
    )  # fmt: skip
    _, path = path_of(line)
    assert [plan.names[step.action] for step in path if step.kind == "action"] == ["mm0.0", "copy0.0", "copy0.1"]
    assert sum(sum(step.parts.values()) for step in path) == pytest.approx(520 * us, abs=1e-12)


def assert_path(line: Timeline) -> None:
    facts, path = path_of(line)
    whole = line.timed_makespan_s
    assert path[0].start_s == 0.0
    assert path[-1].end_s == whole
    for before, step in pairwise(path):
        assert step.start_s == before.end_s
    for step in path:
        assert min(step.parts.values(), default=0.0) >= 0.0
        assert sum(step.parts.values()) == pytest.approx(step.end_s - step.start_s, abs=1e-9 * max(1.0, whole))
    assert len(facts) == len(line)


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 10**6), st.sampled_from([FREE, NOISY, Dispatch(), replace(FREE, queue_depth=1)]))
def test_parts_add_up_to_the_makespan(seed: int, dispatch: Dispatch) -> None:
    line = predict(random_plan(seed, dispatch))
    if line.timed_makespan_s > 0.0:
        assert_path(line)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.sampled_from([Dispatch(), Dispatch(queue_depth=1)]))
def test_parts_add_up_under_noise(seed: int, noise: int, dispatch: Dispatch) -> None:
    line = predict(random_plan(seed, dispatch))
    if line.timed_makespan_s == 0.0:
        return
    rng = np.random.default_rng(noise)
    off = lambda column: np.maximum(0.0, column + rng.normal(0.0, 5e-6, len(column)))  # noqa: E731
    start, issue = off(line.start_s), off(line.issue_start_s)
    moved = replace(
        line, source="measured", clock_uncertainty_s=5e-6, start_s=start, issue_start_s=issue,
        end_s=np.maximum(start, off(line.end_s)), issue_end_s=np.maximum(issue, off(line.issue_end_s)),
    )  # fmt: skip
    assert_path(moved)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6))
def test_what_is_on_the_path_has_no_slack(seed: int) -> None:
    facts, path = path_of(predict(random_plan(seed)))
    slack = slacks(facts)
    for step in path:
        if step.kind == "action":
            assert slack[step.action] == pytest.approx(0.0, abs=1e-9)

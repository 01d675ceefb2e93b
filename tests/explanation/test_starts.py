"""What an action waited for last: never what was over after its start; CPU lanes wake only where they rested."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.explanation import explain
from graphsched.explanation.facts import gather, is_wait
from graphsched.explanation.starts import start_cause
from graphsched.platform import Dispatch
from graphsched.simulator import predict
from tests.builders import FREE, planned, platform, workload
from tests.explanation.hand import charged, parts_of, predicted, steps_of
from tests.simulator.test_properties import NOISY, random_plan
from tests.timelines import timeline

NAMES = [f"t{k}" for k in range(25)]


@pytest.mark.parametrize(
    ("task_s", "parts"),
    [
        (9.0, {"dispatch": 10.0, "latency": 30.0, "compute": 225.0, "return": 10.0}),
        (4.5, {"dispatch": 250.0, "latency": 30.0, "compute": 4.5, "return": 10.0}),
    ],
)
def test_a_cpu_lane_that_is_still_at_work_does_not_wake(task_s: float, parts: dict[str, float]) -> None:
    """25 tasks of one lane: handing one over takes 10 s, waking 30. Long ones are behind each other from the first on;
    short ones have all been carried out before the last is handed over.
    """
    where = platform(dispatch=charged(handoff_s=10, wake_s=30, sync_s=10))
    line = predicted(dict.fromkeys(NAMES, task_s), dict.fromkeys(NAMES, "cpu/w0"), where=where)
    assert parts_of(line) == parts
    last = explain(line).action("t24")
    assert last.cause.kind == ("lane" if task_s == 9.0 else "thread")
    assert last.cause.ready_s == last.start_s


def test_a_lane_that_waits_for_another_wakes_if_it_has_nothing_to_do() -> None:
    """c needs a (3 s, other lane), and stands behind b, which is over 1 s before that or after it.

    ::

        cpu/w0   a(3) ──▶ c
        cpu/w1   b(2, 4), c(1)
    """
    lanes = {"a": "cpu/w0", "b": "cpu/w1", "c": "cpu/w1"}
    where = platform(dispatch=charged(wake_s=0.5))
    for b_s, cause in ((2.0, "wait"), (4.0, "lane")):
        line = predicted({"a": 3.0, "b": b_s, "c": 1.0}, lanes, [("a", "c", 0)], where=where)
        assert steps_of(line)[-1] == ("action", "c", cause)
        assert parts_of(line)["latency"] == (1.0 if cause == "wait" else 0.5)


def test_a_graph_that_is_launched_sooner_than_its_costs_say_holds_up_what_waits_for_nothing_else() -> None:
    """Measured, one launch over two GPUs, which comes to b and c after 3 s by its costs; b begins at 1 s, c behind it.

    ::

        cuda:0/s0   a(1)
        cuda:1/s0   b(1), c(2)
    """
    where = platform(dispatch=charged(graph_across_s=10.0, graph_across_root_s=3.0))
    lanes = {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": "cuda:1/s0"}
    plan = replace(planned(workload({"a": 1.0, "b": 1.0, "c": 2.0}), where, lanes), mode="graph")
    spans = [(0.0, 1.0), (1.0, 2.0), (2.0 + 1e-6, 4.0)]
    line = timeline(plan, spans, issues=[(0.0, 0.5)] * 3, source="measured")
    assert steps_of(line) == [("thread", "b", "start"), ("action", "b", "thread"), ("action", "c", "lane")]
    assert parts_of(line) == pytest.approx({"dispatch": 1.0, "compute": 3.0, "latency": 1e-6}, abs=1e-5)


def test_the_links_of_a_chain_in_a_graph_follow_each_other_sooner_than_forks() -> None:
    """a ─▶ b on two lanes of a GPU, one graph."""
    where = platform(dispatch=charged(graph_launch_s=0.0, graph_wait_s=0.25, graph_fork_s=2.0))
    plan = planned(workload({"a": 1.0, "b": 1.0}, [("a", "b", 0)]), where, {"a": "cuda:0/s0", "b": "cuda:0/s1"})
    line = predict(replace(plan, mode="graph"))
    cause = explain(line).action("b").cause
    assert (cause.kind, cause.ready_s) == ("wait", 1.25)
    assert parts_of(line) == {"compute": 2.0, "latency": 0.25}


def test_chance_that_lets_an_action_start_sooner_is_in_its_cause() -> None:
    """Predicted: b waits for a, which takes 0.5 s by its costs; it starts 0.125 s after that."""
    where = platform(dispatch=charged(same_device_s=0.5))
    plan = planned(workload({"a": 1.0, "b": 1.0}, [("a", "b", 0)]), where, {"a": "cuda:0/s0", "b": "cuda:0/s1"})
    line = timeline(plan, [(0.0, 1.0), (1.125, 2.125)], issues=[(0.0, 0.0)] * 2)
    cause = explain(line).action("b").cause
    assert (cause.kind, cause.ready_s) == ("wait", 1.125)


@settings(deadline=None, max_examples=80)
@given(
    st.integers(0, 10**6),
    st.sampled_from([FREE, NOISY, Dispatch(), Dispatch(told_s=9e-6)]),
    st.sampled_from(["eager", "graph"]),
)
def test_no_work_begins_before_what_it_waited_for_is_ready(seed: int, dispatch: Dispatch, mode: str) -> None:
    facts = gather(predict(replace(random_plan(seed, dispatch), mode=mode)))
    for i in range(len(facts)):
        if not is_wait(facts, i):
            assert start_cause(facts, i).ready_s <= facts.work_from_s(i) + facts.tolerance_s

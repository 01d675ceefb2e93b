"""The chain of causes that a simulated makespan rests on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.costs import TaskCost
from graphsched.plan import Plan
from graphsched.simulator.columns import Columns
from graphsched.simulator.engine import Engine
from graphsched.simulator.model import EVERYTHING
from graphsched.simulator.path import Stretch, chain
from graphsched.simulator.predict import tabulated
from tests.builders import FREE, operations, planned, platform
from tests.simulator.measured import of_durations
from tests.simulator.test_properties import random_plan
from tests.simulator.test_substitution import SMALL


def run(plan: Plan, steps: int = 1) -> tuple[Columns, list[Stretch], float]:
    columns, _ = tabulated(plan, steps, EVERYTHING)
    engine = Engine(columns, timed=False)
    makespan_s = engine.run()
    return columns, chain(columns, engine), makespan_s


def seconds(plan: Plan) -> list[tuple[str, str, float]]:
    """What is on the chain, first first; what takes no time left out."""
    _, found, _ = run(plan)
    return [(s.cost, plan.names[s.action], pytest.approx(s.seconds)) for s in reversed(found) if s.seconds > 1e-12]


def test_a_chain_over_two_gpus() -> None:
    """a ─▶ copy ─▶ b: issue and launch of a, then work and latencies, then the thread's return."""
    lanes = {"a": "cuda:0/s0", "b": "cuda:1/s0"}
    plan = of_durations({"a": 2.0, "b": 3.0}, [("a", "b", 100)], platform(dispatch=SMALL), lanes)
    copy = plan.names[1]
    assert seconds(plan) == [
        ("host", "a", 0.02),
        ("latency", "a", 0.03),
        ("work", "a", 2.0),
        ("latency", copy, 0.02),
        ("work", copy, 1.0),
        ("latency", "b", 0.1),
        ("work", "b", 3.0),
        ("host", "b", 0.1),
    ]


def test_the_thread_where_it_is_slower_than_the_gpu() -> None:
    """Three tasks of 1 s, issued in 2 s each: the last ends 1 s after its issue."""
    lanes = dict.fromkeys("abc", "cuda:0/s0")
    plan = of_durations(dict.fromkeys("abc", 1.0), [], platform(dispatch=replace(FREE, run_s=2.0)), lanes)
    assert seconds(plan) == [("host", "c", 6.0), ("work", "c", 1.0)]


def test_the_lane_before_comes_before_the_thread() -> None:
    """Three tasks of 2 s, issued in 1 s each."""
    lanes = dict.fromkeys("abc", "cuda:0/s0")
    plan = of_durations(dict.fromkeys("abc", 2.0), [], platform(dispatch=replace(FREE, run_s=1.0)), lanes)
    assert seconds(plan) == [("host", "a", 1.0), ("work", "a", 2.0), ("work", "b", 2.0), ("work", "c", 2.0)]


def test_a_wait_of_the_thread_leads_to_what_it_waited_for() -> None:
    """a, wait, b."""
    lanes = {"a": "cuda:0/s0", "b": "cuda:1/s0"}
    where = platform(dispatch=replace(FREE, run_s=0.5, sync_s=0.25))
    plan = of_durations({"a": 2.0, "b": 3.0}, [], where, lanes, wait_after=["a"])
    expected = [("host", "a", 0.5), ("work", "a", 2.0), ("host", "b", 0.75), ("work", "b", 3.0), ("host", "b", 0.25)]
    assert seconds(plan) == expected


def test_a_blocking_copy_holds_the_thread_up() -> None:
    """a on the CPU ─▶ pageable copy of 1 s ─▶ b on a GPU; c on the other GPU is issued after it."""
    lanes = {"a": "cpu/w0", "b": "cuda:0/s0", "c": "cuda:1/s0"}
    where = platform(dispatch=replace(FREE, run_s=0.5), blocking=True)
    plan = of_durations({"a": 2.0, "b": 0.0, "c": 4.0}, [("a", "b", 100)], where, lanes, order=["a", "b", "c"])
    plan = replace(plan, copies={i: replace(copy, memory="pageable") for i, copy in plan.copies.items()})
    copy = plan.names[1]
    assert seconds(plan) == [("work", "a", 2.0), ("work", copy, 1.0), ("host", "c", 1.0), ("work", "c", 4.0)]


def test_a_result_of_a_cpu_lane_holds_the_thread_up() -> None:
    """a on a CPU lane, b on a GPU after it: no bytes between them."""
    lanes = {"a": "cpu/w0", "b": "cuda:0/s0"}
    where = platform(dispatch=replace(FREE, run_s=0.5, wait_s=0.25, launch_s=0.125))
    plan = of_durations({"a": 2.0, "b": 1.0}, [("a", "b", 0)], where, lanes)
    assert seconds(plan)[0] == ("work", "a", 2.0)
    assert seconds(plan)[-2:] == [("latency", "b", 0.125), ("work", "b", 1.0)]


def test_a_full_queue_leads_to_the_end_that_made_room() -> None:
    """Six tasks in a queue of two, of 1 s on GPU 0; then one of 9 s on GPU 1, issued once the sixth fits."""
    names = [f"t{i}" for i in range(6)]
    lanes = dict.fromkeys(names, "cuda:0/s0") | {"last": "cuda:1/s0"}
    where = platform(dispatch=replace(FREE, run_s=0.125, queue_depth=2))
    plan = of_durations(dict.fromkeys(names, 1.0) | {"last": 9.0}, [], where, lanes)
    assert seconds(plan) == [
        ("host", "t0", 0.125),
        *(("work", f"t{i}", 1.0) for i in range(4)),
        ("host", "last", 0.125),
        ("work", "last", 9.0),
    ]


def test_several_launches_end_with_the_last() -> None:
    """Four launches of 1 s each on the host, 0.5 s each on the GPU."""
    work, costs = operations({"a": 0}, [TaskCost(2.0, dispatch_s=4.0, launches=4)])
    plan = planned(work, platform(), {"a": "cuda:0/s0"}, costs=costs)
    assert seconds(plan) == [("host", "a", 4.0), ("work", "a", 0.5)]


def test_no_actions_no_chain() -> None:
    plan = of_durations({}, [], platform(), {})
    assert run(plan)[1] == []


@given(seed=st.integers(0, 10_000), depth=st.sampled_from([2, 1024]), steps=st.sampled_from([1, 3]))
@settings(max_examples=60, deadline=None)
def test_the_stretches_add_up_to_the_makespan(seed: int, depth: int, steps: int) -> None:
    """Random DAGs on GPUs, CPU lanes and a worker; waits, blocking copies and a queue of two among them."""
    costs = replace(SMALL, queue_depth=depth, query_s=0.015, result_s=0.04, yield_s=0.06)
    _, found, makespan_s = run(random_plan(seed, dispatch=costs), steps)
    assert sum(stretch.seconds for stretch in found) == pytest.approx(makespan_s)
    assert min(stretch.seconds for stretch in found) > -1e-9

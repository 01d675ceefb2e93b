"""Intervals of predictions: closed forms, and how often recorded runs lie inside."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.costs import Beside, Costs, TaskCost
from graphsched.plan import Plan
from graphsched.simulator import Model, predict
from graphsched.simulator.interval import (
    BY_CURVES,
    CPU_OPERATION,
    DEVIATIONS,
    ESTIMATED,
    GPU_OPERATION,
    HANDOVER_S,
    HOST,
    LATENCY,
    LATENCY_IN_GRAPHS,
    LAUNCH,
    LINKS,
    QUARTILES,
    SIDE_BY_SIDE,
    UNDER_LOAD,
    bounds,
)
from graphsched.timeline import Timeline
from graphsched.workload import Workload
from tests.builders import FREE, kernel, operations, planned, platform
from tests.simulator.measured import of_durations
from tests.simulator.test_properties import random_plan
from tests.simulator.test_substitution import SMALL


def spread(line: Timeline) -> tuple[float, float]:
    """Standard deviations below and above the makespan, as shares of it."""
    assert line.interval_s is not None
    low, high = line.interval_s
    return math.log(line.makespan_s / low) / DEVIATIONS, math.log(high / line.makespan_s) / DEVIATIONS


def on_lanes(cost: TaskCost, lanes: dict[str, str], kinds: int = 1, **figures: object) -> Plan:
    """Independent tasks, of `kinds` operations that all cost `cost`."""
    work, costs = operations({name: k % kinds for k, name in enumerate(lanes)}, [cost] * kinds)
    return planned(work, platform(**figures), lanes, costs=costs)  # type: ignore[arg-type]


def one_lane(n: int) -> dict[str, str]:
    return {f"t{i}": "cuda:0/s0" for i in range(n)}


def test_repeats_of_one_operation_do_not_average_out() -> None:
    """1 and 16 tasks of one operation: as wide, but for the handover, which is nothing beside a second."""
    for n in (1, 16):
        assert spread(predict(on_lanes(TaskCost(1.0), one_lane(n)))) == pytest.approx([GPU_OPERATION] * 2, rel=1e-3)


def test_different_operations_do() -> None:
    """16 operations of 1 s each: a quarter as wide."""
    line = predict(on_lanes(TaskCost(1.0), one_lane(16), kinds=16))
    assert spread(line) == pytest.approx([GPU_OPERATION / 4] * 2, rel=1e-3)


def test_quartiles_count_where_they_are_wider_than_the_floor() -> None:
    line = predict(on_lanes(TaskCost(1.0, quartiles_s=(0.9, 1.1)), one_lane(3)))
    assert spread(line) == pytest.approx([0.2 / QUARTILES] * 2, rel=1e-3)


def test_short_kernels_rest_on_the_handover() -> None:
    """100 kernels of 1 µs."""
    line = predict(on_lanes(TaskCost(1e-6), one_lane(100)))
    assert spread(line) == pytest.approx([math.hypot(HANDOVER_S / 1e-6, GPU_OPERATION)] * 2)


def test_given_durations_are_certain_and_estimates_are_not() -> None:
    given_plan = of_durations({"a": 1.0}, [], platform(), {"a": "cpu/w0"})
    assert spread(predict(given_plan)) == pytest.approx([0.0] * 2, abs=1e-12)
    work = Workload()
    work.task(kernel, 0, name="a", outputs=[])
    assert spread(predict(planned(work, platform(), {"a": "cpu/w0"}))) == pytest.approx([ESTIMATED] * 2)


def test_cpu_operations_have_a_floor_of_their_own() -> None:
    work, costs = operations({"a": 0}, [TaskCost(1.0)], model="CPU")
    line = predict(planned(work, platform(), {"a": "cpu/w0"}, costs=costs))
    assert spread(line) == pytest.approx([CPU_OPERATION] * 2)


def test_links_have_the_spread_of_their_memory_or_their_own() -> None:
    """A copy of 1 s between GPUs, beside tasks that take no time."""
    lanes = {"a": "cuda:0/s0", "b": "cuda:1/s0"}
    plan = of_durations({"a": 0.0, "b": 0.0}, [("a", "b", 100)], platform(), lanes)
    assert spread(predict(plan)) == pytest.approx([LINKS["peer"]] * 2, rel=1e-3)
    wide = replace(plan.platform, provenance={"spread": {"cuda:0>cuda:1 (peer)": 0.2}})
    assert spread(predict(replace(plan, platform=wide))) == pytest.approx([0.2 / QUARTILES] * 2, rel=1e-3)


def test_latencies_count() -> None:
    """A task that takes no time, 1 s after its launch."""
    plan = of_durations({"a": 0.0}, [], platform(dispatch=replace(FREE, launch_s=1.0)), {"a": "cuda:0/s0"})
    below, above = spread(predict(plan))
    assert below == pytest.approx(math.hypot(HOST, LATENCY), rel=1e-3)
    assert above == pytest.approx(math.hypot(HOST, LATENCY), rel=1e-3)


def test_latencies_in_graphs_have_a_spread_of_their_own() -> None:
    """a on one GPU → b on another, next to no time but the edge's and that of the join at the end: 1 s each."""
    lanes, where = {"a": "cuda:0/s0", "b": "cuda:1/s0"}, platform(dispatch=replace(FREE, graph_other_device_s=1.0))
    plan = of_durations({"a": 1e-6, "b": 1e-6}, [("a", "b", 0)], where, lanes)
    line = predict(replace(plan, mode="graph"), mode="graph", model=Model(chance=False))
    assert spread(line) == pytest.approx([LATENCY_IN_GRAPHS / 2] * 2, rel=1e-3)


@pytest.mark.parametrize("figure", ["graph_across_start_s", "graph_across_root_s", "graph_across_s"])
def test_the_launch_of_a_graph_over_several_gpus_errs_on_its_own(figure: str) -> None:
    """Two tasks that take next to no time on two GPUs, launched by 1 s that only graphs over several GPUs take."""
    work_s = {"a": 1e-6, "b": 1e-6}
    dispatch = replace(FREE, **{figure: 1.0})
    plan = of_durations(work_s, [], platform(dispatch=dispatch), {"a": "cuda:0/s0", "b": "cuda:1/s0"})
    line = predict(replace(plan, mode="graph"), mode="graph")
    assert line.makespan_s == pytest.approx(1.0, rel=1e-4)
    assert spread(line) == pytest.approx([LAUNCH] * 2, rel=0.05)


def test_a_thread_that_is_always_behind_counts_both_ways() -> None:
    """Ten tasks, 1 s to issue each, no time on the GPU."""
    line = predict(on_lanes(TaskCost(0.0, dispatch_s=1.0), one_lane(10)))
    assert spread(line) == pytest.approx([HOST] * 2, rel=1e-3)


def test_what_calls_take_longer_after_waits_is_the_threads() -> None:
    """a (1 ms), a wait of the thread, b, whose call takes 1 s longer for that."""
    lanes = dict.fromkeys("ab", "cuda:0/s0")
    where = platform(dispatch=replace(FREE, colds=((1000, 1.0),)))
    line = predict(of_durations({"a": 1e-3, "b": 0.0}, [], where, lanes, wait_after=["a"]))
    assert spread(line) == pytest.approx([HOST] * 2, rel=0.01)


def test_what_a_graph_is_later_for_the_threads_sleep_is_the_threads() -> None:
    """c (1 ms on the CPU) ──▶ h: a graph that is 1 s later for the sleep."""
    where = platform(dispatch=replace(FREE, graph_slept_colds=((1000, 1.0),)))
    plan = of_durations({"c": 1e-3, "h": 0.0}, [("c", "h", 0)], where, {"c": "cpu/w0", "h": "cuda:0/s0"})
    assert spread(predict(replace(plan, mode="graph"))) == pytest.approx([HOST] * 2, rel=0.01)


def test_a_thread_that_is_nearly_behind_counts_upwards_only() -> None:
    """Ten tasks of 1 s, issued in 1 s each: slower issue shows, faster issue saves the first one's share only."""
    below, above = spread(predict(on_lanes(TaskCost(1.0, dispatch_s=1.0), one_lane(10))))
    assert below == pytest.approx(math.hypot(GPU_OPERATION * 10 / 11, HOST / 11), rel=0.02)
    assert above == pytest.approx(math.hypot(GPU_OPERATION / 11, HOST * 10 / 11), rel=0.1)


def test_kernels_side_by_side_and_copies_under_load_rest_on_the_rules() -> None:
    lanes = {"t0": "cuda:0/s0", "t1": "cuda:0/s1"}
    plan = on_lanes(TaskCost(1.0, concurrency=((2, 1.5),)), lanes)
    assert spread(predict(plan)) == pytest.approx([math.hypot(GPU_OPERATION, BY_CURVES)] * 2, rel=1e-3)
    (key,) = plan.costs
    measured = plan.costs.merged(Costs(pairs={(key[0], *key): Beside(1.5)}))
    line = predict(replace(plan, costs=measured))
    assert spread(line) == pytest.approx([math.hypot(GPU_OPERATION, SIDE_BY_SIDE)] * 2, rel=1e-3)
    two = {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": "cpu/w0", "d": "cpu/w1"}
    edges = [("a", "c", 100), ("b", "d", 100)]
    plan = of_durations(dict.fromkeys("abcd", 0.0), edges, platform(shared={"bus": 100.0}), two)
    memory = next(iter(plan.copies.values())).memory
    assert spread(predict(plan)) == pytest.approx([math.hypot(LINKS[memory], UNDER_LOAD)] * 2, rel=1e-3)


def test_steps_are_as_wide_as_the_makespan_is_long() -> None:
    plan = on_lanes(TaskCost(1.0), one_lane(2))
    assert spread(predict(plan, steps=3)) == pytest.approx(spread(predict(plan)), rel=1e-3)


def test_nothing_takes_no_time() -> None:
    assert predict(of_durations({}, [], platform(), {})).interval_s == (0.0, 0.0)
    assert bounds(0.0, 0.0, 0.0) == (0.0, 0.0)


def test_the_interval_is_found_when_asked_for_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphsched.simulator import predict as prediction

    calls: list[Model] = []
    monkeypatch.setitem(
        prediction.__globals__, "_interval", lambda plan, steps, model: calls.append(model) or (1.0, 2.0)
    )
    line = predict(on_lanes(TaskCost(1.0), one_lane(2)))
    assert calls == []
    assert (line.interval_s, line.interval_s) == ((1.0, 2.0), (1.0, 2.0))
    assert len(calls) == 1


@given(seed=st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_the_makespan_lies_inside_and_the_bounds_are_the_same_every_time(seed: int) -> None:
    """Random DAGs on GPUs, CPU lanes and a worker."""
    line = predict(random_plan(seed, dispatch=SMALL))
    assert line.interval_s is not None
    low, high = line.interval_s
    assert 0.0 <= low <= line.makespan_s <= high
    assert predict(random_plan(seed, dispatch=SMALL)).interval_s == (low, high)

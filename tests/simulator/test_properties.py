"""What holds for every plan: bounds, order, ends, and the same bits every time."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import astuple, replace
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.plan import Plan
from graphsched.platform import Dispatch
from graphsched.simulator import Model, predict
from graphsched.timeline import Timeline
from tests.builders import FREE, layered, pinning_s, planned, platform

LANES = ("cuda:0/s0", "cuda:0/s1", "cuda:1/s0", "cuda:1/s1", "cpu/w0", "cpu/w1", "worker:0/s0")
SHARED = {"bus": 60.0, "in cuda:0": 50.0, "out cpu": 40.0}
NOISY = Dispatch(queue_depth=3)
ALONE = Model(contention=False, sharing=False)


def random_plan(seed: int, dispatch: Dispatch = FREE, names: tuple[str, ...] = ()) -> Plan:
    """A random layered DAG on random lanes, with waits of the thread here and there."""
    rng = random.Random(seed)
    work = layered(seed, names=names)
    order = list(work.graph)
    lanes = {task: rng.choice(LANES) for task in order}
    waits = rng.sample(order, rng.randint(0, 3))
    where = platform(
        workers=1, dispatch=dispatch, cores=rng.choice((1, 2, 64)), shared=SHARED, latency_s=0.125, blocking=True
    )
    return planned(work, where, lanes, wait_after=waits)


def alone_s(plan: Plan) -> list[float]:
    """Seconds that each action takes alone."""
    alone = []
    for i in range(len(plan)):
        task, copy = plan.task(i), plan.copies.get(i)
        if copy is not None:
            alone.append(0.125 + copy.read.value.nbytes / min(100.0, *SHARED.values()))
        else:
            alone.append(float(task.duration_s) if task is not None else 0.0)  # type: ignore[arg-type]
    return alone


def lower_bound(plan: Plan) -> float:
    """The longest path through the work, and the most work on one device's compute lanes, shared or not."""
    graph, longest = plan.work.graph, dict.fromkeys(plan.work.graph, 0.0)
    for node in nx.topological_sort(graph):
        before = max((longest[p] for p in graph.predecessors(node)), default=0.0)
        longest[node] = before + graph.nodes[node]["task"].duration_s
    load: dict[str, float] = {}
    for i, kind in enumerate(plan.kinds):
        lane = plan.lanes[plan.lane_of[i]]
        if kind == "run":
            key = lane.device if lane.device.startswith("cuda") else lane.name
            load[key] = load.get(key, 0.0) + plan.task(i).duration_s  # type: ignore[union-attr,operator]
    return max([*longest.values(), *load.values()])


def upper_bound(plan: Plan, dispatch: Dispatch) -> float:
    """All durations one after another, with every cost of dispatch and latency at every action and wait."""
    overhead = sum(cost for cost in astuple(dispatch) if isinstance(cost, float | int)) - dispatch.queue_depth
    steps = 1 + len(plan) + sum(map(len, plan.waits))
    return sum(alone_s(plan)) + 2 * overhead * steps


def obeys(timeline: Timeline) -> bool:
    """Whether nothing starts before it is issued, before what it waits for, or before its lane is free."""
    plan, last = timeline.plan, {}
    for i, lane in enumerate(plan.lane_of):
        before = [timeline.end_s[j] for j in plan.waits[i]] if plan.kinds[i] != "wait" else []
        before += [timeline.issue_start_s[i], last.get(lane, 0.0)]
        if timeline.start_s[i] < max(before) or timeline.end_s[i] < timeline.start_s[i]:
            return False
        if timeline.end_s[i] < max([timeline.end_s[j] for j in plan.waits[i]], default=0.0):
            return False
        last[lane] = timeline.end_s[i]
    return True


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 10**6), st.sampled_from([FREE, NOISY, Dispatch(), replace(FREE, queue_depth=1)]))
def test_bounds_and_order(seed: int, dispatch: Dispatch):
    plan = random_plan(seed, dispatch)
    timeline = predict(plan)
    assert obeys(timeline)
    for makespan in (timeline.makespan_s, timeline.timed_makespan_s):
        assert lower_bound(plan) <= makespan * (1 + 1e-12)
        assert makespan <= upper_bound(plan, dispatch) * (1 + 1e-12)
    assert timeline.timed_makespan_s >= timeline.end_s.max()


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6))
def test_with_nothing_shared_each_action_starts_as_soon_as_it_may(seed: int):
    plan = random_plan(seed)
    timeline = predict(plan, model=ALONE)
    alone, last, thread = alone_s(plan), dict.fromkeys(range(len(plan.lanes)), 0.0), 0.0
    ends: list[float] = []
    for i, lane in enumerate(plan.lane_of):
        waits = [ends[j] for j in plan.waits[i]]
        on_cuda = "cuda" in plan.lanes[lane].name
        if on_cuda:  # results of CPU lanes hold up the thread
            needed = [
                e for e, j in zip(waits, plan.waits[i], strict=True) if "cuda" not in plan.lanes[plan.lane_of[j]].name
            ]
            thread = max([thread, *needed])
        start = thread if plan.kinds[i] == "wait" else max([thread, last[lane], *waits])
        if plan.kinds[i] == "wait":
            thread = max([thread, *waits])
            ends.append(thread)
        elif plan.kinds[i] == "copy":
            ends.append(start + 0.125 + plan.copies[i].read.value.nbytes / 100.0)
            if (
                on_cuda
                and plan.copies[i].memory == "pageable"
                and "cpu" in (plan.copies[i].source, plan.copies[i].target)
            ):
                thread = ends[-1]  # it blocks
        else:
            ends.append(start + alone[i] + pinning_s(plan, i))
        last[lane] = ends[-1]
        assert timeline.start_s[i] == pytest.approx(start)
        assert timeline.end_s[i] == pytest.approx(ends[-1])


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([FREE, NOISY]))
def test_names_do_not_matter(seed: int, dispatch: Dispatch):
    names = [f"n{k}" for k in range(16)]
    random.Random(seed).shuffle(names)
    plain, renamed = predict(random_plan(seed, dispatch)), predict(random_plan(seed, dispatch, tuple(names)))
    assert plain.makespan_s == renamed.makespan_s
    assert plain.start_s.tolist() == renamed.start_s.tolist()
    assert plain.end_s.tolist() == renamed.end_s.tolist()


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([FREE, NOISY]))
def test_several_steps_end_in_order(seed: int, dispatch: Dispatch):
    """n steps take at least the work of n, at most n times one, and the first is as if alone or held up by none."""
    plan = random_plan(seed, dispatch)
    one, three = predict(plan), predict(plan, steps=3)
    assert 3 * lower_bound_of_lanes(plan) <= three.makespan_s * (1 + 1e-12)
    assert three.makespan_s <= 3 * upper_bound(plan, dispatch) * (1 + 1e-12)
    assert three.makespan_s >= one.makespan_s * (1 - 1e-12)
    assert len(three) == len(one)


def lower_bound_of_lanes(plan: Plan) -> float:
    load = [0.0] * len(plan.lanes)
    for i, kind in enumerate(plan.kinds):
        if kind == "run":
            load[plan.lane_of[i]] += plan.task(i).duration_s  # type: ignore[union-attr,operator]
    return max(load)


PROGRAM = """
from tests.simulator.test_properties import NOISY, predict, random_plan
for seed in range(12):
    t = predict(random_plan(seed, NOISY), steps=1 + seed % 2)
    print(t.makespan_s.hex(), t.timed_makespan_s.hex(), [float(e).hex() for e in t.end_s])
"""


def test_same_bits_under_any_hash_seed():
    root = str(Path(__file__).parents[2])
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": root},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert outputs.pop().count("\n") == 12

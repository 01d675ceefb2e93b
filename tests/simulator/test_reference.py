"""The engine against a slow simulator that keeps no state: all rates anew at every event."""

from __future__ import annotations

import random
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.plan import Plan
from graphsched.simulator import Model, predict
from graphsched.simulator.network import max_min_rates
from tests.builders import layered, pinning_s, planned, platform

LANES = ("cuda:0/s0", "cuda:0/s1", "cuda:1/s0", "cuda:2/s0", "worker:0/s0", "worker:1/s0", "cpu/w0")
CAPACITIES = ("bus", "in cuda:0", "out cuda:1", "in cpu", "out worker:0")
FREE_THREAD = Model(blocking=False, timing=False)


def random_plan(seed: int) -> Plan:
    rng = random.Random(seed)
    work = layered(seed, layers=5, width=5)
    lanes = {task: rng.choice(LANES) for task in work.graph}
    shared = {name: float(rng.randint(30, 150)) for name in rng.sample(CAPACITIES, rng.randint(0, 5))}
    here = platform(gpus=3, workers=2, cores=rng.randint(1, 3), shared=shared)
    side_by_side = tuple(replace(device, peer_engines=0) for device in here.devices)
    return planned(work, replace(here, devices=side_by_side), lanes)


def on_cpu(plan: Plan, i: int) -> bool:
    return "cuda" not in plan.lanes[plan.lane_of[i]].name


def rates(plan: Plan, running: list[int]) -> dict[int, float]:
    """Of each running action: seconds alone per second (tasks), bytes per second (copies)."""
    share = min(1.0, plan.platform.cores / max(1, sum(on_cpu(plan, i) for i in running)))
    copies = [i for i in running if plan.kinds[i] == "copy"]
    links = [plan.platform.link(plan.copies[i].source, plan.copies[i].target) for i in copies]
    names = list(plan.platform.capacities)
    found = max_min_rates(
        [100.0 * (share if on_cpu(plan, i) else 1.0) for i in copies],
        [[names.index(c) for c in link.crosses] for link in links],
        list(plan.platform.capacities.values()),
    )
    by_action = dict(zip(copies, found, strict=True))
    for i in running:
        if plan.kinds[i] == "run":
            lane = plan.lanes[plan.lane_of[i]]
            beside = sum(plan.kinds[j] == "run" and plan.lanes[plan.lane_of[j]].device == lane.device for j in running)
            by_action[i] = share if on_cpu(plan, i) else 1.0 / beside
    return by_action


def reference(plan: Plan) -> list[float]:
    """End of each action; dispatch, waits and latencies cost nothing."""
    left = [
        float(plan.copies[i].read.value.nbytes if i in plan.copies else plan.task(i).duration_s)  # type: ignore[union-attr,arg-type]
        + pinning_s(plan, i)
        for i in range(len(plan))
    ]
    last: dict[int, int] = {}
    before = []
    for i, lane in enumerate(plan.lane_of):
        before.append([*plan.waits[i], *([last[lane]] if lane in last else [])])
        last[lane] = i
    ends, now = [inf] * len(plan), 0.0
    while inf in ends:
        running = [i for i in range(len(plan)) if ends[i] == inf and all(ends[j] < inf for j in before[i])]
        over = [i for i in running if left[i] <= 1e-9]
        if over:
            for i in over:
                ends[i] = now
            continue
        speed = rates(plan, running)
        step = min(left[i] / speed[i] for i in running)
        now += step
        for i in running:
            left[i] -= speed[i] * step
    return ends


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 10**6))
def test_same_ends(seed: int):
    plan = random_plan(seed)
    assert predict(plan, model=FREE_THREAD).end_s.tolist() == pytest.approx(reference(plan), abs=1e-6)

"""How long tasks take: each distinct one is looked up once, and distinct ones stay apart."""

from __future__ import annotations

import pytest

from graphsched.costs import Costs, TaskCost
from graphsched.plan import Placement, build_plan
from graphsched.platform import Device, Platform
from graphsched.simulator.durations import Durations
from graphsched.workload import TensorSpec, Workload

GPU = Device("cuda:0", "cuda", "GPU")


@pytest.mark.parametrize("known", [True, False])
def test_a_given_duration_beside_a_measured_cost(known: bool) -> None:
    """Tasks that are given the same time, of which two are measured: what those cost the host is theirs.

    abs    print    abs
    """
    work = Workload()
    x = work.input("x", TensorSpec((4,)), device="cuda:0")
    for k, function in enumerate((abs, print, abs)):
        work.task(function, x, name=f"t{k}", outputs=[], duration_s=2.0)
    costs = Costs({(work["t0"].signature, "GPU"): TaskCost(1.0, dispatch_s=0.25)} if known else {})
    placement = Placement(["t0", "t1", "t2"], {f"t{k}": "cuda:0/s0" for k in range(3)})
    plan = build_plan(work, Platform("one", (Device("cpu", "cpu"), GPU)), costs, placement, scheduler="by hand")
    durations = Durations(plan)
    found = [durations.task(task, GPU) for task in work.tasks]
    assert [cost.device_s for cost in found] == [2.0] * 3
    assert [cost.dispatch_s == 0.25 for cost in found] == [known, False, known]

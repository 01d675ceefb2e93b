"""What a CPU lane takes for a task beside its operation."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from graphsched.plan import Placement, Plan, build_plan
from graphsched.platform import Device, Platform
from graphsched.simulator import Model, predict
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE

JOB_S = 0.25


def plan_of(*, job_s: float = JOB_S, mode: str = "eager") -> Plan:
    """t0 ──▶ t1 ──▶ t2 on one lane of the CPU, a second each."""
    work, names = Workload(), ["t0", "t1", "t2"]
    value = work.input("x", TensorSpec((2, 2)))
    for name in names:
        value = work.task(torch.neg, value, name=name, device="cpu", duration_s=1.0)
    here = Platform("here", (Device("cpu", "cpu"),), dispatch=replace(FREE, job_s=job_s))
    lanes = Placement(names, dict.fromkeys(names, "cpu/w0"))
    return replace(build_plan(work, here, None, lanes, scheduler="by hand"), mode=mode)


def test_each_task_has_its_own() -> None:
    found, without = predict(plan_of()), predict(plan_of(job_s=0.0))
    assert found.makespan_s - without.makespan_s == pytest.approx(3 * JOB_S)
    assert (found.end_s - without.end_s).tolist() == pytest.approx([JOB_S, 2 * JOB_S, 3 * JOB_S])


def test_it_is_dispatch_and_ranks_have_none() -> None:
    off = Model(dispatch=False)
    assert predict(plan_of(), model=off).makespan_s == predict(plan_of(job_s=0.0), model=off).makespan_s
    ranks = [predict(plan_of(job_s=job_s, mode="distributed")).makespan_s for job_s in (0.0, JOB_S)]
    assert ranks[0] == ranks[1]

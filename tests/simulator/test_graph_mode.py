"""Plans as one CUDA graph: closed forms, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from graphsched.costs import Costs, TaskCost
from graphsched.errors import ScheduleError
from graphsched.plan import Plan
from graphsched.schedulers import schedule
from graphsched.simulator import Model, predict
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, planned, platform

LAUNCHED = replace(
    FREE, run_s=9.0, copy_s=9.0, record_s=9.0, wait_s=9.0, switch_s=9.0, start_s=9.0, free_s=9.0, change_s=9.0,
    timed_record_s=9.0, same_device_s=9.0, graph_launch_s=3.0, launch_s=1.0, graph_wait_s=0.25, other_device_s=2.0,
    sync_s=0.5, timed_gap_s=0.125,
)  # fmt: skip


def chain(lanes: dict[str, str], *, barrier: bool = False) -> Plan:
    """a ──▶ b, 8 s each; with `barrier` a wait of the thread between them. Issuing a task in eager mode takes 100 s."""
    work = Workload()
    x = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    a = work.task(torch.neg, x, name="a")
    if barrier:
        work.barrier("gate")
    work.task(torch.neg, a, name="b")
    plan = planned(work, platform(dispatch=LAUNCHED), lanes)
    costs = Costs({(work["a"].signature, "GPU"): TaskCost(8.0, 100.0, company_s=50.0)})
    return replace(plan, costs=costs, mode="graph")


def test_one_launch_stands_before_all() -> None:
    line = predict(chain({"a": "cuda:0/s0", "b": "cuda:0/s0"}))
    assert line.makespan_s == 4 + 8 + 8 + 0.5
    assert line.timed_makespan_s == 4 + 2 * 8.125 + 0.5
    assert line.start_s.tolist() == [4.0, 12.125]
    assert line.issue_end_s.tolist() == [4.0, 4.0]


def test_an_edge_to_another_lane_costs_what_it_costs_in_a_graph() -> None:
    assert predict(chain({"a": "cuda:0/s0", "b": "cuda:0/s1"})).makespan_s == 4 + 8 + 0.25 + 8 + 0.5


def test_a_wait_joins_and_nothing_is_launched_after_it() -> None:
    line = predict(chain({"a": "cuda:0/s0", "b": "cuda:0/s0"}, barrier=True))
    assert line.makespan_s == 4 + 8 + 0.5 + 8 + 0.5


def test_without_dispatch_there_is_no_launch() -> None:
    assert predict(chain({"a": "cuda:0/s0", "b": "cuda:0/s0"}), model=Model(dispatch=False)).makespan_s == 16


def test_the_mode_asked_for_counts() -> None:
    plan = chain({"a": "cuda:0/s0", "b": "cuda:0/s0"})
    assert predict(plan, mode="eager").makespan_s > 200
    assert predict(replace(plan, mode="eager"), mode="graph").makespan_s == predict(plan).makespan_s


def test_a_step_is_launched_while_the_one_before_runs() -> None:
    plan = chain({"a": "cuda:0/s0", "b": "cuda:0/s0"})
    assert predict(plan, steps=3).makespan_s == 4 + 3 * 16 + 0.5


def test_a_plan_with_cpu_tasks_is_refused_by_all() -> None:
    work = Workload()
    work.task(torch.neg, work.input("x", TensorSpec((2, 2))), name="y", device="cpu")
    here = platform()
    with pytest.raises(ScheduleError, match="on the CPU: 'y'"):
        schedule(work, here, Costs(), scheduler="one_stream", mode="graph")
    with pytest.raises(ScheduleError, match="on the CPU: 'y'"):
        predict(schedule(work, here, Costs(), scheduler="one_stream"), mode="graph")

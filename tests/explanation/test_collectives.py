"""Collectives: they are at work on a lane of each of their devices."""

from __future__ import annotations

import pytest

from graphsched.explanation import explain
from graphsched.explanation.facts import gather
from graphsched.explanation.parts import others, rivals
from graphsched.explanation.starts import needs
from graphsched.explanation.usage import device_uses
from graphsched.simulator import predict
from graphsched.workload import TensorSpec, Workload
from tests.executors.programs import by_hand
from tests.simulator.test_collectives import FOUR, here, three_collectives, two_collectives
from tests.timelines import timeline


def test_each_of_its_lanes_is_busy_with_it() -> None:
    """sum (2 s) is on workers 0 and 1, more (2 s) on workers 1 and 2; nothing runs beside either."""
    line = predict(two_collectives())
    explanation = explain(line)
    uses = {use.name: use for use in explanation.lanes}
    busy_s = line.busy_s()
    assert {name: use.busy_s for name, use in uses.items() if name != "host/py"} == pytest.approx(
        {name: seconds for name, seconds in busy_s.items() if name != "host/py"}
    )
    lanes = [uses[f"worker:{k}/comm"] for k in range(3)]
    assert [(use.busy_s, use.overlap_s, use.actions) for use in lanes] == [(2.0, 0.0, 1), (4.0, 0.0, 2), (2.0, 0.0, 1)]


def test_a_lane_that_several_collectives_share_bounds_the_plan() -> None:
    """sum (0+1), more (1+2) and last (0+1) of 2 s each are all on worker:1/comm, the first lane of but one."""
    explanation = explain(predict(three_collectives()))
    lane = next(limit for limit in explanation.limits if limit.kind == "lane")
    assert (lane.where, lane.seconds) == ("worker:1/comm", 6.0)
    pair = explanation.why_not("sum", "more")
    assert (pair.kind, str(pair).rpartition("both are on ")[2].partition(",")[0]) == ("lane", "worker:1/comm")


def test_it_is_beside_tasks_of_each_of_its_devices() -> None:
    """sum, 0 to 4 s on GPUs 0 and 1, whose first lane is GPU 0's; mm, 1 to 3 s, runs on GPU 1."""
    work = Workload()
    values = [work.input(f"x{k}", TensorSpec((4,)), device=f"cuda:{k}") for k in range(2)]
    work.collective("all_reduce", values, devices=["cuda:0", "cuda:1"], name="sum", duration_s=4.0)
    work.task(abs, values[1], name="mm", device="cuda:1", outputs=[FOUR], duration_s=1.0)
    plan = by_hand(work, here(2, "cuda"), {"mm": "cuda:1/s0"})
    facts = gather(timeline(plan, [(0.0, 4.0), (1.0, 3.0)], issues=[(0.0, 0.0)] * 2))
    assert rivals(facts, 1, 1.0, 3.0) == [0]
    assert rivals(facts, 0, 0.0, 4.0) == [1]
    assert others(facts, 0, 0.0, 4.0) == [1]
    (device,) = (use for use in device_uses(facts) if use.name == "cuda:1")
    assert (device.busy_s, device.overlap_s, device.copied_beside_s) == (2.0, 2.0, 2.0)


def test_it_needs_what_each_of_its_devices_reads() -> None:
    plan = two_collectives()
    found = {name: [plan.names[j] for j in needs(plan, plan.index_of[name])] for name in ("sum", "more")}
    assert found == {"sum": ["a0", "a1"], "more": ["b1", "a2"]}

"""How busy the thread, lanes and devices are."""

from __future__ import annotations

import pytest

from graphsched.explanation import explain
from graphsched.explanation.facts import gather
from graphsched.explanation.usage import device_uses, lane_uses
from graphsched.simulator import predict
from graphsched.workload import TensorSpec, Workload
from tests.builders import planned, platform
from tests.explanation.hand import charged, predicted
from tests.timelines import overlap, plan_of, timeline


def test_lanes_beside_each_other() -> None:
    """mm 0–4, copy 3–7, mm 6–8 in 10 s: the copy is beside products for 2 s."""
    plan = overlap(2)
    spans = {"mm0.0": (0, 3), "copy0.0": (3, 7), "mm0.1": (4, 6), "copy0.1": (8, 10)}
    facts = gather(timeline(plan, [spans[name] for name in plan.names], issues=[(0.0, 0.0)] * 4))
    uses = {use.name: use for use in lane_uses(facts)}
    assert (uses["cuda:0/s0"].busy_s, uses["cuda:0/s0"].overlap_s) == pytest.approx((5.0, 2.0))
    assert (uses["cuda:0/d2h"].busy_s, uses["cuda:0/d2h"].overlap_s) == pytest.approx((6.0, 2.0))
    assert uses["cuda:0/d2h"].share == pytest.approx(0.6)
    (device,) = device_uses(facts)
    assert (device.name, device.actions) == ("cuda:0", 2)
    assert (device.busy_s, device.overlap_s, device.copied_beside_s) == pytest.approx((5.0, 2.0, 2.0))


def test_a_devices_lanes_count_once() -> None:
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s1", "c": "cuda:1/s0"}
    line = predicted({"a": 2.0, "b": 2.0, "c": 1.0}, lanes)
    devices = {use.name: use for use in explain(line).devices}
    assert devices["cuda:0"].busy_s == pytest.approx(4.0)  # side by side each takes twice as long
    assert devices["cuda:1"].busy_s == devices["cuda:1"].overlap_s == pytest.approx(1.0)


def test_the_thread_is_busy_when_it_issues_and_not_when_it_waits() -> None:
    line = predicted(
        {"a": 5.0, "b": 1.0},
        {"a": "cuda:0/s0", "b": "cuda:0/s0"},
        wait_after=["a"],
        where=platform(dispatch=charged(run_s=0.5, sync_s=0.25)),
    )
    thread = next(use for use in explain(line).lanes if use.name == "host/py")
    assert thread.busy_s == pytest.approx(0.5 + 0.25 + 0.5)


def test_the_thread_is_not_busy_while_a_pageable_copy_holds_it() -> None:
    """Two copies of 100 bytes at 100 B/s; issuing each takes half a second."""
    work = Workload()
    x = work.input("x", TensorSpec((100,), "int8"), device="cuda:0")
    for k in range(2):
        work.copy(x, to="cpu", pinned=False, name=f"down{k}")
    line = predict(planned(work, platform(blocking=True, dispatch=charged(copy_s=0.5)), {}))
    thread = next(use for use in explain(line).lanes if use.name == "host/py")
    assert (line.timed_makespan_s, thread.busy_s) == pytest.approx((3.0, 1.0))


def test_nothing_is_busy_where_nothing_runs() -> None:
    facts = gather(timeline(plan_of(Workload(), {}), []))
    assert [use.share for use in lane_uses(facts)] == [0.0]
    assert device_uses(facts) == ()

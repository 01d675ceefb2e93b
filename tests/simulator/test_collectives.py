"""Collectives as predicted: they start when all is there, occupy a lane of each device, and end on all together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.costs import Costs, TaskCost
from graphsched.estimates import collective_cost
from graphsched.plan import Placement, Plan, build_plan
from graphsched.platform import Device, Dispatch, Link, Platform
from graphsched.simulator import predict
from graphsched.workload import TensorSpec, Value, Workload
from tests.builders import FREE as NOTHING
from tests.executors.programs import by_hand

FOUR = TensorSpec((4,))
FREE = {"sync_s": 0.0, "handoff_s": 0.0, "wake_s": 0.0}


def here(count: int, kind: str = "worker", **links: float) -> Platform:
    devices = [Device(f"{kind}:{k}", kind, "P") for k in range(count)]  # type: ignore[arg-type]
    both = [Link(a.name, b.name, "peer", links.get("latency_s", 0.0), links.get("rate", 1e9))
            for a in devices for b in devices if a is not b]  # fmt: skip
    return Platform("here", (Device("cpu", "cpu"), *devices), tuple(both), dispatch=Dispatch(**FREE), cores=100)


def run(work: Workload, name: str, value: Value, device: str, seconds: float) -> Value:
    made: Value = work.task(abs, value, name=name, device=device, outputs=[FOUR], duration_s=seconds)
    return made


def two_collectives() -> Plan:
    """a0 (1 s) ─┐                  ┌─ b0 (1 s)
    a1 (3 s) ─┼─ sum (2 s, 0+1) ─┴─ b1 (1 s) ── more (2 s, 1+2) ── c1, c2 (1 s)
    a2 (1 s) ────────────────────────────────────┘
    """
    work = Workload()
    values = [work.input(f"x{k}", FOUR, device=f"worker:{k}") for k in range(3)]
    values = [run(work, f"a{k}", v, f"worker:{k}", 3.0 if k == 1 else 1.0) for k, v in enumerate(values)]
    sums = work.collective("all_reduce", values[:2], devices=["worker:0", "worker:1"], name="sum", duration_s=2.0)
    one = [run(work, f"b{k}", v, f"worker:{k}", 1.0) for k, v in enumerate(sums)][1]
    more = work.collective(
        "all_reduce", [one, values[2]], devices=["worker:1", "worker:2"], name="more", duration_s=2.0
    )
    for k, value in zip((1, 2), more, strict=True):
        run(work, f"c{k}", value, f"worker:{k}", 1.0)
    lanes = {task.name: f"{task.devices[0]}/w0" for task in work.tasks if task.kind == "run"}
    return by_hand(work, here(3), lanes)


@pytest.mark.parametrize("mode", ["eager", "distributed"])
def test_it_waits_for_the_last_device_and_ends_on_all(mode: str) -> None:
    plan = two_collectives()
    found = predict(plan, mode=mode)
    spans = {name: (float(found.start_s[i]), float(found.end_s[i])) for i, name in enumerate(plan.names)}
    assert spans["sum"] == (3.0, 5.0)
    assert spans["b0"] == spans["b1"] == (5.0, 6.0)
    assert spans["more"] == (6.0, 8.0)
    assert spans["c1"] == spans["c2"] == (8.0, 9.0)
    assert found.makespan_s == 9.0
    assert found.busy_s()["worker:1/comm"] == 4.0
    assert found.utilisation()["worker:2/comm"] == pytest.approx(2 / 9)
    assert [plan.names[i] for i in found.critical_path()] == ["a1", "sum", "b1", "more", "c1"]


def three_collectives() -> Plan:
    """sum (0+1), more (1+2) and last (0+1) of 2 s each, which need nothing of each other."""
    work = Workload()
    values = [work.input(f"x{k}", FOUR, device=f"worker:{k}") for k in range(3)]
    for name, k in (("sum", 0), ("more", 1), ("last", 0)):
        members = [f"worker:{i}" for i in (k, k + 1)]
        work.collective("all_reduce", values[k : k + 2], devices=members, name=name, duration_s=2.0)
    return by_hand(work, here(3), {})


def test_collectives_that_share_a_device_follow_one_another() -> None:
    """sum (0+1) and more (1+2) need nothing of each other: more is behind sum on worker:1/comm, its first lane."""
    found = predict(three_collectives())
    assert found.start_s.tolist() == [0.0, 2.0, 4.0]
    assert found.makespan_s == 6.0


@pytest.mark.parametrize(("call_s", "issued_s"), [(0.0, 6.0), (2.0, 9.0)])
def test_its_call_takes_as_long_as_the_thread_needs_just_now(call_s: float, issued_s: float) -> None:
    """Its call took 6 s, and a tiny one 2 (0: not known); now that takes 3, and one on the device 1."""
    work = Workload()
    values = [work.input(f"x{k}", FOUR, device=f"cuda:{k}") for k in range(2)]
    work.collective("all_reduce", values, devices=["cuda:0", "cuda:1"], name="sum")
    costs = Costs({(work["sum"].signature, "P"): TaskCost(1.0, 6.0, call_s=call_s)})
    where = replace(here(2, "cuda"), dispatch=replace(NOTHING, call_s=3.0))
    found = predict(build_plan(work, where, costs, Placement(["sum"], {}), scheduler="by hand"))
    assert found.issue_end_s.tolist() == [issued_s]
    assert found.end_s.tolist() == [issued_s + 1.0]


def test_between_ranks_it_starts_when_the_last_thread_has_issued_it() -> None:
    """Each hand-over takes 1 s; rank 1 has two more tasks to hand over before it comes to sum."""
    work = Workload()
    values = [work.input(f"x{k}", FOUR, device=f"worker:{k}") for k in range(2)]
    for name in "ab":
        run(work, name, values[1], "worker:1", 0.0)
    total, _ = work.collective("all_reduce", values, devices=["worker:0", "worker:1"], name="sum", duration_s=2.0)
    run(work, "after", total, "worker:0", 1.0)
    platform = replace(here(2), dispatch=Dispatch(**FREE | {"handoff_s": 1.0}))
    plan = by_hand(work, platform, {"a": "worker:1/w0", "b": "worker:1/w0", "after": "worker:0/w0"})
    found = predict(plan, mode="distributed")
    assert found.start_s[plan.index_of["sum"]] == 3.0
    assert found.start_s[plan.index_of["after"]] == 5.0


def test_several_steps_are_submitted() -> None:
    plan = two_collectives()
    assert predict(plan, steps=3).makespan_s > predict(plan, steps=2).makespan_s > predict(plan).makespan_s


def test_the_estimate_is_that_of_a_ring() -> None:
    """1 GB at 1 GB/s among 4: 2 (k-1)/k s and six latencies; half of that to scatter; three times 1 s to gather."""
    platform = here(4, "cuda", latency_s=0.01)
    for operation, seconds in (("all_reduce", 1.5 + 0.06), ("reduce_scatter", 0.75 + 0.03), ("all_gather", 3.03)):
        work = Workload()
        values = [work.input(f"x{k}", TensorSpec((250_000_000,)), device=f"cuda:{k}") for k in range(4)]
        work.collective(operation, values, devices=[f"cuda:{k}" for k in range(4)], name="op")  # type: ignore[arg-type]
        cost = collective_cost(work["op"], platform, None)
        assert cost.source == "estimated"
        assert cost.device_s == pytest.approx(seconds, rel=1e-3)


def test_a_measured_cost_comes_first_but_not_for_ranks_on_cpus() -> None:
    """Gloo between ranks is something else than a sum in one process; NCCL is NCCL."""
    for kind, ranks in (("worker", "estimated"), ("cuda", "measured")):
        work = Workload()
        values = [work.input(f"x{k}", FOUR, device=f"{kind}:{k}") for k in range(2)]
        work.collective("all_reduce", values, devices=[f"{kind}:{k}" for k in range(2)], name="op")
        costs = Costs({(work["op"].signature, "P"): TaskCost(0.5)})
        platform = here(2, kind)
        assert collective_cost(work["op"], platform, costs).device_s == 0.5
        assert collective_cost(work["op"], platform, costs, "distributed").source == ranks

"""What an action's time went to: its own work, what shares its device or its links, noise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.costs import Costs, TaskCost
from graphsched.explanation.facts import gather
from graphsched.explanation.parts import divide, divide_gap, in_the_way, lost_s, others, rivals, served_before
from graphsched.platform import Dispatch
from graphsched.simulator import predict
from graphsched.timeline import Timeline
from graphsched.workload import TensorSpec, Workload
from tests.builders import operations, planned, platform
from tests.explanation.hand import charged, parts_of, predicted, served_in_turn
from tests.simulator.beside import gpus, plan_of
from tests.timelines import overlap, timeline

US = 1e-6


def test_tasks_side_by_side_lose_what_their_curve_says() -> None:
    """Two of 1 s take 1.5 s beside each other: 0.5 lost each."""
    work, costs = operations({"a": 0, "b": 0}, [TaskCost(1.0, concurrency=((1, 1.0), (2, 1.5)))])
    plan = planned(work, platform(costs=costs), {"a": "cuda:0/s0", "b": "cuda:0/s1"}, costs=costs)
    line = predict(plan)
    assert parts_of(line) == pytest.approx({"compute": 1.0, "sharing": 0.5})
    facts = gather(line)
    assert [lost_s(facts, i) for i in range(2)] == pytest.approx([0.5, 0.5])


def test_transfers_that_share_a_capacity_lose_to_each_other() -> None:
    """Two of 50 bytes at 100 B/s leave the CPU by one port of 100 B/s: each takes 1 s instead of 0.5."""
    where = platform(shared={"out cpu": 100.0})
    work = Workload()
    x = work.input("x", TensorSpec((50,), "int8"))
    for k in range(2):
        work.copy(x, to=f"cuda:{k}", name=f"up{k}")
    line = predict(planned(work, where, {}))
    assert parts_of(line) == pytest.approx({"copy": 0.5, "contention": 0.5})
    facts = gather(line)
    assert rivals(facts, 0, 0.0, 1.0) == [1]


def test_cpu_lanes_share_the_cores() -> None:
    line = predicted({"a": 1.0, "b": 1.0}, {"a": "cpu/w0", "b": "cpu/w1"}, where=platform(cores=1))
    assert parts_of(line) == pytest.approx({"compute": 1.0, "sharing": 1.0})


def test_timing_events_are_told_apart() -> None:
    line = predicted({"a": 1.0}, {"a": "cuda:0/s0"}, where=platform(dispatch=charged(timed_gap_s=0.25)))
    assert parts_of(line) == {"compute": 1.0, "timing": 0.25}


def _measured(spans: list[tuple[float, float]], **more: object) -> Timeline:
    """One product of 100 µs and its copy of 90 µs by their costs, issued at 0."""
    plan = overlap(1)
    model = plan.platform.device("cuda:0").model
    costs = Costs({(plan.work["mm0.0"].signature, model): TaskCost(100 * US)})
    return timeline(
        replace(plan, costs=costs), spans, issues=[(0.0, 0.0)] * 2, source="measured", **more  # type: ignore[arg-type]
    )  # fmt: skip


def test_noise_is_no_loss_and_more_is() -> None:
    """100 µs alone: 102 are its own within the clocks; 120 with nothing beside are not."""
    facts = gather(_measured([(0.0, 102 * US), (102 * US, 200 * US)]))
    assert divide(facts, 0, 0.0, 102 * US)["compute"] == pytest.approx(102 * US)
    facts = gather(_measured([(0.0, 120 * US), (120 * US, 220 * US)]))
    parts = divide(facts, 0, 0.0, 120 * US)
    assert (parts["compute"], parts["slower"], parts["sharing"]) == pytest.approx((100 * US, 20 * US, 0.0))


def test_what_is_lost_is_lost_only_while_something_runs_beside() -> None:
    """The product takes 130 µs, 10 of them beside its copy by their spans: 10 lost to it, 20 for no reason."""
    facts = gather(_measured([(0.0, 130 * US), (120 * US, 220 * US)]))
    parts = divide(facts, 0, 0.0, 130 * US)
    assert (parts["sharing"], parts["slower"]) == pytest.approx((10 * US, 20 * US))
    assert divide(facts, 0, 0.0, 130 * US, launch_s=5 * US)["latency"] == pytest.approx(5 * US)


def test_a_copy_that_an_engine_serves_later() -> None:
    """up1 waits for up0 for a second; the lane is idle, and so is nothing else."""
    line = served_in_turn()
    assert parts_of(line) == pytest.approx({"copy": 1.0, "contention": 1.0})
    facts = gather(line)
    assert divide_gap(facts, 1, 0.0, 1.0, 0.25) == {"latency": 0.25, "contention": 0.75, "idle": 0.0}
    assert divide_gap(facts, 1, 1.0, 1.0, 0.25) == {"latency": 0.0}
    assert (served_before(facts, 1, 0.0), served_before(facts, 0, 0.0)) == (0, -1)


def test_others_are_of_other_lanes_and_rivals_use_the_same() -> None:
    """a and b on cuda:0, c on cuda:1, d on the CPU, all at once."""
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s1", "c": "cuda:1/s0", "d": "cpu/w0", "e": "cpu/w1"}
    facts = gather(predicted(dict.fromkeys("abcde", 1.0), lanes))
    assert others(facts, 0, 0.0, 1.0) == [1, 2, 3, 4]
    assert rivals(facts, 0, 0.0, 1.0) == [1]
    assert rivals(facts, 3, 0.0, 1.0) == [4]
    assert others(facts, 2, 1.5, 2.0) == [0, 1]


def test_work_begins_when_it_has_been_launched() -> None:
    """The lane passes the event before b at once; its kernel comes 3 s later with the launch."""
    line = predicted({"a": 1.0}, {"a": "cuda:0/s0"}, where=platform(dispatch=Dispatch(run_s=3.0)))
    facts = gather(line)
    assert facts.work_from_s(0) == pytest.approx(
        line.end_s[0] - 1.0 - line.plan.platform.dispatch.timed_gap_s, abs=1e-5
    )


@pytest.mark.parametrize("lanes", [2, 4])
def test_a_copy_that_kernels_slow_lost_that_to_them(lanes: int) -> None:
    """c (10 s alone, out of the GPU) beside kernels on lanes of it: a half longer beside those on three and more."""
    kernels = {f"k{k}": (60.0, 0, f"cuda:0/s{k}") for k in range(lanes)}
    plan = plan_of(kernels, {"c": ("cuda:0", "cpu", 500)}, gpus({"lanes_out": 0.5}))
    line = predict(plan)
    facts, c = gather(line), plan.index_of["c"]
    parts = divide(facts, c, facts.start_s[c], facts.end_s[c])
    assert parts["copy"] == pytest.approx(10.0)
    assert parts["contention"] == pytest.approx(5.0 if lanes > 2 else 0.0)
    assert parts["slower"] == pytest.approx(0.0)
    slows = [plan.index_of[name] for name in kernels] if lanes > 2 else []
    assert in_the_way(facts, c, facts.start_s[c], facts.end_s[c]) == slows
    assert rivals(facts, c, facts.start_s[c], facts.end_s[c]) == []


def test_a_kernel_that_uses_the_memory_slows_a_copy_and_one_that_does_not_is_not_named() -> None:
    """c (10 s alone) beside k, which fills the memory rate alone, and i, which does not use it and halves its speed."""
    kernels = {"k": (60.0, 6000, "cuda:0/s0"), "i": (60.0, 0, "cuda:0/s1")}
    plan = plan_of(kernels, {"c": ("cuda:0", "cpu", 500)}, gpus({"slowed_out": 0.5}))
    facts, c = gather(predict(plan)), plan.index_of["c"]
    parts = divide(facts, c, facts.start_s[c], facts.end_s[c])
    assert (parts["contention"], parts["slower"]) == pytest.approx((2.5, 0.0))
    assert in_the_way(facts, c, facts.start_s[c], facts.end_s[c]) == [plan.index_of["k"]]

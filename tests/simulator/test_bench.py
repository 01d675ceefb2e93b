"""The benchmark's plans are what it says they are."""

from __future__ import annotations

from graphsched.simulator import Model, predict
from graphsched.simulator.bench import bench_simulator, independent_chains, shared_kernels, travelling_chains


def test_plans_are_right_and_half_of_the_second_are_transfers():
    plan = independent_chains(100)
    plan.check()
    assert (len(plan), set(plan.kinds)) == (100, {"run"})
    plan = travelling_chains(1000)
    plan.check()
    assert len(plan) == 1000
    assert 0.48 < plan.kinds.count("copy") / len(plan) <= 0.5  # type: ignore[attr-defined]


def test_transfers_are_beside_each_other():
    plan = travelling_chains(400)
    assert predict(plan).makespan_s > 1.02 * predict(plan, model=Model(contention=False)).makespan_s


def test_rows():
    rows = bench_simulator([200])
    assert [(row["actions"], row["contention"]) for row in rows] == [(200, False), (200, True)]
    assert all(row["actions_per_s"] > 0 and row["bare_simpy_events_per_s"] > 0 for row in rows)
    assert ["sharing_actions_per_s" in row for row in rows] == [False, True]
    assert rows[1]["sharing_actions_per_s"] > 0


def test_kernels_go_through_the_queue_of_blocks():
    plan = shared_kernels(60)
    plan.check()
    assert {plan.lanes[lane].name for lane in range(len(plan.lanes))} >= {f"cuda:0/s{k}" for k in range(4)}
    assert predict(plan).makespan_s != predict(plan, model=Model(block_queue=False)).makespan_s
    assert predict(plan, model=Model(pairs=False)).makespan_s != predict(plan).makespan_s


def test_large_plans_are_predicted_without_contention_alone():
    rows = bench_simulator([40, 80], most_contended=40)
    assert [(row["actions"], row["contention"]) for row in rows] == [(40, False), (40, True), (80, False)]
    assert all(row["seconds"] > 0 and row["peak_bytes"] > 1_000_000 for row in rows)

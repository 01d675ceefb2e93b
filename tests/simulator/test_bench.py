"""The benchmark's plans are what it says they are."""

from __future__ import annotations

from graphsched.simulator.bench import bench_simulator, independent_chains, travelling_chains


def test_plans_are_right_and_half_of_the_second_are_transfers():
    plan = independent_chains(100)
    plan.check()
    assert (len(plan), set(plan.kinds)) == (100, {"run"})
    plan = travelling_chains(1000)
    plan.check()
    assert len(plan) == 1000
    assert 0.48 < plan.kinds.count("copy") / len(plan) <= 0.5  # type: ignore[attr-defined]


def test_rows():
    rows = bench_simulator([200])
    assert [(row["actions"], row["contention"]) for row in rows] == [(200, False), (200, True)]
    assert all(row["actions_per_s"] > 0 and row["bare_simpy_events_per_s"] > 0 for row in rows)

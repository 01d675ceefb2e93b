"""Goals of speed: which figures are held against which limits."""

from __future__ import annotations

import math
from typing import Any

import pytest

from graphsched.cli.bench_goals import growth, speed_goals


def heft(tasks: int, seconds: float) -> dict[str, Any]:
    return {"name": "heft", "tasks": tasks, "devices": 8, "seconds": seconds}


def simulated(actions: int, actions_per_s: float, *, contention: bool = False) -> dict[str, Any]:
    rate = {"actions_per_s": actions_per_s, "seconds": actions / actions_per_s, "bare_simpy_events_per_s": 1e6}
    return {"actions": actions, "contention": contention, "peak_bytes": 3_000_000_000} | rate


def goals(**data: Any) -> dict[str, tuple[float, bool]]:
    """Measured figure of each goal, and whether it is held."""
    return {row["goal"]: (row["measured"], row["held"]) for row in speed_goals(data).get("goals", [])}


def test_nothing_has_no_goals() -> None:
    assert speed_goals({"replay": [{"nodes": 5}]}) == {}


def test_schedulers() -> None:
    """One that is in time and one that is not; other schedulers and sizes have no goal."""
    rows = [heft(1_000, 0.014), heft(10_000, 0.6), heft(7, 9.0), heft(1_000, 9.0) | {"name": "wavefront"}]
    found = goals(schedulers=rows)
    assert found.pop("growth of heft over n log n")[1] in (True, False)
    assert found == {
        "heft: 1,000 tasks on 8 devices": (0.014, True),
        "heft: 10,000 tasks on 8 devices": (0.6, False),
    }


@pytest.mark.parametrize(("peer_s", "makespan_s", "held"), [(0.3, 2.0, (True, True)), (0.1, 1.9, (False, False))])
def test_peer(peer_s: float, makespan_s: float, held: tuple[bool, bool]) -> None:
    """Twenty times faster with a makespan no longer than its own."""
    row = {"peer": "saga 2", "tasks": 1000, "devices": 8, "peer_s": peer_s, "own_s": 0.01, "faster": peer_s / 0.01}
    found = goals(peer=[row | {"makespan_s": makespan_s, "own_makespan_s": 2.0}])
    assert tuple(held for _, held in found.values()) == held


def test_a_peer_that_is_missing_has_no_goal() -> None:
    assert goals(peer=[{"peer": "saga (not installed)", "faster": None}]) == {}


def test_simulator() -> None:
    """Rates and the share of a bare loop; of a million actions the time and the memory."""
    found = goals(simulator=[simulated(100, 3e5), simulated(100, 3e4, contention=True), simulated(1_000_000, 1e5)])
    found.pop("growth of simulating over n log n")
    assert found == {
        "simulating 100 actions": (3e5, True),
        "simulating 100 actions, over a bare SimPy loop": (0.3, True),
        "simulating 100 actions, half of them transfers": (3e4, False),
        "simulating 1,000,000 actions": (10.0, True),
        "simulating 1,000,000 actions, memory": (3_000_000_000, True),
    }


@pytest.mark.parametrize(
    ("power", "held"), [(lambda n: n, True), (lambda n: n * math.log(n), True), (lambda n: n**1.3, False)]
)
def test_growth(power: Any, held: bool) -> None:
    """Linear and n log n are held, more is not."""
    sizes = [1_000, 10_000, 100_000]
    rows = [{"graph": "random", "tasks": n, "edges": 2 * n, "seconds": 1e-9 * power(n)} for n in sizes]
    found = goals(workloads=rows)
    assert found["growth of building workloads over n log n"][1] is held
    assert found["building and checking 100,000 tasks, 200,000 edges"][1]


def test_building_call_by_call_has_no_goal() -> None:
    row = {"graph": "calls", "tasks": 100_000, "edges": 5, "seconds": 2.5, "bare_s": 1.0}
    assert goals(workloads=[row]) == {}


def test_exponents() -> None:
    row = growth("it", [10, 100], [5.0, 500.0])
    assert (row["smallest"], row["largest"]) == (10, 100)
    assert row["exponent"] == pytest.approx(2.0)
    assert row["exponent_over_n_log_n"] < 2.0

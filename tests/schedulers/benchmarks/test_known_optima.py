"""Workloads built around their optimum."""

from __future__ import annotations

import pytest

from graphsched.plan import build_plan
from graphsched.schedulers import critical_path_bound, lower_bound, schedule, work_bound
from graphsched.schedulers.benchmarks.known_optima import METHODS, KnownOptimum
from graphsched.simulator import predict

CASES = [(d, n, c, s) for d, n in ((1, 6), (2, 12), (3, 30), (8, 60)) for c in (0.2, 1.0, 3.0) for s in range(3)]


@pytest.fixture(params=sorted(METHODS))
def method(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.parametrize(("devices", "tasks", "communication", "seed"), CASES)
def test_the_placement_takes_as_long_as_the_bound(
    method: str, devices: int, tasks: int, communication: float, seed: int
) -> None:
    """Simulated with all copies in their queues: so neither can be shorter."""
    made = METHODS[method](devices, tasks, communication=communication, seed=seed)
    plan = build_plan(made.work, made.platform, None, made.placement, scheduler="known")
    plan.check()
    bound = {"packed": work_bound, "threaded": critical_path_bound}[method]
    assert predict(plan).makespan_s == made.makespan_s == bound(made.work, made.platform)
    assert lower_bound(made.work, made.platform) == made.makespan_s


def test_as_many_tasks_as_asked_about(method: str) -> None:
    for devices, tasks in ((2, 20), (4, 50), (8, 100)):
        assert 0.7 * tasks <= len(METHODS[method](devices, tasks).work) <= 1.3 * tasks


def moved(made: KnownOptimum) -> list[str]:
    plan = build_plan(made.work, made.platform, None, made.placement, scheduler="known")
    return [action.name for action in plan if action.copy is not None]


def test_values_move_between_devices(method: str) -> None:
    assert len(moved(METHODS[method](4, 40, seed=2))) >= 10


def test_list_schedulers_do_not_find_all_of_them(method: str) -> None:
    """Else there would be nothing to compare."""
    made = [METHODS[method](4, 40, communication=2.0, seed=seed) for seed in range(4)]
    found = [predict(schedule(each.work, each.platform)).makespan_s / each.makespan_s for each in made]
    assert max(found) > 1.05


def test_the_same_seed_makes_the_same(method: str) -> None:
    digests = [METHODS[method](3, 20, seed=seed).work.digest() for seed in (0, 0, 1)]
    assert digests[0] == digests[1] != digests[2]

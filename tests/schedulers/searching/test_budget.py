"""Budgets of searches, and what is reported of them."""

from __future__ import annotations

import pytest

from graphsched.errors import ScheduleError
from graphsched.schedulers.asking.progress import Progress, report, reported_to
from graphsched.schedulers.searching import budget as module
from graphsched.schedulers.searching.budget import Budget


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that shows its only entry."""
    now = [100.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])
    return now


def test_iterations_are_used_up() -> None:
    budget = Budget(3, None)
    for used in (0.0, 1 / 3, 2 / 3):
        assert budget.left
        assert budget.used == used
        budget.spend()
    assert (budget.left, budget.used) == (False, 1.0)


def test_seconds_are_used_up(clock: list[float]) -> None:
    """Whichever of both is used up first ends a search."""
    budget = Budget(100, 2.0)
    clock[0] += 0.5
    assert budget.used == 0.25
    budget.spend(50)
    assert budget.used == 0.5
    clock[0] += 1.5
    assert not budget.left


def test_nothing_to_spend() -> None:
    assert not Budget(0, None).left
    assert not Budget(5, 0.0).left


@pytest.mark.parametrize(("iterations", "seconds"), [(-1, None), (5, -0.5), (5, float("nan"))])
def test_what_no_budget_can_be(iterations: int, seconds: float | None) -> None:
    with pytest.raises(ScheduleError, match="0 or more are needed"):
        Budget(iterations, seconds)


def test_there_is_news_once_a_hundredth() -> None:
    budget = Budget(1000, None)
    news = []
    for _ in range(1000):
        budget.spend()
        news.append(budget.is_news())
    assert sum(news) == 101
    assert news[:10] == [True, *[False] * 8, True]


def test_only_those_who_listen_are_told() -> None:
    told: list[Progress] = []
    progress = Progress("search", 0.5, 2.0, 1.0)
    report(progress)
    with reported_to(told.append):
        report(progress)
    report(progress)
    assert told == [progress]

"""Schedulers that never end."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar

import pytest

from graphsched.errors import ScheduleError
from graphsched.plan import Placement
from graphsched.schedulers import register, registry, schedule
from graphsched.schedulers.asking import watchdog
from graphsched.schedulers.asking.watchdog import within
from tests.schedulers.graphs import graph, machine

WORK = graph(a=1.0)


def endless(work: object, platform: object, costs: object) -> Placement:
    """Catches what it can, and goes on."""
    while True:
        try:
            time.sleep(0)
        except Exception:
            continue


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Schedulers that a test registers are forgotten after it."""
    monkeypatch.setattr(registry, "_REGISTERED", dict(registry._REGISTERED))
    return


def threads() -> list[str]:
    """Names of the threads that are alive."""
    return [thread.name for thread in threading.enumerate() if thread.name == "scheduler"]


def test_one_that_never_ends_is_ended() -> None:
    """The error names it, and no thread is left."""
    register("endless")(endless)
    with pytest.raises(ScheduleError, match=r"scheduler 'endless' was not done after 0.1 s \(time_limit_s\)"):
        schedule(WORK, machine(1), scheduler="endless", time_limit_s=0.1)
    assert threads() == []


def test_one_that_ends_in_time_is_as_without_a_limit() -> None:
    """The same plan; the thread is gone."""
    plan = schedule(WORK, machine(1), scheduler="heft", time_limit_s=60)
    assert plan.text == schedule(WORK, machine(1), scheduler="heft").text
    assert threads() == []


def test_it_has_the_context_of_its_caller() -> None:
    """So that whoever listens to a search is told, limit or not."""
    told = ContextVar("told", default="nobody")
    told.set("somebody")
    assert within(60.0, "it", told.get) == "somebody"


def test_one_that_ends_just_at_the_limit_ends_in_one_way() -> None:
    """A result or the error; nothing is raised where nobody catches it, which pytest would tell."""
    for k in range(300):
        with contextlib.suppress(ScheduleError):
            assert within(1e-7 * (1 + k), "it", lambda: 7) == 7
    assert threads() == []


def test_what_it_raises_in_time_is_raised() -> None:
    """The very error."""
    error = KeyError("lost")

    def fails() -> None:
        raise error

    with pytest.raises(KeyError) as caught:
        within(60.0, "it", fails)
    assert caught.value is error


def test_a_library_that_does_not_return_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be ended, but the caller can go on; here it returns at last."""
    monkeypatch.setattr(watchdog, "GRACE_S", 0.05)
    gate = threading.Event()
    with pytest.raises(ScheduleError, match="it was not done after"):
        within(0.05, "it", lambda: gate.wait(5.0))
    assert threads() == ["scheduler"]
    gate.set()
    for thread in threading.enumerate():
        if thread.name == "scheduler":
            thread.join(5.0)
    assert threads() == []


@pytest.mark.parametrize("limit", [0, -1.0, float("nan"), float("inf"), True, "5"])
def test_limits_that_are_none(limit: object) -> None:
    """The value is told."""
    with pytest.raises(ScheduleError, match=f"time_limit_s is {limit!r}: seconds above 0 are needed"):
        schedule(WORK, machine(1), time_limit_s=limit)  # type: ignore[arg-type]


def test_one_that_waits_for_another_is_ended_with_it() -> None:
    """As `auto` does, which gives each that it asks a minute."""

    def endless() -> None:
        while True:
            pass

    for _ in range(20):
        with pytest.raises(ScheduleError, match="the outer was not done"):
            within(0.02, "the outer", lambda: within(60.0, "the inner", endless))
        assert threads() == []


def test_a_limit_may_be_longer_than_clocks_can_wait() -> None:
    """As of somebody who wants none."""
    assert within(1e300, "it", lambda: 7) == 7

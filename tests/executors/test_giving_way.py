"""Letting other threads run between two questions, and what it leaves as it was."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from graphsched.errors import StuckError
from graphsched.executors import giving_way as module
from graphsched.executors import watch as watching
from graphsched.executors.giving_way import LEAST_NS, PR_GET_TIMERSLACK, PR_SET_TIMERSLACK, give_way, short_sleeps
from graphsched.executors.watch import Watch

needs_prctl = pytest.mark.skipif(module._prctl() is None, reason="the system knows no timer slack")


def slack_ns() -> int:
    prctl = module._prctl()
    assert prctl is not None
    return prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0)


@needs_prctl
def test_the_threads_slack_is_what_it_was_afterwards() -> None:
    before_ns = slack_ns()
    with short_sleeps():
        assert slack_ns() == LEAST_NS
        with short_sleeps():
            give_way()
        assert slack_ns() == LEAST_NS  # the outer one's
    with pytest.raises(KeyError), short_sleeps():
        raise KeyError
    assert slack_ns() == before_ns > LEAST_NS


@needs_prctl
def test_a_slack_that_the_user_has_set_comes_back() -> None:
    prctl, before_ns = module._prctl(), slack_ns()
    assert prctl is not None
    prctl(PR_SET_TIMERSLACK, 20_000, 0, 0, 0)
    try:
        with short_sleeps():
            pass
        assert slack_ns() == 20_000
    finally:
        prctl(PR_SET_TIMERSLACK, before_ns, 0, 0, 0)


def test_without_such_a_function_sleeps_are_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(module, "_prctl", lambda: None)
    monkeypatch.setattr(module.time, "sleep", slept.append)
    with short_sleeps():
        give_way()
    assert slept == [module.APART_S]


def lane(*, at_work: bool) -> Any:
    return SimpleNamespace(at_work=at_work)


def test_a_watch_does_not_give_way_once_lanes_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lane that is at work until the second question, and a device that is done at the fourth."""
    order, here, answers = list[str](), lane(at_work=True), iter([False, False, False, True])

    def done() -> bool:
        order.append("asks")
        here.at_work = order.count("asks") < 2
        return next(answers)

    monkeypatch.setattr(watching, "give_way", lambda: order.append("gives way"))
    watch = Watch(60.0, lanes=[here])
    watch.begin()
    watch.poll(done, "a device")
    assert order == ["asks", "gives way", "asks", "asks", "asks"]


@needs_prctl
@pytest.mark.parametrize("yields", [True, False])
def test_a_watch_gives_way_between_two_questions(monkeypatch: pytest.MonkeyPatch, yields: bool) -> None:
    """Of a device that is done when it is asked for the third time; what is done at once is asked once."""
    before_ns, slacks, order = slack_ns(), [], []
    answers = iter([False, False, True, True])

    def done() -> bool:
        order.append("asks")
        slacks.append(slack_ns())
        return next(answers)

    monkeypatch.setattr(watching, "give_way", lambda: order.append("gives way"))
    watch = Watch(60.0, lanes=[lane(at_work=False), lane(at_work=True)] if yields else [])
    watch.begin()
    watch.poll(done, "a device")
    between = ["gives way"] if yields else []
    assert order == ["asks", *between, "asks", *between, "asks"]
    assert slacks == [before_ns, *[LEAST_NS if yields else before_ns] * 2]
    watch.poll(done, "a device")
    assert order[-1] == "asks"
    assert len(slacks) == 4
    watch.deadline = 0.0
    with pytest.raises(StuckError, match="a device"):
        watch.poll(lambda: False, "a device")
    assert slack_ns() == before_ns


def test_a_wait_for_a_lane_ends_with_what_fails_and_at_the_deadline() -> None:
    """Of a lane that fails, which says that it is done all the same, and of one that does not."""
    watch, result = Watch(0.01, lanes=[lane(at_work=True)]), threading.Event()
    watch.begin()
    with pytest.raises(StuckError, match="a result"):
        watch.wait(result, "a result")
    watch.begin()
    watch.fail(ValueError("broken"))
    result.set()
    with pytest.raises(ValueError, match="broken"):
        watch.wait(result, "a result")

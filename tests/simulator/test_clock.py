"""Calls in order of time."""

from __future__ import annotations

from math import inf

import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st
from simpy.events import Timeout

from graphsched.simulator.clock import Call, Clock

Asked = list[tuple[int, int]]  # (time, then asked for: one more call so much later); whole numbers, so that many tie


def _calls(asked: Asked) -> list[tuple[float, int]]:
    clock, seen = Clock(), list[tuple[float, int]]()

    def made(call: Call) -> None:
        seen.append((clock.now, call.what))
        if 0 <= call.what < len(asked):
            clock.call_at(clock.now + asked[call.what][1], -1 - call.what, made)

    for k, (time, _) in enumerate(asked):
        clock.call_at(time, k, made)
    clock.run()
    return seen


def _timeouts(asked: Asked) -> list[tuple[float, int]]:
    env, seen = simpy.Environment(), list[tuple[float, int]]()

    def made(event: Timeout) -> None:
        seen.append((env.now, event.value))
        if 0 <= event.value < len(asked):
            Timeout(env, asked[event.value][1], -1 - event.value).callbacks.append(made)

    for k, (time, _) in enumerate(asked):
        Timeout(env, time, k).callbacks.append(made)
    env.run()
    return seen


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=12))
def test_calls_come_in_the_order_of_timeouts(asked: Asked) -> None:
    assert _calls(asked) == _timeouts(asked)


def test_what_is_past_is_now() -> None:
    clock, seen = Clock(), list[tuple[float, str]]()
    clock.call_at(3.0, "", lambda _: clock.call_at(1.0, "late", lambda call: seen.append((clock.now, call.what))))
    clock.run()
    assert seen == [(3.0, "late")]


def test_a_call_that_must_be_the_first() -> None:
    clock, seen = Clock(), list[str]()
    for time, what in ((5.0, "a"), (5.0, "b"), (7.0, "c"), (2.0, "d")):
        clock.call_if_first(time, what, lambda call: seen.append(call.what))
    clock.run()
    assert seen == ["d", "a"]


def test_whether_more_happens_now() -> None:
    clock, seen = Clock(), list[bool]()
    assert clock.over
    for time in (1.0, 1.0, 2.0):
        clock.call_at(time, None, lambda _: seen.append(clock.over))
    clock.run()
    assert (seen, clock.over, clock.peek()) == ([False, True, True], True, inf)


def test_until_a_time() -> None:
    clock, seen = Clock(), list[float]()
    for time in (1.0, 2.0, 3.0):
        clock.call_at(time, time, lambda call: seen.append(call.what))
    clock.run(until=2.5)
    assert (seen, clock.now) == ([1.0, 2.0], 2.5)
    clock.run()
    assert (seen, clock.now) == ([1.0, 2.0, 3.0], 3.0)


def test_an_error_ends_it_and_leaves_the_rest() -> None:
    clock, seen = Clock(), list[str]()
    clock.call_at(1.0, None, lambda _: 1 // 0)
    clock.call_at(2.0, "later", lambda call: seen.append(call.what))
    with pytest.raises(ZeroDivisionError):
        clock.run()
    assert (seen, clock.now) == ([], 1.0)
    clock.run()
    assert seen == ["later"]

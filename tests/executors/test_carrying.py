"""Events that are recorded again in every step, and tokens: each wait is for the step before, however late it comes."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from graphsched.errors import StuckError
from graphsched.executors import carrying
from graphsched.executors.carrying import TURNS, Carry
from graphsched.executors.spinning import spins
from graphsched.executors.watch import Watch


class Event:
    """Notes which step recorded it last."""

    def __init__(self) -> None:
        self.step = -1

    def record(self, stream: Stream) -> None:
        self.step = stream.step

    def synchronize(self) -> None:
        seen.append(self.step)


class Stream:
    """Of the step that the thread issues."""

    step = 0

    def wait_event(self, event: Event) -> None:
        seen.append(event.step)


seen: list[int] = []


@pytest.fixture(autouse=True)
def played(monkeypatch: pytest.MonkeyPatch) -> None:
    seen.clear()
    monkeypatch.setattr(carrying, "new_event", Event)


def links(stream: Any) -> Carry:
    """Action 0 waits for action 1 of the step before, which is on `stream` (None: a lane of the CPU)."""
    return Carry({0: (1,)}, lambda end: stream, lambda end: f"'t{end}'")


@pytest.mark.parametrize("late", [0, 1, 2])
def test_a_wait_sees_the_record_of_the_step_before_though_later_steps_have_recorded(late: int) -> None:
    """The lane of the CPU comes to it up to two steps late; the first step waits for nothing."""
    stream = Stream()
    carry = links(stream)
    wait, record = carry.by_lane(0, Watch(1.0)) + carry.said(1)
    for step in range(8):
        stream.step = step
        if step >= late:
            wait()
        record()
    assert seen == [-1, *range(7 - late)]
    assert TURNS == 3


def test_the_thread_enqueues_a_wait_for_the_step_before() -> None:
    """Each side has calls of its own, and takes turns with the other."""
    stream, watch = Stream(), Watch(1.0)
    carry = links(stream)
    sides = [(carry.by_stream(0, stream, watch), carry.said(1)) for _ in range(2)]
    for step in range(6):
        stream.step = step
        for call in (*sides[step % 2][0], *sides[step % 2][1]):
            call()
    assert seen == [-1, 0, 1, 2, 3, 4]


def test_tokens_of_cpu_lanes() -> None:
    """The first step finds one; without those of the step before the next is stuck, which says on what."""
    carry, watch = links(None), Watch(0.05)
    wait, say = carry.by_lane(0, watch) + carry.said(1)
    watch.begin()
    wait()
    say()
    wait()
    with pytest.raises(StuckError, match=r"waited for 't1' of the step before beyond 0.05 s"):
        wait()


@pytest.mark.skipif(not spins(), reason="the C library has no lfind or strcmp")
@pytest.mark.parametrize("awake", [True, False])
def test_the_thread_waits_for_tokens_of_cpu_lanes_awake_where_it_has_a_core(
    awake: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six steps, of which the lane is late in all but the first; then one that it never comes to, and one after it."""
    ways: list[str] = []
    real = Watch.spin

    def spin(*given: Any) -> None:
        ways.append("awake")
        real(*given)

    monkeypatch.setattr(Watch, "spin", spin)
    carry, watch = links(None), Watch(5.0, spins=awake)
    watch.begin()
    wait, say = carry.by_stream(0, None, watch) + carry.said(1)
    wait()
    for _ in range(5):
        lane = threading.Timer(0.01, say)
        lane.start()
        wait()
        lane.join()
    assert bool(ways) is awake
    watch.deadline = time.perf_counter() + 0.05
    with pytest.raises(StuckError, match="waited for 't1' of the step before"):
        wait()
    say()
    watch.fail(ValueError("broken"))
    with pytest.raises(ValueError, match="broken"):
        wait()


def test_nothing_is_carried_where_nothing_is_waited_for() -> None:
    assert not carrying.NOTHING
    assert links(None)
    assert carrying.NOTHING.said(0) == carrying.NOTHING.by_lane(0, Watch(1.0)) == []

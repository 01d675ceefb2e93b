"""Free time of a lane, against a plain search."""

from __future__ import annotations

import math
import random
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.schedulers.placing import slots as module
from graphsched.schedulers.placing.slots import Slots


def take(slots: Slots, ready: float, seconds: float) -> float:
    """Occupy the first interval that fits; where it starts."""
    gap = slots.find(ready, seconds)
    start = slots.start(gap, ready)
    slots.take(gap, start, seconds)
    return start


@settings(deadline=None)
@given(
    tasks=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), max_size=40), block=st.sampled_from([1, 2, 3, 64])
)
def test_first_interval_that_fits(tasks: list[tuple[int, int]], block: int) -> None:
    """The earliest whole second from which a task collides with none of those before, however intervals are kept."""
    slots = Slots()
    taken: list[tuple[float, float]] = []
    with mock.patch.object(module, "BLOCK", block):
        for ready, seconds in tasks:
            start = take(slots, ready, seconds)
            free = (t for t in range(ready, 900) if all(t + seconds <= a or t >= b for a, b in taken))
            assert start == next(free)
            taken.append((start, start + seconds))
            assert slots.idle_s == max(b for _, b in taken)


class Flat:
    """Free intervals in one list, searched from the first."""

    def __init__(self) -> None:
        self.free = [(0.0, math.inf)]

    def take(self, ready: float, seconds: float) -> float:
        """Occupy the first interval that fits; where it starts."""
        fits = (k for k, (a, b) in enumerate(self.free) if max(a, ready) + seconds <= b)
        k = next(fits)
        a, b = self.free[k]
        start = max(a, ready)
        self.free[k : k + 1] = [(x, y) for x, y in ((a, start), (start + seconds, b)) if x < y]
        return start


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6), block=st.sampled_from([1, 4, 32]))
def test_as_a_plain_search_to_the_bit(seed: int, block: int) -> None:
    """Hundreds of intervals whose ends have all their digits, tasks of no length among them."""
    rng, slots, flat = random.Random(seed), Slots(), Flat()
    with mock.patch.object(module, "BLOCK", block):
        for _ in range(300):
            ready, seconds = rng.random() * 100, rng.choice([0.0, 0.1, 0.3, rng.random()])
            assert take(slots, ready, seconds) == flat.take(ready, seconds)


def test_blocks_without_room_are_passed_over() -> None:
    """Gaps of 1 s from 0 to 40 s, one of 3 s after them: it is the first that holds 3 s, to the bit, and 2 s."""
    slots = Slots()
    with mock.patch.object(module, "BLOCK", 2):
        for second in range(1, 40, 2):
            slots.take(slots.last, float(second), 1.0)
        slots.take(slots.last, 43.0, 1.0)
        blocks = len(slots._ends)
        assert blocks > 4
        assert slots._next_block(0, 2.0) >= blocks - 2
        assert slots._next_block(0, 1.0) == 1
        assert [take(slots.copy(), 0.5, seconds) for seconds in (3.0, 2.0, 3.5, 1.0)] == [40.0, 40.0, 44.0, 2.0]


def test_the_interval_that_never_ends_has_one_name_however_it_is_found() -> None:
    """At 5 s comes a task of no length; once the gap before it is gone, so is all that `gaps_over_s` counted with."""
    slots = Slots()
    for ready, seconds in ((5.0, 0.0), (0.0, 5.0)):
        take(slots, ready, seconds)
    assert slots.gaps_over_s == slots.idle_s == 5.0
    assert [slots.find(ready, seconds) for ready, seconds in ((5.0, 0.0), (4.0, 1.0), (0.0, 9.0))] == [slots.last] * 3
    with mock.patch.object(module, "BLOCK", 1):
        for second in range(6, 16, 2):
            take(slots, float(second), 1.0)
        assert slots.find(0.0, 2.0) == slots.find(15.0, 1.0) == slots.last


def test_a_copy_stays_as_it_was() -> None:
    """And the lane becomes as it was by it."""
    slots = Slots()
    take(slots, 5.0, 2.0)
    before = slots.copy()
    assert take(slots, 0.0, 3.0) == 0.0
    assert take(slots, 0.0, 9.0) == 7.0
    slots.become(before)
    assert slots.idle_s == 7.0
    assert take(slots, 0.0, 3.0) == 0.0


def test_task_of_no_length_is_not_straddled() -> None:
    """It has its place in the lane's order, so that nothing may begin before and end after it."""
    slots = Slots()
    assert take(slots, 5.0, 0.0) == 5.0
    assert take(slots, 4.0, 2.0) == 5.0
    assert take(slots, 3.0, 2.0) == 3.0

"""Free time of a lane, against a plain search."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graphsched.schedulers.slots import Slots


def take(slots: Slots, ready: float, seconds: float) -> float:
    """Occupy the first interval that fits; where it starts."""
    gap = slots.find(ready, seconds)
    start = max(ready, slots.begins[gap])
    slots.take(gap, start, seconds)
    return start


@given(tasks=st.lists(st.tuples(st.integers(0, 12), st.integers(1, 12)), max_size=20))
def test_first_interval_that_fits(tasks: list[tuple[int, int]]) -> None:
    """The earliest whole second from which a task collides with none of those before."""
    slots = Slots()
    taken: list[tuple[float, float]] = []
    for ready, seconds in tasks:
        start = take(slots, ready, seconds)
        free = (t for t in range(ready, 400) if all(t + seconds <= a or t >= b for a, b in taken))
        assert start == next(free)
        taken.append((start, start + seconds))


def test_task_of_no_length_is_not_straddled() -> None:
    """It has its place in the lane's order, so that nothing may begin before and end after it."""
    slots = Slots()
    assert take(slots, 5.0, 0.0) == 5.0
    assert take(slots, 4.0, 2.0) == 5.0
    assert take(slots, 3.0, 2.0) == 3.0

"""Numbers of other kinds since a call's last one: closed forms, and against a search that is plain and slow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsched.simulator.call_distance import call_distances


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        ([], []),
        ([3], [0]),
        ([3, 3], [0, 0]),
        ([0, 1], [1, 1]),
        ([0, 1, 2, 3], [3, 3, 3, 3]),
        ([0, 1, 1, 1, 0], [0, 1, 0, 0, 1]),
    ],
)
def test_closed_forms(kinds: list[int], found: list[int]) -> None:
    assert call_distances(kinds, most=9) == found


@given(st.lists(st.integers(0, 6), max_size=30), st.integers(1, 8))
def test_as_many_as_there_are_different_ones_in_between(kinds: list[int], most: int) -> None:
    twice, n = kinds + kinds, len(kinds)
    for i, others in enumerate(call_distances(kinds, most)):
        before = n + i - 1
        while twice[before] != kinds[i]:
            before -= 1
        assert others == min(most, len(set(twice[before + 1 : n + i])))

"""Reuse distances against counting them one by one."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from graphsched.simulator.reuse import Recency

USES = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 9)), max_size=60)


def counted(uses: list[tuple[str, int]], name: str) -> float:
    """Bytes of the last use of each value since `name` was used last, its own included."""
    places = {used: k for k, (used, _) in enumerate(uses)}
    return sum(uses[k][1] for k in places.values() if k >= places[name]) if name in places else inf


@given(USES)
def test_distances_are_those_that_are_counted(uses: list[tuple[str, int]]) -> None:
    recency = Recency()
    for k, (name, nbytes) in enumerate(uses):
        recency.use(name, nbytes)
        assert [recency.distance(each) for each in "abcdef"] == [counted(uses[: k + 1], each) for each in "abcdef"]


def test_many_uses_of_few_values_stay_right() -> None:
    recency = Recency()
    for k in range(10_000):
        recency.use(str(k % 7), k % 3 + 1)
    assert recency.distance("3") == 1  # 9999 % 7 is 3, 9999 % 3 is 0
    assert recency.distance("4") == sum(k % 3 + 1 for k in range(9_993, 10_000))

"""Flows whose sources make one transfer at a time; `test_network.py` has max-min fairness."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsched.simulator.fairness import first_come_rates, max_min_rates

FAR = 1e9


def test_the_first_flow_of_a_source_goes_and_its_others_wait() -> None:
    """s0 -> t2, t3, t2; s1 -> t2: s0's first and s1's share t2."""
    rates = first_come_rates([FAR] * 4, [0, 0, 0, 1], [(2,), (3,), (2,), (2,)], [10.0, 10.0, 6.0, 10.0])
    assert rates == [3.0, 0.0, 0.0, 3.0]


def test_which_flow_comes_first_counts() -> None:
    """s0 -> t3, t2; s1 -> t2: nobody shares anything."""
    assert first_come_rates([FAR] * 3, [0, 0, 1], [(3,), (2,), (2,)], [10.0, 9.0, 6.0, 8.0]) == [8.0, 0.0, 6.0]


def test_a_source_of_several_goes_at_its_own_rate_and_a_lone_flow_at_its_limit() -> None:
    """Two flows of s0 are limited to 4 each, s0 to 5: the next begins while the one before drains."""
    assert first_come_rates([4.0, 4.0, 4.0], [0, 0, 1], [(2,), (3,), (4,)], [5.0] * 5) == [5.0, 0.0, 4.0]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(1, 9))
def test_one_flow_a_source_is_max_min(targets: list[int], capacity: int) -> None:
    """Sources of one flow each, to targets of one capacity: nobody waits for anybody."""
    n = len(targets)
    crosses = [(n + t,) for t in targets]
    capacities = [10.0] * n + [float(capacity)] * 4
    fair = max_min_rates([FAR] * n, [(s, *c) for s, c in enumerate(crosses)], capacities)
    assert first_come_rates([FAR] * n, list(range(n)), crosses, capacities) == pytest.approx(fair)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=10))
def test_each_source_sends_to_one_target_and_no_capacity_is_exceeded(pairs: list[tuple[int, int]]) -> None:
    sources = [s for s, _ in pairs]
    rates = first_come_rates([FAR] * len(pairs), sources, [(4 + t,) for _, t in pairs], [1.0] * 8)
    for source in set(sources):
        of_source = [rate for rate, s in zip(rates, sources, strict=True) if s == source]
        assert of_source[0] > 0
        assert of_source[1:] == [0.0] * (len(of_source) - 1)
    into = [sum(r for r, (_, t) in zip(rates, pairs, strict=True) if t == k) for k in range(4)]
    assert max(into) <= 1 + 1e-9

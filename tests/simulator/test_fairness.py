"""Flows whose sources serve them in turn; `test_network.py` has max-min fairness."""

from __future__ import annotations

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsched.simulator.fairness import in_turn_rates, max_min_rates

FAR = 1e9


def test_a_crowded_target_holds_back_the_flow_to_an_idle_one():
    """s0 -> t2, t3; s1 -> t2, all of capacity 1: with u = rate of s0's flows, u + u / (1 - u) = 1."""
    u = (3 - sqrt(5)) / 2
    rates = in_turn_rates([FAR] * 3, [0, 0, 1], [(2,), (3,), (2,)], [1.0] * 4)
    assert rates == pytest.approx([u, u, 1 - u])


def test_two_sources_that_only_send_to_the_crowded_target():
    """s0 -> t3, t4; s1 -> t3; s2 -> t3: 2u / (1 - u) + u = 1."""
    u = 2 - sqrt(3)
    rates = in_turn_rates([FAR] * 4, [0, 0, 1, 2], [(3,), (4,), (3,), (3,)], [1.0] * 5)
    assert rates == pytest.approx([u, u, (1 - u) / 2, (1 - u) / 2])


def test_both_targets_crowded():
    """s0 -> t3, t4; s1 -> t3; s2 -> t4: half of what s0 has under way is at each, so half the others' rate."""
    rates = in_turn_rates([FAR] * 4, [0, 0, 1, 2], [(3,), (4,), (3,), (4,)], [1.0] * 5)
    assert rates == pytest.approx([1 / 3, 1 / 3, 2 / 3, 2 / 3])


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(1, 9))
def test_one_flow_a_source_is_max_min(targets: list[int], capacity: int):
    """Sources of one flow each, to targets of one capacity: nobody holds anybody back."""
    n = len(targets)
    crosses = [(n + t,) for t in targets]
    capacities = [10.0] * n + [float(capacity)] * 4
    fair = max_min_rates([FAR] * n, [(s, *c) for s, c in enumerate(crosses)], capacities)
    assert in_turn_rates([FAR] * n, list(range(n)), crosses, capacities) == pytest.approx(fair, rel=1e-6)


@given(st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=10))
def test_no_capacity_is_exceeded_and_each_source_is_held_by_something(pairs: set[tuple[int, int]]):
    flows = sorted(pairs)
    rates = in_turn_rates([FAR] * len(flows), [s for s, _ in flows], [(4 + t,) for _, t in flows], [1.0] * 8)
    out = [sum(r for r, (s, _) in zip(rates, flows, strict=True) if s == k) for k in range(4)]
    into = [sum(r for r, (_, t) in zip(rates, flows, strict=True) if t == k) for k in range(4)]
    assert max(out + into) <= 1 + 1e-6
    for rate, (s, _) in zip(rates, flows, strict=True):
        assert rate == pytest.approx(rates[[f[0] for f in flows].index(s)])
        full = any(into[t] > 1 - 1e-5 for source, t in flows if source == s)
        assert full or out[s] > 1 - 1e-5


def test_own_limits_are_kept():
    assert in_turn_rates([0.2, FAR], [0, 0], [(1,), (2,)], [1.0] * 3) == [0.2, 0.2]

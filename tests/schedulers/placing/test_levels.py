"""Levels, and when they are equal."""

from __future__ import annotations

from graphsched.schedulers.placing.levels import in_grains, levels_above, levels_below
from tests.schedulers.graphs import graph


def test_longest_paths_on_both_sides() -> None:
    """With 3 s between a and c, and without.

    ::

        a (1) ─▶ b (2) ─▶ d (4)
          └──3──▶ c (1) ──▶┘
    """
    seconds = {"a": 1.0, "b": 2.0, "c": 1.0, "d": 4.0}
    work = graph([("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")], **seconds)
    between = {("a", "c"): 3.0}
    assert levels_below(work, seconds) == {"a": 7, "b": 6, "c": 5, "d": 4}
    assert levels_below(work, seconds, between) == {"a": 9, "b": 6, "c": 5, "d": 4}
    assert levels_above(work, seconds, between) == {"a": 0, "b": 1, "c": 4, "d": 5}


def test_levels_that_differ_by_rounding_are_equal() -> None:
    """And those that differ by more are not; nothing and zeros have an order too."""
    grains = in_grains({"a": 0.1 + 0.2, "b": 0.3, "c": 0.3 * (1 + 1e-9)})
    assert grains["a"] == grains["b"] < grains["c"]
    assert in_grains({"a": 0.0, "b": 0.0}) == {"a": 0, "b": 0}
    assert in_grains({}) == {}

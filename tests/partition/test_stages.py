from __future__ import annotations

import math
import random
from itertools import combinations, pairwise

import pytest

from graphsched.partition.stages import TOLERANCE, balanced, least_largest


def every_cut(layers: int, stages: int) -> list[list[int]]:
    return [[0, *cut, layers] for cut in combinations(range(1, layers), stages - 1)]


def largest(costs: list[float], starts: list[int]) -> float:
    return max(sum(costs[first:end]) for first, end in pairwise(starts))


@pytest.mark.parametrize("seed", range(40))
def test_no_other_cut_is_better(seed: int) -> None:
    rng = random.Random(seed)
    layers = rng.randint(1, 9)
    stages = rng.randint(1, layers)
    costs = [float(rng.choice((0, 1, 2, 3, 10))) for _ in range(layers)]
    crossing = [float(rng.randint(0, 5)) for _ in range(layers)]

    def cost(_: int, first: int, end: int) -> float:
        return sum(costs[first:end])

    least = min(largest(costs, starts) for starts in every_cut(layers, stages))
    assert least_largest(layers, stages, cost) == least
    found = balanced(layers, stages, cost, crossing)
    assert found is not None
    good = [starts for starts in every_cut(layers, stages) if largest(costs, starts) <= least * (1 + TOLERANCE)]
    assert found in good
    assert sum(crossing[i] for i in found[1:-1]) == min(sum(crossing[i] for i in starts[1:-1]) for starts in good)


def test_a_cut_that_few_bytes_cross_is_taken_where_it_is_no_slower() -> None:
    """Layer 1 costs nothing, so that the cut may be before it or after it."""
    costs = [4.0, 0.0, 4.0]
    for crossing, starts in (([0, 9, 1], [0, 2, 3]), ([0, 1, 9], [0, 1, 3])):
        assert balanced(3, 2, lambda _, first, end: sum(costs[first:end]), crossing) == starts


def test_a_cut_that_few_bytes_cross_is_not_taken_where_it_is_slower() -> None:
    costs = [4.0, 1.0, 4.0, 1.0]
    assert balanced(4, 2, lambda _, first, end: sum(costs[first:end]), [0, 0, 100, 0]) == [0, 2, 4]


def test_differences_within_the_tolerance_are_none() -> None:
    costs = [4.0, 0.01, 4.0]
    assert balanced(3, 2, lambda _, first, end: sum(costs[first:end]), [0, 9, 1]) == [0, 2, 3]
    assert balanced(3, 2, lambda _, first, end: sum(costs[first:end]), [0, 1, 9]) == [0, 1, 3]


def test_stages_that_cannot_be_are_avoided() -> None:
    """The first stage can hold one layer only."""

    def cost(stage: int, first: int, end: int) -> float:
        return math.inf if stage == 0 and end > 1 else float(end - first)

    assert balanced(4, 2, cost) == [0, 1, 4]
    assert balanced(4, 2, lambda stage, *_: math.inf if stage else 1.0) is None

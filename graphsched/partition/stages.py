"""A chain of layers cut into contiguous stages whose largest is as small as can be.

Not modelled: time of transfers between stages (they go on beside compute), and layers that could run side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

TOLERANCE = 0.02
"""Cuts whose largest stages differ by this part are equally good: costs are not known better."""

StageCost = Callable[[int, int, int], float]
"""Of a stage's number, its first layer and the one after its last: its cost; infinite where it cannot be."""


def balanced(layers: int, stages: int, cost: StageCost, crossing: Sequence[float] = ()) -> list[int] | None:
    """The first layer of each stage, and `layers`; None: every way to cut has a stage of infinite cost.

    The largest cost of a stage is the least possible, give or take `TOLERANCE`; of all cuts that reach it those are
    taken that the fewest bytes cross; of these one, always the same.

    Args:
        layers: How many, `stages` or more.
        stages: How many; each has a layer or more.
        cost: Of a stage.
        crossing: Bytes that cross a cut before each layer, by number of the layer; empty: as good as none.

    Source: dynamic programming over prefixes, as in Narayanan et al., PipeDream, SOSP 2019, 3.1, with one device a
    stage.

    Example:
        >>> seconds = [3.0, 1.0, 1.0, 1.0, 4.0, 2.0]
        >>> balanced(6, 3, lambda _, first, end: sum(seconds[first:end]))
        [0, 3, 5, 6]
        >>> balanced(6, 2, lambda _, first, end: sum(seconds[first:end]))
        [0, 4, 6]
    """
    limit = least_largest(layers, stages, cost)
    if math.isinf(limit):
        return None
    limit *= 1.0 + TOLERANCE

    def bytes_at(stage: int, first: int, end: int) -> float:
        if cost(stage, first, end) > limit:
            return math.inf
        return crossing[first] if stage and crossing else 0.0

    return _cut(layers, stages, bytes_at, lambda before, here: before + here)[1]


def least_largest(layers: int, stages: int, cost: StageCost) -> float:
    """The largest cost of a stage where that is as small as can be.

    Example:
        >>> least_largest(4, 2, lambda _, first, end: float(end - first))
        2.0
    """
    return _cut(layers, stages, cost, max)[0]


def _cut(
    layers: int, stages: int, cost: StageCost, joined: Callable[[float, float], float]
) -> tuple[float, list[int] | None]:
    """The least total of the costs of stages, `joined` one after another, and where the stages then begin."""
    best: list[list[float]] = [[math.inf] * (layers + 1) for _ in range(stages + 1)]
    begin = [[-1] * (layers + 1) for _ in range(stages + 1)]
    best[0][0] = 0.0
    for stage in range(stages):
        for end in range(stage + 1, layers - stages + stage + 2):
            for first in range(stage, end):
                if math.isfinite(best[stage][first]):
                    total = joined(best[stage][first], cost(stage, first, end))
                    if total < best[stage + 1][end]:
                        best[stage + 1][end], begin[stage + 1][end] = total, first
    if math.isinf(best[stages][layers]):
        return math.inf, None
    starts = [layers]
    for stage in range(stages, 0, -1):
        starts.append(begin[stage][starts[-1]])
    return best[stages][layers], starts[::-1]

"""Dependence patterns of a grid of steps × columns: which points of the step before a point reads.

Source: E. Slaughter, W. Wu, Y. Fu, et al.: Task Bench: a parameterized benchmark for evaluating parallel
runtime performance. SC 2020, section II.

Not modelled: its trivial, all-to-all, nearest and spread patterns; the random one reads at most three points.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

MOST_READS = 3


@dataclass(frozen=True)
class Pattern:
    """A dependence pattern.

    Attributes:
        points: ``points(step, width)``: how many columns have a point at a step.
        reads: ``reads(step, column, width)``: columns of the step before that a point reads, its own first
            where that is among them; columns outside the step before are to be left out.
    """

    points: Callable[[int, int], int]
    reads: Callable[[int, int, int], tuple[int, ...]]

    def before(self, step: int, column: int, width: int) -> tuple[int, ...]:
        """Columns of the step before that a point reads; none at step 0."""
        there = self.points(step - 1, width) if step else 0
        return tuple(dict.fromkeys(k for k in self.reads(step, column, width) if 0 <= k < there))


def _all(step: int, width: int) -> int:  # noqa: ARG001
    return width


def _stencil(step: int, column: int, width: int) -> tuple[int, ...]:  # noqa: ARG001
    return column, column - 1, column + 1


def _sweep(step: int, column: int, width: int) -> tuple[int, ...]:  # noqa: ARG001
    return column, column - 1


def _fft(step: int, column: int, width: int) -> tuple[int, ...]:
    stages = max((width - 1).bit_length(), 1)
    distance = 1 << (step - 1) % stages
    return column, column - distance, column + distance


def _tree(step: int, column: int, width: int) -> tuple[int, ...]:  # noqa: ARG001
    return (column // 2,)


def _random(step: int, column: int, width: int) -> tuple[int, ...]:
    rng = random.Random(f"{step}/{column}/{width}")
    others = rng.sample(range(width), min(rng.randrange(MOST_READS), width))
    return column, *others


PATTERNS: Mapping[str, Pattern] = {
    "stencil": Pattern(_all, _stencil),
    "sweep": Pattern(lambda step, width: min(width, step + 1), _sweep),
    "fft": Pattern(_all, _fft),
    "tree": Pattern(lambda step, width: min(width, 1 << step), _tree),
    "random": Pattern(_all, _random),
}

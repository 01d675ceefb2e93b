"""Tables of figures: pairs of a number, ascending, and a figure, held to that and read off between them."""

from __future__ import annotations

import reprlib
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from graphsched.costs.checks import check_count, check_figure
from graphsched.errors import CostError


def check_points(points: Sequence[Any], name: str, numbers: str, figures: str, least: int | None) -> None:
    """Make sure that `points` are pairs: of `numbers`, which are counts and ascend from `least` on, and `figures`.

    Without `least` numbers are no counts, but figures above 0.

    Raises:
        CostError: They are not.
    """
    last = 0 if least is None else least - 1
    for point in points:
        if not isinstance(point, tuple) or len(point) != 2:
            raise CostError(f"{name} holds {reprlib.repr(point)}: pairs of {numbers} and {figures} are needed")
        if least is None:
            check_figure(point[0], f"one of the {numbers} of {name}")
        else:
            check_count(point[0], f"one of the {numbers} of {name}", least)
        check_figure(point[1], f"one of the {figures} of {name}")
        if point[0] <= last:
            raise CostError(f"{name} is {reprlib.repr(points)}: ascending {numbers} are needed")
        last = point[0]


def between(points: Sequence[tuple[int, float]], x: int) -> float:
    """What a table says of `x`: linear between two of its points, that of the next outside them.

    Example:
        >>> [between(((2, 1.0), (4, 3.0)), x) for x in (1, 3, 9)]
        [1.0, 2.0, 3.0]
    """
    after = bisect_left(points, (x, 0.0))
    if after == 0 or after == len(points):
        return points[min(after, len(points) - 1)][1]
    (x0, y0), (x1, y1) = points[after - 1 : after + 1]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)

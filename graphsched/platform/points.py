"""Tables of a platform's figures: pairs of a whole number and seconds, read off between them."""

from __future__ import annotations

import reprlib
from typing import Any

from graphsched.costs.points import between
from graphsched.errors import PlatformError
from graphsched.platform.checks import check_seconds

Points = tuple[tuple[int, float], ...]
"""(number, seconds), ascending."""

COLDEST_S = 1e-3
"""Length of wait beyond which no call is taken to be colder: none was seen after longer ones."""


def checked_points(points: Any, name: str, what: str) -> Points:
    """A table of `Dispatch` as tuples: pairs of a number of `what`, ascending from 1 on, and seconds.

    Raises:
        PlatformError: They are something else.
    """
    try:
        found = tuple((number, check_seconds(seconds, f"dispatch {name}")) for number, seconds in points)
    except (TypeError, ValueError) as error:
        shown = reprlib.repr(points)
        raise PlatformError(
            f"dispatch {name} are {shown}: pairs of a number of {what} and seconds are needed"
        ) from error
    numbers = [number for number, _ in found]
    whole = all(isinstance(number, int) and not isinstance(number, bool) for number in numbers)
    if not whole or numbers != sorted(set(numbers)) or any(number < 1 for number in numbers):
        shown = reprlib.repr(numbers)
        raise PlatformError(f"dispatch {name} are after {shown} {what}: whole numbers from 1 on are needed, ascending")
    return found


def at_lanes(points: Points, lanes: int) -> float:
    """What a table by the number of lanes says of `lanes`; 0 for one, and where nothing is known."""
    return between(points, lanes) if lanes > 1 and points else 0.0


def after_wait(points: Points, waited_s: float) -> float:
    """What a table by the length of a wait, in microseconds, says of a wait of `waited_s`; 0 where nothing is known.

    Linear from no wait to the first that was measured, between those measured, and on up to `COLDEST_S`, or the last.

    Example:
        >>> [round(after_wait(((20, 1.0), (200, 4.0)), us * 1e-6), 3) for us in (0, 10, 110, 380, 1000, 5000)]
        [0.0, 0.5, 2.5, 7.0, 17.333, 17.333]
        >>> [round(after_wait(((1000, 2.0), (3000, 3.0)), us * 1e-6), 3) for us in (500, 2000, 5000)]
        [1.0, 2.5, 3.0]
    """
    longest_s = max(COLDEST_S, points[-1][0] * 1e-6) if points else COLDEST_S
    waited_us, slope = min(max(0.0, waited_s), longest_s) * 1e6, 0.0
    x0, y0 = 0, 0.0
    for x1, y1 in points:
        slope = (y1 - y0) / (x1 - x0)
        if waited_us <= x1:
            break
        x0, y0 = x1, y1
    return y0 + slope * (waited_us - x0)

"""Seconds as they must be."""

from __future__ import annotations

import math
from typing import Any

from graphsched.errors import CostError


def check_seconds(seconds: Any, what: str) -> float:
    """`seconds` as a float that is finite and not negative.

    Raises:
        CostError: It is not.

    Example:
        >>> check_seconds(2, "duration of task 'a'")
        2.0
    """
    try:
        number = float(seconds)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise CostError(f"{what} is {seconds!r}: a finite number of seconds, 0 or more, is needed")
    return number

"""Seconds and counts as they must be."""

from __future__ import annotations

import math
import reprlib
import sys
from numbers import Real
from typing import Any

from graphsched.errors import CostError

MOST = 2**53
"""The largest count: every whole number up to here is exact as a float. In bytes it is 9 petabytes."""


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
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise CostError(f"{what} is {reprlib.repr(seconds)}: a finite number of seconds, 0 or more, is needed")
    return number


def check_finite(figure: Any, what: str) -> None:
    """Make sure that `figure` is a finite number as it stands: text or a truth value is none.

    Raises:
        CostError: It is not.
    """
    real = isinstance(figure, (float, int, Real)) and not isinstance(figure, bool)
    if not real or not abs(figure) <= sys.float_info.max:
        raise CostError(f"{what} is {reprlib.repr(figure)}: a finite number is needed")


def check_figure(figure: Any, what: str) -> None:
    """Make sure that `figure` is a finite number, not below 0; raises as `check_finite`."""
    check_finite(figure, what)
    if figure < 0:
        raise CostError(f"{what} is {figure!r}: 0 or more is needed")


def check_count(count: Any, what: str, least: int = 0) -> None:
    """Make sure that `count` is a whole number from `least` to `MOST`.

    Raises:
        CostError: It is not.

    Example:
        >>> check_count(3, "launches")
        >>> check_count(10**19, "workspace_bytes")
        Traceback (most recent call last):
        ...
        graphsched.errors.CostError: workspace_bytes is 10000000000000000000: a whole number from 0 to 2**53 is needed
    """
    if isinstance(count, bool) or not isinstance(count, int) or not least <= count <= MOST:
        raise CostError(f"{what} is {reprlib.repr(count)}: a whole number from {least} to 2**53 is needed")

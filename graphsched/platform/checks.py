"""Figures of platforms are finite numbers, not negative; times end."""

from __future__ import annotations

import reprlib
import sys
from typing import Any

from graphsched.errors import PlatformError

LONGEST_S = 1e9
"""Thirty years: what lasts longer is no time of a platform or run, and sums of such times leave what floats tell."""


def check_number(number: Any, what: str, *, positive: bool = False) -> float:
    """`number` as a finite float, at least 0 (above 0 with `positive`).

    Raises:
        PlatformError: It is not.
    """
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not abs(number) <= sys.float_info.max:
        shown = reprlib.repr(number)  # an integer may have hundreds of digits
        raise PlatformError(f"{what} is {shown}: a finite number is needed")
    if number < 0 or (positive and number == 0):
        raise PlatformError(f"{what} is {number!r}: it must be {'above' if positive else 'at least'} 0")
    return float(number)


def check_count(number: Any, what: str) -> int:
    """`number` as a whole number above 0.

    Raises:
        PlatformError: It is none.

    Example:
        >>> check_count(8.0, "lanes of cpu")
        8
    """
    count = check_number(number, what, positive=True)
    if not count.is_integer():
        raise PlatformError(f"{what} is {number!r}: a whole number is needed")
    return int(number)


def check_seconds(number: Any, what: str, *, positive: bool = False) -> float:
    """As `check_number`, for a time: at most `LONGEST_S`.

    Raises:
        PlatformError: It is not.

    Example:
        >>> check_seconds(1e308, "dispatch call_s")
        Traceback (most recent call last):
        ...
        graphsched.errors.PlatformError: dispatch call_s is 1e+308: at most 1e+09 s are needed
    """
    seconds = check_number(number, what, positive=positive)
    if seconds > LONGEST_S:
        raise PlatformError(f"{what} is {reprlib.repr(number)}: at most {LONGEST_S:g} s are needed")
    return seconds

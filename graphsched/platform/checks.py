"""Figures of platforms are finite numbers, not negative."""

from __future__ import annotations

import reprlib
import sys
from typing import Any

from graphsched.errors import PlatformError


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

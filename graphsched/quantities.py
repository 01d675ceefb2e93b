"""Seconds, bytes and shares as people read them; stored figures are never scaled."""

from __future__ import annotations

import math

_TIMES = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))
SHORT_S, LONG_S = 1e-12, 1e6
"""Seconds from and up to which times are written without an exponent."""

_SIZES = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def time_unit(seconds: float) -> tuple[str, float]:
    """The unit in which `seconds` is a number from 1 to below 1000, and its length in seconds.

    Example:
        >>> time_unit(0.25)
        ('ms', 0.001)
    """
    for unit, length in _TIMES:
        if abs(seconds) >= length * 0.99995:  # what rounds to 1 is written as 1
            return unit, length
    return ("s", 1.0) if seconds == 0 else _TIMES[-1]


def seconds_text(seconds: float) -> str:
    """`seconds` with four digits and a unit that fits; what is very long or short has an exponent.

    Example:
        >>> seconds_text(0.1323), seconds_text(9.7e-6), seconds_text(1.6684), seconds_text(0)
        ('132.3 ms', '9.7 µs', '1.668 s', '0 s')
        >>> seconds_text(1e308), seconds_text(-1.2345678e6), seconds_text(1e-300)
        ('1e+308 s', '-1.235e+06 s', '1e-300 s')
    """
    if seconds and not SHORT_S <= abs(seconds) < LONG_S:
        return f"{seconds:.4g} s"
    unit, length = time_unit(seconds)
    return f"{_digits(seconds / length)} {unit}"


def bytes_text(nbytes: float, *, digits: int = 3) -> str:
    """`nbytes` with so many digits and a decimal unit that fits.

    Example:
        >>> bytes_text(64_000_000), bytes_text(4096), bytes_text(12)
        ('64 MB', '4.1 kB', '12 B')
    """
    for unit, size in _SIZES:
        if nbytes >= size * (1 - 0.5 * 10.0**-digits):  # what rounds to 1 is written as 1
            return f"{_digits(nbytes / size, digits)} {unit}"
    return f"{nbytes:.0f} B"


def percent_text(share: float, *, digits: int = 2) -> str:
    """A signed share in per cent.

    Example:
        >>> percent_text(0.0123), percent_text(-0.5, digits=1), percent_text(0.0)
        ('+1.23 %', '-50.0 %', '0.00 %')
    """
    rounded = round(share * 100, digits) if math.isfinite(share) else share
    return f"{rounded:+.{digits}f} %" if rounded else f"{0:.{digits}f} %"


def _digits(number: float, count: int = 4) -> str:
    """`number` with `count` digits, without zeros at the end of the fraction or an exponent."""
    if not math.isfinite(number) or number == 0:
        return f"{number:.0f}"
    decimals = max(0, count - 1 - math.floor(math.log10(abs(number))))
    text = f"{number:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text

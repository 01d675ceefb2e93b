"""Which panels, curves and axis a sweep's rows make on its picture."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from graphsched.cli.output import value_text

Row = Mapping[str, Any]
Curves = dict[str, list[tuple[float | str, float]]]

_WAYS = ("platform", "mode", "scheduler")


def axis_of(rows: Sequence[Row], swept: Sequence[str]) -> str:
    """What stands on the x axis: the swept parameter with the most numbers; else what differs, platforms first.

    Example:
        >>> rows = [{"platform": p, "size": n, "mode": "eager"} for p in "ab" for n in (1, 2, 4)]
        >>> axis_of(rows, ["size"]), axis_of(rows, [])
        ('size', 'platform')
    """
    numbers = {key: {row[key] for row in rows if not isinstance(row[key], (str, bool))} for key in swept}
    best = max(numbers, key=lambda key: len(numbers[key]), default=None)
    if best is not None and len(numbers[best]) > 1:
        return best
    differ = [key for key in (*swept, *_WAYS) if len({row.get(key) for row in rows}) > 1]
    return differ[0] if differ else "platform"


def curves_of(rows: Sequence[tuple[int, Row]], axis: str, swept: Sequence[str]) -> dict[str, Curves]:
    """By case and way: (value on the axis, predicted seconds).

    Cases of several points are one if their labels are, the values of swept parameters aside; if no two are so, the
    first of each point is one, and so on. A case is named with the values of its own that nothing else tells: those of
    swept parameters, and the platform, where each case has one and cases differ in it.

    Args:
        rows: Each with the case's place among those of its point.
        axis: See `axis_of`.
        swept: Parameters with several values.
    """
    done = [(place, row) for place, row in rows if row["predicted_s"] is not None]
    cases = [_masked(row, swept) for _, row in done]
    drawn = {(case, row[axis]) for case, (_, row) in zip(cases, done, strict=True)}
    if len(drawn) == len(set(cases)) and len({value for _, value in drawn}) > 1:
        cases = [f"case {place}" for place, _ in done]
    keys = [key for key in (*_WAYS, *swept) if key != axis]
    varied = [key for key in keys if _varies(key, cases, [row for _, row in done])]
    left = [key for key in keys if key in ("platform", *swept) and key not in varied]
    own = [key for key in left if len({value_text(row[key]) for _, row in done}) > 1]
    found: dict[str, Curves] = {}
    for case, (_, row) in zip(cases, done, strict=True):
        name = ", ".join([case, *(_word(key, row) for key in own)])
        way = " ".join(_word(key, row) for key in varied) or str(row["scheduler"])
        found.setdefault(name, {}).setdefault(way, []).append((row[axis], row["predicted_s"]))
    return found


def _word(key: str, row: Row) -> str:
    """The value of a row's `key`, with its name if it is a parameter."""
    return str(row[key]) if key in _WAYS else f"{key}={value_text(row[key])}"


def _varies(key: str, cases: Sequence[str], rows: Sequence[Row]) -> bool:
    """Whether some case has several values of `key`."""
    pairs = {(case, value_text(row[key])) for case, row in zip(cases, rows, strict=True)}
    return len(pairs) > len({case for case, _ in pairs})


def _masked(row: Row, swept: Sequence[str]) -> str:
    """The label of a case, the values of swept parameters left open.

    Example:
        >>> _masked({"case": "sum of 64, 6 lanes", "size": 64, "lanes": "6"}, ["size", "lanes"])
        'sum of …, … lanes'
    """
    label = str(row["case"])
    for key in swept:
        label = re.sub(rf"(?<!\w){re.escape(value_text(row[key]))}(?!\d)", "…", label) if row[key] != "" else label
    return label

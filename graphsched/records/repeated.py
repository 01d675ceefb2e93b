"""What rows of costs repeat, once a file: a row of many has a number in its place.

A signature is named by the row of its operation and by one row for each that it was measured beside.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graphsched.errors import FileFormatError

KEYS = ("signature", "beside", "model", "processors")


class Repeated:
    """Values by number, in the order in which they were first met.

    Example:
        >>> table = Repeated()
        >>> table.folded([{"signature": "mm", "device_s": 1.0}, {"signature": "mm", "beside": "add"}])
        [{'signature': 0, 'device_s': 1.0}, {'signature': 0, 'beside': 1}]
        >>> table.values
        ['mm', 'add']
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def folded(self, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """`rows` with numbers for what they repeat."""
        return [{key: self._number(value) if key in KEYS else value for key, value in row.items()} for row in rows]

    @property
    def values(self) -> list[Any]:
        """What the numbers stand for."""
        return [json.loads(text) for text in self._numbers]

    def _number(self, value: Any) -> int:
        return self._numbers.setdefault(json.dumps(value), len(self._numbers))


def unfolded(rows: Sequence[Mapping[str, Any]], values: Sequence[Any]) -> list[dict[str, Any]]:
    """`rows` with what their numbers stand for; those of older files have no numbers.

    Raises:
        FileFormatError: A number stands for nothing.

    Example:
        >>> unfolded([{"signature": 0, "device_s": 1.0}, {"signature": "add"}], ["mm"])
        [{'signature': 'mm', 'device_s': 1.0}, {'signature': 'add'}]
    """
    return [{key: _value(key, value, values) if key in KEYS else value for key, value in row.items()} for row in rows]


def _value(key: str, number: Any, values: Sequence[Any]) -> Any:
    if not isinstance(number, int) or isinstance(number, bool):
        return number
    if not 0 <= number < len(values):
        raise FileFormatError(
            f"{key} {number} of a row of costs stands for nothing, there are {len(values)} values: "
            "the file is damaged, run the experiment again"
        )
    return values[number]

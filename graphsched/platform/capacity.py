"""A shared capacity whose rate depends on which links are in use."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from operator import index
from typing import Any

from graphsched.errors import FileFormatError, PlatformError
from graphsched.platform.checks import check_number

SLACK = 0.02
"""A link may be this much faster than what it crosses: both were measured."""


@dataclass(frozen=True, slots=True)
class CapacityTable:
    """Rates of one capacity, measured under several loads.

    A load is the number of different links with a transfer under way that cross each capacity of `by`.
    Between measured numbers rates are interpolated; beyond them the nearest holds.

    Attributes:
        by: Names of capacities, the table's own among them.
        counts: For each of them the numbers of busy links that were measured, ascending.
        bytes_per_s: Rates in bytes per second, the last name's number changing fastest.

    Example:
        >>> table = CapacityTable(("host/d2h", "host/h2d"), ((1, 2, 4), (0, 4)), (55e9, 21e9, 110e9, 42e9, 127e9, 86e9))
        >>> table.rate((2, 0)) / 1e9, table.rate((3, 0)) / 1e9, table.rate((4, 2)) / 1e9
        (110.0, 118.5, 106.5)
    """

    by: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    bytes_per_s: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.by or len(self.by) != len(self.counts) or not all(self.counts):
            raise PlatformError(f"table by {self.by}: as many lists of counts are needed, got {self.counts}")
        for name, numbers in zip(self.by, self.counts, strict=True):
            if list(numbers) != sorted(set(numbers)) or numbers[0] < 0:
                raise PlatformError(f"table by {name!r}: counts must ascend from 0 or more, got {numbers}")
        if len(self.bytes_per_s) != prod(len(numbers) for numbers in self.counts):
            shape = " × ".join(str(len(numbers)) for numbers in self.counts)
            raise PlatformError(f"table by {self.by}: {shape} rates are needed, got {len(self.bytes_per_s)}")
        for rate in self.bytes_per_s:
            check_number(rate, f"rate of the table by {self.by}", positive=True)

    @property
    def highest(self) -> float:
        """The highest rate under any load."""
        return max(self.bytes_per_s)

    def rate(self, busy: Sequence[int]) -> float:
        """Bytes per second while so many links are busy, one number a name of `by`."""
        rates = list(self.bytes_per_s)
        for numbers, count in zip(self.counts, busy, strict=True):
            rates = _at(numbers, count, rates)
        return rates[0]

    def scaled(self, factor: float) -> CapacityTable:
        """The same table with all rates times `factor`."""
        return CapacityTable(self.by, self.counts, tuple(rate * factor for rate in self.bytes_per_s))

    @classmethod
    def from_dict(cls, row: Any) -> CapacityTable:
        """The table of ``dataclasses.asdict``.

        Raises:
            FileFormatError: Entries are missing or of the wrong type.
            PlatformError: They contradict each other.
        """
        if not isinstance(row, Mapping) or not {"by", "counts", "bytes_per_s"} <= set(row):
            raise FileFormatError(f"a table of a capacity needs by, counts and bytes_per_s, got {row!r}")
        try:
            counts = tuple(tuple(map(index, numbers)) for numbers in row["counts"])
            return cls(tuple(map(str, row["by"])), counts, tuple(row["bytes_per_s"]))
        except (TypeError, ValueError) as error:
            raise FileFormatError(f"not a table of a capacity: {error}") from error


def rate_alone(
    crosses: Sequence[str], name: str, capacities: Mapping[str, float], tables: Mapping[str, CapacityTable]
) -> float:
    """What a link that crosses `crosses` gets of capacity `name` while no other link is busy, bytes/s.

    Example:
        >>> table = CapacityTable(("in", "out"), ((1, 2), (0, 1)), (55.0, 50.0, 110.0, 90.0))
        >>> [rate_alone(crosses, "in", {"in": 110.0}, {"in": table}) for crosses in (("in",), ("out", "in"))]
        [55.0, 50.0]
    """
    table = tables.get(name)
    return capacities[name] if table is None else table.rate([int(other in crosses) for other in table.by])


def _at(numbers: Sequence[int], count: int, rates: Sequence[float]) -> list[float]:
    """`rates` with their first axis taken at `count`."""
    size = len(rates) // len(numbers)
    after = min(bisect_left(numbers, count), len(numbers) - 1)
    high = rates[after * size : (after + 1) * size]
    if after == 0 or numbers[after] <= count:
        return list(high)
    low = rates[(after - 1) * size : after * size]
    share = (count - numbers[after - 1]) / (numbers[after] - numbers[after - 1])
    return [a + share * (b - a) for a, b in zip(low, high, strict=True)]

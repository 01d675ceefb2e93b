"""Copies to a GPU of what a CPU lane has just written: slow to fetch out of the caches of cores that rest.

What a core has written lies changed in its own cache until that lets go of it, and a core that sleeps is slow to hand
it out (`calibration.written_copies`). Cores that have begun on something else are not, and what has been fetched for
another GPU is not fetched again.

Not modelled: tasks of a lane so small that they leave most of it where it is; which cores a lane has: any that computes
counts. A capacity below a copy's own rate hides a part.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple


class Written(NamedTuple):
    """A copy of what was just written: how much longer its bytes take, over their time alone, and how that fades.

    Attributes:
        longer: At once, as a fraction.
        fades_s: Time in which that falls to a part of 1/e; 0: it stays.
        behind: How many actions before the copy, in plan order, is the task that wrote.
        what: That wrote this, of what it wrote.
    """

    longer: float
    fades_s: float
    behind: int
    what: str


class WrittenCopies:
    """How many times as long the bytes of copies take that are under way.

    Example:
        >>> copies = WrittenCopies({1: Written(1.0, 0.0, 1, "mean")}, end_s=[5.0, -1.0])
        >>> copies.longer([], True, 4.0), copies.longer([], False, 5.0), copies.longer([1], False, 6.0)
        ({}, {}, {1: 2.0})
        >>> copies.longer([1], True, 7.0), copies.longer([1], False, 8.0)
        ({}, {})
    """

    def __init__(self, written: Mapping[int, Written], end_s: Sequence[float]) -> None:
        """`end_s`: by action, when it was over."""
        self._written, self._end_s = written, end_s
        self._same: dict[tuple[int, str], list[int]] = {}
        for i, copy in written.items():
            self._same.setdefault((i - copy.behind, copy.what), []).append(i)
        self._longer: dict[int, float] = {}
        self._busy, self._busy_until_s = False, -1.0

    def longer(self, running: Collection[int], computing: bool, now: float) -> dict[int, float]:
        """By copy of those `running`, if it takes longer; `computing`: whether a CPU lane does so now."""
        if self._busy or computing:
            self._busy_until_s = now
        self._busy, before = computing, self._longer
        found = {} if computing else {i: before.get(i) or self._at(i, now) for i in running if i in self._written}
        self._longer = found
        return {i: longer for i, longer in found.items() if longer > 1.0}

    def _at(self, i: int, now: float) -> float:
        """What copy `i` takes that begins now: as ever, where a lane has computed since, or another copy is over."""
        longer, fades_s, behind, what = self._written[i]
        wrote, wrote_s = i - behind, self._end_s[i - behind]
        fetched = any(0.0 <= self._end_s[j] <= now for j in self._same[wrote, what] if j != i)
        if fetched or self._busy_until_s > wrote_s:
            return 1.0
        return 1.0 + longer * (math.exp((wrote_s - now) / fades_s) if fades_s else 1.0)

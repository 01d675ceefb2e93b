"""Copies to a GPU of what a CPU lane has just written: slow to fetch out of the caches of cores.

What a core has written lies changed in its own cache until that lets go of it, and a core that sleeps is slow to hand
it out; one that has begun on something else is less so, and lets go of it sooner (`calibration.written_copies`). While
sleeping cores hand something out, copies to the host take longer, too (`calibration.written_beside`). What has been
fetched for another GPU is not fetched again.

Not modelled: tasks of a lane so small that they leave most of it where it is; which cores a lane has: any that computes
counts; that it fades while the copy is under way. A capacity below a copy's own rate hides a part.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple


class Written(NamedTuple):
    """A copy of what was just written: how much longer its bytes take, over their time alone, and how that fades.

    Attributes:
        longer: At once and while cores rest, as a fraction.
        fades_s: Time of rest in which that falls to a part of 1/e; 0: it stays.
        behind: How many actions before the copy, in plan order, is the task that wrote.
        what: That wrote this, of what it wrote.
        busy: What is left of it while a lane computes, as a fraction.
        busy_fades_s: Time of computing in which it falls to a part of 1/e; 0: it is gone at once.
        back: How much longer copies to the host take beside it, over how much longer it takes.
    """

    longer: float
    fades_s: float
    behind: int
    what: str
    busy: float = 0.0
    busy_fades_s: float = 0.0
    back: float = 0.0


class WrittenCopies:
    """How many times as long the bytes of copies take that are under way.

    Example:
        >>> copies = WrittenCopies({1: Written(1.0, 0.0, 1, "mean", back=0.5)}, end_s=[5.0, -1.0], to_host={2})
        >>> copies.longer([], True, 4.0), copies.longer([], False, 5.0), copies.longer([1, 2], False, 6.0)
        ({}, {}, {1: 2.0, 2: 1.5})
        >>> copies.longer([1], True, 7.0), copies.longer([1], False, 8.0)
        ({}, {})
    """

    def __init__(
        self, written: Mapping[int, Written], end_s: Sequence[float], to_host: Collection[int] = frozenset()
    ) -> None:
        """`end_s`: by action, when it was over; `to_host`: copies that those of `written` slow."""
        self._written, self._end_s, self._to_host = written, end_s, to_host
        self._same: dict[tuple[int, str], list[int]] = {}
        for i, copy in written.items():
            self._same.setdefault((i - copy.behind, copy.what), []).append(i)
        self._left: dict[int, float] = {}
        self._busy = _Busy()

    def longer(self, running: Collection[int], computing: bool, now: float) -> dict[int, float]:
        """By copy of those `running`, if it takes longer; `computing`: whether a CPU lane does so now."""
        self._busy.note(computing, now)
        left = self._left
        self._left = {i: left[i] if i in left else self._at(i, now) for i in running if i in self._written}
        if computing:
            self._left = {i: more if self._written[i].busy_fades_s else 0.0 for i, more in self._left.items()}
        found = {i: more * (self._written[i].busy if computing else 1.0) for i, more in self._left.items()}
        if not computing and self._to_host:
            back = max([self._written[i].back * more for i, more in found.items()], default=0.0)
            found |= {i: back for i in running if i in self._to_host}
        return {i: 1.0 + more for i, more in found.items() if more > 0.0}

    def _at(self, i: int, now: float) -> float:
        """How much longer copy `i`, which begins now, takes while cores rest; 0 where another copy of it is over."""
        copy = self._written[i]
        wrote = i - copy.behind
        if any(0.0 <= self._end_s[j] <= now for j in self._same[wrote, copy.what] if j != i):
            return 0.0
        since_s = now - self._end_s[wrote]
        busy_s = self._busy.seconds(now) - self._busy.seconds(self._end_s[wrote])
        if busy_s > 0.0 and not copy.busy_fades_s:
            return 0.0  # gone
        faded = busy_s / copy.busy_fades_s if copy.busy_fades_s else 0.0
        faded += (since_s - busy_s) / copy.fades_s if copy.fades_s else 0.0
        return copy.longer * math.exp(-faded)


class _Busy:
    """For how long lanes have computed, until any time that is past."""

    def __init__(self) -> None:
        self._computing = False
        self._changed_s, self._before_s = [0.0], [0.0]  # when that changed, and seconds of computing until then
        self._rates = [0.0]

    def note(self, computing: bool, now: float) -> None:
        """Lanes compute, or do not, from now on."""
        if computing != self._computing:
            self._before_s.append(self.seconds(now))
            self._changed_s.append(now)
            self._rates.append(float(computing))
            self._computing = computing

    def seconds(self, at_s: float) -> float:
        """Of computing until `at_s`."""
        k = max(0, bisect_right(self._changed_s, at_s) - 1)
        return self._before_s[k] + self._rates[k] * (at_s - self._changed_s[k])

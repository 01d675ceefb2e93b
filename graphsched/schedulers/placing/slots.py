"""The free time of one lane."""

from __future__ import annotations

import math
from bisect import bisect_left
from operator import sub

BLOCK = 32  # intervals; twice as many are cut in two
ROUNDING = 1e-15  # of a time, as a share of it: more than what its last bit is worth, four times over

Gap = tuple[float, int, int]
"""A free interval: when it begins, the number of its block, and its place there; good until something is taken. Of the
one that never ends both are -1."""


class Slots:
    """Free intervals of a lane, in seconds, ascending; the last one never ends.

    They are kept in blocks, and of each block the length of its longest interval, so that a search passes over blocks
    in which nothing is long enough.

    Attributes:
        idle_s: When all that was taken is over.
        last: The interval that never ends.
        gaps_over_s: No other interval ends later, so that what ends after this has its place in `last`.

    Example:
        >>> lane = Slots()
        >>> lane.take(lane.find(4.0, 2.0), 4.0, 2.0)
        >>> lane.start(lane.find(1.0, 3.0), 1.0), lane.start(lane.find(1.0, 4.0), 1.0), lane.idle_s
        (1.0, 6.0, 6.0)
    """

    __slots__ = ("_begins", "_ends", "_last_ends", "_longest", "gaps_over_s", "idle_s", "last")

    def __init__(self) -> None:
        self.idle_s = 0.0
        self.last: Gap = (0.0, -1, -1)
        self.gaps_over_s = 0.0
        self._begins = [[0.0]]
        self._ends = [[math.inf]]
        self._last_ends = [math.inf]
        self._longest = [math.inf]

    def find(self, ready_s: float, seconds: float) -> Gap:
        """The first free interval that holds `seconds` at or after `ready_s`."""
        over_s = ready_s + seconds
        if over_s > self.gaps_over_s:
            return self.last
        block = bisect_left(self._last_ends, over_s)
        begins, ends = self._begins[block], self._ends[block]
        i = bisect_left(ends, over_s)
        if begins[i] <= ready_s:
            return (begins[i], block, i) if ends[i] < math.inf else self.last
        while True:  # all intervals from here on begin later
            for k in range(i, len(ends)):
                if begins[k] + seconds <= ends[k]:
                    return (begins[k], block, k) if ends[k] < math.inf else self.last
            block = self._next_block(block, seconds)
            begins, ends, i = self._begins[block], self._ends[block], 0

    def _next_block(self, block: int, seconds: float) -> int:
        """The first block after `block` in which an interval may hold `seconds`."""
        longest, last_ends = self._longest, self._last_ends
        block += 1
        while longest[block] + ROUNDING * last_ends[block] < seconds:
            block += 1
        return block

    def start(self, gap: Gap, ready_s: float) -> float:
        """When a task that is ready at `ready_s` starts in `gap`."""
        return max(gap[0], ready_s)

    def take(self, gap: Gap, start_s: float, seconds: float) -> None:
        """Occupy `seconds` from `start_s` in `gap`."""
        begin, block, i = gap
        begins, ends = self._begins[block], self._ends[block]
        over_s = start_s + seconds
        if i < 0:
            if begin < start_s:
                ends[-1] = self.gaps_over_s = start_s
                ends.append(math.inf)
                begins.append(over_s)
                if len(ends) > 2 * BLOCK:
                    self._cut(len(self._ends) - 1)
            else:
                begins[-1] = over_s
            self.idle_s, self.last = over_s, (over_s, -1, -1)
            return
        end = ends[i]
        if begin < start_s:
            ends[i] = start_s
            if over_s < end:
                begins.insert(i + 1, over_s)
                ends.insert(i + 1, end)
        elif over_s < end:
            begins[i] = over_s
        else:
            del begins[i], ends[i]
        self._update(block, end - begin)

    def _update(self, block: int, length: float) -> None:
        """An interval of this `length` in `block` has become shorter, has been cut in two or has gone."""
        begins, ends = self._begins[block], self._ends[block]
        if not ends:
            del self._begins[block], self._ends[block], self._last_ends[block], self._longest[block]
        elif len(ends) > 2 * BLOCK:
            self._cut(block)
        else:
            self._last_ends[block] = ends[-1]
            if length == self._longest[block]:
                self._longest[block] = _longest(begins, ends)

    def _cut(self, block: int) -> None:
        """Make two blocks of one."""
        begins, ends = self._begins[block], self._ends[block]
        self._begins[block : block + 1] = begins[:BLOCK], begins[BLOCK:]
        self._ends[block : block + 1] = ends[:BLOCK], ends[BLOCK:]
        self._last_ends.insert(block, ends[BLOCK - 1])
        both = slice(block, block + 2)
        self._longest[block : block + 1] = map(_longest, self._begins[both], self._ends[both])

    def copy(self) -> Slots:
        """Another lane with the same free intervals."""
        copied = Slots()
        copied.idle_s, copied.last, copied.gaps_over_s = self.idle_s, self.last, self.gaps_over_s
        copied._begins, copied._ends = [b[:] for b in self._begins], [e[:] for e in self._ends]
        copied._last_ends, copied._longest = self._last_ends[:], self._longest[:]
        return copied

    def become(self, other: Slots) -> None:
        """Have the free intervals of `other`, which is not used any more."""
        for name in self.__slots__:
            setattr(self, name, getattr(other, name))


def _longest(begins: list[float], ends: list[float]) -> float:
    longest: float = max(map(sub, ends, begins))
    return longest

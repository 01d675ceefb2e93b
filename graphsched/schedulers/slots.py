"""The free time of one lane."""

from __future__ import annotations

import math
from bisect import bisect_left


class Slots:
    """Free intervals of a lane, in seconds, ascending; the last one never ends.

    Example:
        >>> lane = Slots()
        >>> lane.take(lane.find(4.0, 2.0), 4.0, 2.0)
        >>> lane.start(lane.find(1.0, 3.0), 1.0), lane.start(lane.find(1.0, 4.0), 1.0)
        (1.0, 6.0)
    """

    def __init__(self) -> None:
        self.begins = [0.0]
        self.ends = [math.inf]

    def find(self, ready_s: float, seconds: float) -> int:
        """Number of the first free interval that holds `seconds` at or after `ready_s`."""
        i = bisect_left(self.ends, ready_s + seconds)
        begins, ends = self.begins, self.ends
        while (begins[i] if begins[i] > ready_s else ready_s) + seconds > ends[i]:
            i += 1
        return i

    def start(self, i: int, ready_s: float) -> float:
        """When a task that is ready at `ready_s` starts in interval `i`."""
        return max(self.begins[i], ready_s)

    def take(self, i: int, start_s: float, seconds: float) -> None:
        """Occupy `seconds` from `start_s` in interval `i`."""
        begin, end = self.begins[i], self.ends[i]
        rest = [(a, b) for a, b in ((begin, start_s), (start_s + seconds, end)) if a < b]
        self.begins[i : i + 1] = [a for a, _ in rest]
        self.ends[i : i + 1] = [b for _, b in rest]

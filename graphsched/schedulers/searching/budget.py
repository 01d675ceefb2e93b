"""What a search may use: a number of iterations, so that it can be repeated, and perhaps seconds."""

from __future__ import annotations

import time

from graphsched.errors import ScheduleError

STEPS = 100
"""How often a search reports at most."""


class Budget:
    """Iterations and seconds that are left.

    With iterations alone the same search does the same everywhere; seconds end it where the clock says.

    Args:
        iterations: How many.
        seconds: Likewise, from now on; None: as many as the iterations take.

    Raises:
        ScheduleError: One of them is negative.

    Example:
        >>> budget = Budget(4, None)
        >>> budget.spend(3)
        >>> budget.left, budget.used
        (True, 0.75)
    """

    def __init__(self, iterations: int, seconds: float | None) -> None:
        if iterations < 0:
            raise ScheduleError(f"iterations={iterations}: 0 or more are needed")
        if seconds is not None and not seconds >= 0.0:
            raise ScheduleError(f"seconds={seconds}: 0 or more are needed")
        self._iterations, self._seconds = iterations, seconds
        self._begin = time.perf_counter()
        self._spent = 0
        self._reported = -1

    def spend(self, iterations: int = 1) -> None:
        """So many iterations were done."""
        self._spent += iterations

    @property
    def left(self) -> bool:
        """Whether there is any."""
        return self.used < 1.0

    @property
    def used(self) -> float:
        """Part that is used up, of iterations or of seconds, whichever is more; from 0 to 1."""
        part = self._spent / self._iterations if self._iterations else 1.0
        if self._seconds is not None:
            part = max(part, (time.perf_counter() - self._begin) / self._seconds if self._seconds else 1.0)
        return min(1.0, part)

    def is_news(self) -> bool:
        """Whether another hundredth is used up since this was last asked and true."""
        step = int(self.used * STEPS)
        news, self._reported = step > self._reported, max(step, self._reported)
        return news

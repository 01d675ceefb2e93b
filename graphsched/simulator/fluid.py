"""Work in progress whose rate changes while it runs: tasks that share a device, transfers that share a link."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import Protocol

# Rounding may set the ends of equal actions apart by some units in the last place: these end together.
SAME_TIME = 1e-12


class Resource(Protocol):
    """What actions share. Times are seconds; every method is called with times that do not go back."""

    def enter(self, action: int, now: float) -> None:
        """`action` begins to use the resource; its rate is set by the next `refresh`."""

    def refresh(self, now: float) -> None:
        """Set the rates anew after actions have come or gone, and the timers of those that end next."""

    def due(self, token: int, now: float) -> list[int]:
        """Actions, in plan order, that the timer of `token` finds over; none if rates have changed since."""


Timer = Callable[[float, Resource, int], None]
"""Called as ``timer(time, resource, token)``: have ``resource.due(token, time)`` asked at `time`."""

Longer = Callable[[int, float], float]
"""Called as ``longer(action, now)``: seconds that `action`, which enters, takes longer than its work alone."""


def no_longer_s(action: int, now: float) -> float:  # noqa: ARG001 - a `Longer` has them
    """As long as its work alone."""
    return 0.0


class Progress:
    """What is left of one action's work, and when it will be over at its present rate.

    Example:
        >>> work = Progress(10.0, now=0.0)
        >>> work.proceed(rate=1.0, now=0.0)
        >>> work.proceed(rate=0.5, now=4.0)  # 6 left
        >>> work.end_s
        16.0
    """

    __slots__ = ("end_s", "left", "rate", "since_s")

    def __init__(self, left: float, now: float) -> None:
        self.left = left
        self.rate = 0.0
        self.since_s = now
        self.end_s = inf

    def proceed(self, rate: float, now: float) -> None:
        """Go on at `rate` from `now`; where the rate stays the same, the end stays the same to the bit."""
        if rate == self.rate:
            return
        left = self.left - self.rate * (now - self.since_s)
        self.left = left = left if left > 0.0 else 0.0
        self.rate, self.since_s = rate, now
        self.end_s = now + left / rate if rate > 0.0 else inf


def ended(running: Iterable[tuple[int, Progress]], now: float) -> list[int]:
    """Those of `running` that are over at `now`, in plan order."""
    limit = now + SAME_TIME * now
    return sorted([action for action, progress in running if progress.end_s <= limit])

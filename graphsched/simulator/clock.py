"""The clock of a simulation: SimPy's environment, for calls at given times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import simpy
from simpy.events import NORMAL, Event


class Call(Event):
    """One call; an event that no process waits for, so that it needs less than a `simpy.events.Timeout`.

    Attributes:
        what: What the call is about.
    """

    __slots__ = ("callbacks", "what")
    _ok = True

    def __init__(self, what: Any, callback: Callable[[Any], None]) -> None:
        self.callbacks = [callback]
        self.what = what


class Clock(simpy.Environment):
    """Handles calls in the order of their times; of one time, in the order in which they were asked for.

    Example:
        >>> clock, seen = Clock(), []
        >>> clock.call_at(2.0, "b", lambda call: seen.append((clock.now, call.what)))
        >>> clock.call_at(1.0, "a", lambda call: seen.append((clock.now, call.what)))
        >>> clock.run()
        >>> seen
        [(1.0, 'a'), (2.0, 'b')]
    """

    def call_at(self, time: float, what: Any, callback: Callable[[Any], None]) -> None:
        """``callback(call)`` at `time`, or now if that is past; `what` is its attribute."""
        delay = time - self._now
        self.schedule(Call(what, callback), NORMAL, delay if delay > 0.0 else 0.0)

    def call_if_first(self, time: float, what: Any, callback: Callable[[Any], None]) -> None:
        """Likewise, if nothing is to happen until then."""
        time = max(time, self._now)
        if time < self.peek():
            self.call_at(time, what, callback)

    @property
    def over(self) -> bool:
        """Whether nothing more is to happen now."""
        return self.peek() > self._now

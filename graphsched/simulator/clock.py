"""The clock of a simulation: SimPy's environment, for calls at given times."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import simpy
from simpy.events import NORMAL, Event


class Call(Event):
    """One call; an event that no process waits for, so that it needs less than a `simpy.events.Timeout`.

    Its clock sets what it holds: `__init__` in Python would take as long as the rest of `Clock.call_at`.

    Attributes:
        what: What the call is about.
    """

    __slots__ = ("callbacks", "what")
    callbacks: Any
    what: Any
    _ok = True
    __init__ = object.__init__


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
        now = self._now
        delay = time - now
        call = Call()
        call.what, call.callbacks = what, (callback,)
        heappush(self._queue, (now + delay if delay > 0.0 else now, NORMAL, next(self._eid), call))

    def call_if_first(self, time: float, what: Any, callback: Callable[[Any], None]) -> None:
        """Likewise, if nothing is to happen until then."""
        queue, now = self._queue, self._now
        if time < now:
            time = now
        if not queue or time < queue[0][0]:
            self.call_at(time, what, callback)

    def run(self, until: Any = None) -> Any:
        """Make all calls; `until` a time or an event as `simpy.Environment.run` does, which processes need too."""
        if until is not None:
            return super().run(until)
        queue = self._queue
        while queue:
            self._now, _, _, call = heappop(queue)
            for callback in call.callbacks:
                callback(call)
        return None

    @property
    def over(self) -> bool:
        """Whether nothing more is to happen now."""
        queue = self._queue
        return not queue or queue[0][0] > self._now

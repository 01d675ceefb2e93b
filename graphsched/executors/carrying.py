"""What the actions of a step wait for in the step before, while both are under way.

A CUDA event is recorded again in every step, and what looks at it later sees the last record only. The thread may
enqueue a wait at once, but a lane of the CPU comes to its waits late, when two more steps may have recorded: events
take turns, three of them, for the step after next is issued only when a step is over. What CPU lanes do is told by
tokens: one is given in every step and taken in the next, and the first step finds one there.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

from graphsched.executors.calls import Call
from graphsched.executors.clocks import new_event
from graphsched.executors.spinning import Done
from graphsched.executors.watch import Watch

TURNS = 3  # steps until an event is recorded again: it is looked at until the step after its own is over


class Carry:
    """The carried waits of a program, shared by the calls of even and odd steps.

    Ends are actions by number, and what else `stream_of` knows, such as a graph. A wait is said in one step and heard
    in the next: each in every step, once.

    Args:
        pairs: For each end those that it waits for in the step before.
        stream_of: The stream that an end is issued on; None: a lane of the CPU does it.
        name_of: What an end is called in errors.
    """

    def __init__(
        self,
        pairs: Mapping[Any, Sequence[Any]],
        stream_of: Callable[[Any], Any | None],
        name_of: Callable[[Any], str],
    ) -> None:
        self._said: dict[Hashable, list[Call]] = {}
        self._heard: dict[Hashable, list[_Events | _Tokens]] = {}
        events: dict[Hashable, list[Any]] = {}
        for late, before in pairs.items():
            for early in before:
                stream = stream_of(early)
                if stream is None:
                    tokens = _Tokens(f"{name_of(early)} of the step before")
                    self._said.setdefault(early, []).append(tokens.give)
                    self._heard.setdefault(late, []).append(tokens)
                    continue
                if early not in events:
                    events[early] = [new_event() for _ in range(TURNS)]
                    self._said.setdefault(early, []).append(_record(events[early], stream))
                self._heard.setdefault(late, []).append(_Events(events[early]))

    def __bool__(self) -> bool:
        return bool(self._heard)

    def said(self, end: Hashable) -> list[Call]:
        """Calls after `end`, by who issues it or, on a lane of the CPU, has done it."""
        return self._said.get(end, [])

    def by_stream(self, end: Hashable, stream: Any, watch: Watch) -> list[Call]:
        """Calls of the thread before `end`, which is issued on `stream`."""
        return [link.by_stream(stream, watch) for link in self._heard.get(end, ())]

    def by_lane(self, end: Hashable, watch: Watch) -> list[Call]:
        """Calls of a CPU lane before `end`."""
        return [link.by_lane(watch) for link in self._heard.get(end, ())]


NOTHING = Carry({}, lambda _: None, str)


def _record(events: Sequence[Any], stream: Any) -> Call:
    turns = itertools.cycle(events)

    def record() -> None:
        next(turns).record(stream)

    return record


class _Events:
    """One wait for what a stream does; the first finds an event that nobody has recorded, and goes on."""

    def __init__(self, events: Sequence[Any]) -> None:
        self._turns = itertools.cycle([events[-1], *events[:-1]])

    def by_stream(self, stream: Any, _: Watch) -> Call:
        def wait() -> None:
            stream.wait_event(next(self._turns))

        return wait

    def by_lane(self, _: Watch) -> Call:
        def wait() -> None:
            next(self._turns).synchronize()

        return wait


class _Tokens:
    """One wait for what a CPU lane does."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._tokens, self._given = threading.Semaphore(1), Done()

    def give(self) -> None:
        self._tokens.release()
        self._given.set()

    def by_stream(self, _: Any, watch: Watch) -> Call:
        return partial(watch.take, self._tokens, self._what, self._given)

    def by_lane(self, watch: Watch) -> Call:
        return partial(watch.take, self._tokens, self._what)

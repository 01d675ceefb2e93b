"""What was done to a timetable, so that it can be undone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from graphsched.schedulers.placing.slots import Gap, Slots


class Trail:
    """Remembers how to undo each step, while something is only tried.

    Example:
        >>> trail, lane = Trail(), Slots()
        >>> with trail.tried():
        ...     trail.take(lane, lane.last, 1.0, 2.0)
        ...     lane.idle_s
        3.0
        >>> lane.idle_s
        0.0
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] | None = None

    @contextmanager
    def tried(self) -> Iterator[None]:
        """Undo at the end all that was done inside; not nested."""
        steps = self._undo = []
        try:
            yield
        finally:
            self._undo = None
            for undo in reversed(steps):
                undo()

    def did(self, undo: Callable[[], object]) -> None:
        """Something was done that `undo` undoes."""
        if self._undo is not None:
            self._undo.append(undo)

    def take(self, slots: Slots, gap: Gap, start_s: float, seconds: float) -> None:
        """Occupy `seconds` of a lane from `start_s` in its interval `gap`."""
        if self._undo is not None:
            self._undo.append(partial(slots.become, slots.copy()))
        slots.take(gap, start_s, seconds)

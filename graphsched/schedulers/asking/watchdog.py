"""Schedulers that never end: run beside a clock, and ended by it."""

from __future__ import annotations

import contextvars
import ctypes
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from graphsched.errors import ScheduleError

Result = TypeVar("Result")

GRACE_S = 1.0
"""How long a scheduler that is being ended may take to notice: it does so with the next Python instruction."""

SLICE_S = 0.2
"""A thread that waits notices as late as this that it is being ended: `auto` waits so for those that it asks."""


def within(limit_s: float | None, name: str, call: Callable[[], Result]) -> Result:
    """What `call` returns or raises, if it does so within `limit_s` seconds; None: however long it takes.

    With a limit it runs on a thread of its own, which is ended when the time is over. A library's code that never
    returns to Python cannot be ended: such a thread is left behind, and ends with the process. If it does not even let
    other threads run (it keeps the interpreter's lock), nothing in this process can end it.

    Args:
        limit_s: Seconds.
        name: What an error calls it.
        call: What to do.

    Raises:
        ScheduleError: The time is over, or `limit_s` is no number above 0.

    Example:
        >>> within(9.0, "scheduler 'quick'", lambda: 7)
        7
        >>> def endless():
        ...     while True:
        ...         pass
        >>> within(0.05, "scheduler 'endless'", endless)
        Traceback (most recent call last):
        graphsched.errors.ScheduleError: scheduler 'endless' was not done after 0.05 s (time_limit_s): ...
    """
    if limit_s is None:
        return call()
    if isinstance(limit_s, bool) or not isinstance(limit_s, (int, float)) or not 0.0 < limit_s < math.inf:
        raise ScheduleError(f"time_limit_s is {limit_s!r}: seconds above 0 are needed, or None for no limit")
    work = _Work(call)
    try:
        work.thread.start()
        work.wait(limit_s)
    finally:  # Ctrl-C ends it too
        over = work.end()
    if over:
        raise ScheduleError(
            f"{name} was not done after {limit_s:g} s (time_limit_s): it was ended; allow more time, or leave it out"
        )
    return work.result()


class EndedError(BaseException):
    """Raised in the thread of a scheduler whose time is over; no `except Exception` catches it."""


@dataclass
class _Work(Generic[Result]):
    call: Callable[[], Result]
    _results: list[Result] = field(default_factory=list)
    _errors: list[BaseException] = field(default_factory=list)
    _begun: threading.Event = field(default_factory=threading.Event)
    _over: threading.Event = field(default_factory=threading.Event)
    _deciding: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        told = contextvars.copy_context()  # whoever listens to progress listens on that thread too
        self.thread = threading.Thread(target=told.run, args=(self._run,), name="scheduler", daemon=True)

    def _run(self) -> None:
        try:
            self._begun.set()
            self._ask()
            with self._deciding:
                self._over.set()
            time.sleep(0)  # what was sent before that arrives by now, and not in Python's own code behind
        except EndedError:
            pass

    def _ask(self) -> None:
        try:
            self._results.append(self.call())
        except BaseException as error:  # handed to the thread that waits
            self._errors.append(error)

    def wait(self, limit_s: float) -> None:
        """Wait until the call is over, or the time.

        For an event, not for the thread: `Thread.join` takes a thread for ended when an error is raised in the one that
        joins, as it is where a search that waits for another is ended (CPython 3.11, bpo-45274).
        """
        end_s = time.monotonic() + limit_s
        while self.thread.is_alive() and (left_s := end_s - time.monotonic()) > 0.0:
            if self._over.wait(min(left_s, SLICE_S)):
                break

    def end(self) -> bool:
        """End the call if it is not over; whether it was not. One whose own time is over meanwhile ends it too."""
        try:
            return self._end()
        except EndedError:
            self._end()
            raise

    def _end(self) -> bool:
        self._begun.wait(GRACE_S)
        if self.thread.ident is None:
            return True  # ended before it began
        with self._deciding:
            over = self._over.is_set()
            if not over:
                ident = ctypes.c_ulong(self.thread.ident)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(EndedError))
        self.thread.join(GRACE_S)
        return not over

    def result(self) -> Result:
        if self._errors:
            raise self._errors[0]
        return self._results[0]

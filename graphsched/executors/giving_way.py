"""Letting other threads run for a moment, between two questions whether a device is done.

For plans that leave the thread no core beside those of CPU lanes, and systems where it cannot spin (`spinning`).

`time.sleep(0)` asks the system's clock for a sleep of no time, and gets the thread's timer slack, 50 µs unless it was
set: 68 µs in all on a host with Linux, 15 with a slack of 1 ns. That is too short: each question is asked with the
interpreter's lock, which a lane needs behind each operation and then sleeps until it has it. On a host of an H200 a
ReLU on a lane took 17 µs (p90 38) for 10 (12), and 12 (24) beside sleeps of 20 µs (docs/readings.md). Handing over the
core (``sched_yield``) does not do, for then the interpreter's lock is asked for again before another thread has woken
up.

Source: prctl(2), ``PR_SET_TIMERSLACK``.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import time
from collections.abc import Callable, Iterator

PR_SET_TIMERSLACK, PR_GET_TIMERSLACK = 29, 30
LEAST_NS = 1
APART_S = 2e-5  # between two questions


@contextlib.contextmanager
def short_sleeps() -> Iterator[None]:
    """The calling thread's sleeps end as soon as the system can; afterwards its timer slack is what it was.

    Without effect where the system knows no such slack.
    """
    prctl = _prctl()
    before_ns = -1 if prctl is None else prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0)
    if prctl is None or before_ns <= LEAST_NS:
        yield
        return
    prctl(PR_SET_TIMERSLACK, LEAST_NS, 0, 0, 0)
    try:
        yield
    finally:
        prctl(PR_SET_TIMERSLACK, before_ns, 0, 0, 0)


def give_way() -> None:
    """Let other threads have the interpreter's lock, and the core, for `APART_S`."""
    time.sleep(APART_S)


@functools.cache
def _prctl() -> Callable[[int, int, int, int, int], int] | None:
    """The system's function, called with the interpreter's lock held: it takes less than letting that go."""
    try:
        prctl = ctypes.PyDLL(None).prctl
    except (OSError, AttributeError, TypeError):  # another system
        return None
    prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
    prctl.restype = ctypes.c_int
    return prctl

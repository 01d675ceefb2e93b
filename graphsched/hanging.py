"""Threads that do not end when they are told to, as in a task that hangs: they are interrupted.

A thread that comes back from torch while the interpreter ends takes the process down ("terminate called without an
active exception"), whatever exit code the script has asked for. So those that were left are waited for at exit, and
interrupted where they take too long. An interrupt is a `SystemExit` that Python raises between two of the thread's
instructions.

Not handled: one call of native code that does not return.
"""

from __future__ import annotations

import atexit
import ctypes
import threading
import time
import weakref
from collections.abc import Iterable

GRACE_S = 1.0  # for threads that have been interrupted

_left: weakref.WeakKeyDictionary[threading.Thread, float] = weakref.WeakKeyDictionary()  # and how long they may go on
_exiting = threading.Event()


def end(threads: Iterable[threading.Thread], wait_s: float, until: float = 0.0) -> None:
    """Wait so many seconds for threads that have been told to end; then interrupt the others, or leave them until then.

    Example:
        >>> import contextlib
        >>> def hang():
        ...     with contextlib.suppress(SystemExit):
        ...         while True:
        ...             time.sleep(0.01)
        >>> thread = threading.Thread(target=hang, daemon=True)
        >>> thread.start()
        >>> end([thread], wait_s=0.1)
        >>> thread.is_alive()
        False
    """
    others = _alive(threads, time.perf_counter() + wait_s)
    if until < time.perf_counter():
        others = _alive(_interrupted(others), time.perf_counter() + GRACE_S)
    leave(others, until)


def leave(threads: Iterable[threading.Thread], until: float) -> None:
    """Let threads that have been told to end go on, at exit no longer than `until` (of `time.perf_counter`)."""
    _left.update(dict.fromkeys(threads, until))
    if _exiting.is_set():
        _end_left()


@atexit.register
def _end_left() -> None:
    _exiting.set()
    hanging = [thread for thread, until in list(_left.items()) if _alive([thread], until)]
    _alive(_interrupted(hanging), time.perf_counter() + GRACE_S)
    _left.clear()


def _alive(threads: Iterable[threading.Thread], until: float) -> list[threading.Thread]:
    """Those that have not ended by then; this thread, which may collect what waits for its end, does not count."""
    others = [thread for thread in threads if thread is not threading.current_thread()]
    for thread in others:
        thread.join(max(0.0, until - time.perf_counter()))
    return [thread for thread in others if thread.is_alive()]


def _interrupted(threads: list[threading.Thread]) -> list[threading.Thread]:
    for thread in threads:
        assert thread.ident is not None
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))
    return threads

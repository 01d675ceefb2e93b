"""Ctrl-C that lets the work of the moment end."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def stopping(wanted: bool) -> Iterator[Callable[[], bool]]:
    """A function that tells whether a stop was asked for by an interrupt, which is raised when the block ends.

    A second interrupt is raised at once. Where interrupts do not reach this thread, or not `wanted`, all is as without.

    Example:
        >>> with contextlib.suppress(KeyboardInterrupt), stopping(True) as asked:
        ...     before = asked()
        ...     signal.raise_signal(signal.SIGINT)
        ...     print(before, asked())
        False True
    """
    previous: Any = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    if not wanted or not main or not callable(previous):
        yield lambda: False
        return
    seen = threading.Event()

    def note(number: int, frame: Any) -> None:
        if seen.is_set():
            previous(number, frame)
        seen.set()

    signal.signal(signal.SIGINT, note)
    try:
        yield seen.is_set
    finally:
        signal.signal(signal.SIGINT, previous)
    if seen.is_set():
        previous(signal.SIGINT, None)
        raise KeyboardInterrupt

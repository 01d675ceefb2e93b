"""Ctrl-C: an interrupt that is not lost.

Python raises `KeyboardInterrupt` wherever the main thread happens to be. In a callback of the garbage
collector it is printed and forgotten; here it is remembered, so that work in steps can stop at the next.
Interrupts that follow each other at once are one: ``timeout -s INT`` sends two, and the second one must not cost what
the first one left.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

AT_ONCE_S = 3.0  # ending what runs takes a second, writing and printing less

_seen_s: list[float] = []  # times of interrupts; a handler may run inside itself, where a lock would hang


@contextlib.contextmanager
def remembered() -> Iterator[None]:
    """Remember interrupts while the block runs; they raise `KeyboardInterrupt` all the same."""
    _seen_s.clear()
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt(number: int, frame: Any) -> None:
    now_s = time.monotonic()
    at_once = bool(_seen_s) and now_s < _seen_s[-1] + AT_ONCE_S
    _seen_s.append(now_s)
    if not at_once:
        signal.default_int_handler(number, frame)


def check_interrupted() -> None:
    """Raise `KeyboardInterrupt` if there was an interrupt before, even if it got lost."""
    if _seen_s:
        raise KeyboardInterrupt

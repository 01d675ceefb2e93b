"""Ctrl-C: an interrupt that is not lost.

Python raises `KeyboardInterrupt` wherever the main thread happens to be. In a callback of the garbage
collector it is printed and forgotten; here it is remembered, so that work in steps can stop at the next.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

_seen = threading.Event()


@contextlib.contextmanager
def remembered() -> Iterator[None]:
    """Remember interrupts while the block runs; they raise `KeyboardInterrupt` all the same."""
    _seen.clear()
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
    _seen.set()
    signal.default_int_handler(number, frame)


def check_interrupted() -> None:
    """Raise `KeyboardInterrupt` if there was an interrupt before, even if it got lost."""
    if _seen.is_set():
        raise KeyboardInterrupt

"""Ctrl-C: an interrupt that is not lost, and what ends a job counts as one.

Batch systems and ``timeout`` ask a process to end by another signal, upon which Python ends at once; what was measured
until then would be gone. Ranks end at once all the same: the launcher sends it to those whose work another's failure
has made useless.

Python raises `KeyboardInterrupt` wherever the main thread happens to be. In a callback of the garbage
collector it is printed and forgotten; here it is remembered, so that work in steps can stop at the next.
Interrupts that follow each other at once are one: ``timeout -s INT`` sends two, and the second one must not cost what
the first one left.
"""

from __future__ import annotations

import contextlib
import os
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
    usual: dict[int, Any] = {signal.SIGINT: signal.default_int_handler}
    if "RANK" not in os.environ:
        usual[signal.SIGTERM] = signal.SIG_DFL
    taken = [number for number, handler in usual.items() if main and signal.getsignal(number) is handler]
    for number in taken:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, usual[number])


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

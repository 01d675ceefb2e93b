"""Python's cyclic garbage collector, kept from looking through what is being built.

A million objects that all stay are looked through again and again while they become more, for nothing.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

MANY = 100_000  # objects


@contextlib.contextmanager
def collector_off() -> Iterator[None]:
    """Collect nothing until the end; where there are many new objects then, they count as old at once."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if gc.get_count()[0] > MANY and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()  # to the oldest generation
            gc.enable()

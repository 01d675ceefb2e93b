"""Python's cyclic garbage collector, kept out of what it would disturb."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def no_collector() -> Iterator[None]:
    """Collect now, and not again until the end."""
    gc.collect()
    with collector_off():
        yield


@contextlib.contextmanager
def collector_off() -> Iterator[None]:
    """Collect nothing until the end."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

"""Python's cyclic garbage collector, kept out of what it would disturb."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

from graphsched.garbage import collector_off


@contextlib.contextmanager
def no_collector() -> Iterator[None]:
    """Collect now, and not again until the end."""
    gc.collect()
    with collector_off():
        yield


@contextlib.contextmanager
def left_alone() -> Iterator[None]:
    """Collect now; what is there then, modules of large libraries above all, is left out of collections until the end.

    Looking through these takes a tenth of a second each time. Inside another, what has come since is left out as well,
    until that ends.
    """
    inner = gc.get_freeze_count() > 0
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        if not inner:
            gc.unfreeze()

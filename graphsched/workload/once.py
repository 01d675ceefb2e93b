"""What is made once in a process, whichever of its threads asks first."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def once(make: Callable[[], T]) -> Callable[[], T]:
    """`make`, called once; further threads wait for what it makes.

    Example:
        >>> first = once(list)
        >>> first() is first()
        True
    """
    lock, made = threading.Lock(), list[T]()

    @functools.wraps(make)
    def made_once() -> T:
        with lock:
            if not made:
                made.append(make())
        return made[0]

    return made_once

"""One thread at a time in an object that threads cannot share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from graphsched.errors import ExecutionError

P = ParamSpec("P")
R = TypeVar("R")


def alone(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method of an object with a ``turn`` (an RLock) that no other thread's call of such a method meets.

    Raises:
        ExecutionError: Another thread is in one; nothing has changed.
    """

    @functools.wraps(method)
    def guarded(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if not self.turn.acquire(blocking=False):
            raise ExecutionError(
                "another thread is using this program: give each thread one of its own, or let them take turns with a "
                "lock"
            )
        try:
            return method(self, *args, **kwargs)
        finally:
            self.turn.release()

    return guarded

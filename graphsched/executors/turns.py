"""One thread at a time in an object that threads cannot share, nor processes."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from graphsched.errors import ExecutionError

P = ParamSpec("P")
R = TypeVar("R")


def alone(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method of a `ForOneThread` that no other thread's call of such a method meets.

    Raises:
        ExecutionError: Another thread is in one, or the object was made in another process; nothing has changed.
    """

    @functools.wraps(method)
    def guarded(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.process != os.getpid():
            raise ExecutionError(
                "this program was made before the process was forked, and its threads are not here: make one after the "
                "fork"
            )
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


class ForOneThread:
    """A program, which one thread at a time uses, in the process that made it.

    Attributes:
        turn: Of the thread that uses it.
        process: By number.
    """

    def __init__(self) -> None:
        self.turn, self.process = threading.RLock(), os.getpid()

    def close(self) -> None:
        """Wait for submitted steps, end the threads and give the memory back; in a process that was forked nothing.

        Raises:
            ExecutionError: Another thread is using the program, which stays open.
            TaskFailedError, StuckError: A step failed, and nobody has been told; the program is closed.
        """
        if self.process == os.getpid():
            self._close()

    def _close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.nullcontext() if error is None else contextlib.suppress(ExecutionError):
            self.close()

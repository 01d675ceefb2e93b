"""How far a scheduler that takes its time has come, for whoever wants to know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """What a search has found so far.

    Attributes:
        scheduler: Its name.
        done: Part of its budget that is used up, from 0 to 1.
        makespan_s: Of the best plan so far, in seconds, as the scheduler reckons.
        bound_s: No plan takes less, as far as it knows.
    """

    scheduler: str
    done: float
    makespan_s: float
    bound_s: float


Listener = Callable[[Progress], None]

_listener: ContextVar[Listener | None] = ContextVar("listens to schedulers", default=None)


@contextmanager
def reported_to(listener: Listener) -> Iterator[None]:
    """Schedulers called inside tell `listener` how far they have come.

    Example:
        >>> with reported_to(lambda progress: print(f"{progress.done:.0%}")):
        ...     report(Progress("search", 0.5, 2.0, 1.0))
        50%
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report(progress: Progress) -> None:
    """Tell whoever listens."""
    listener = _listener.get()
    if listener is not None:
        listener(progress)

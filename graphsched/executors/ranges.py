"""Named ranges around the calls of actions, by which a profiler knows whose kernels it sees.

With ``GRAPHSCHED_NVTX=1`` in the environment every program is made with NVTX ranges ``graphsched/<action>``, which
Nsight Systems shows (``nsys profile graphsched run EXPERIMENT``). Without it there is no further call in a run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from graphsched.errors import ExecutionError

Call = Callable[[], None]
Marker = Callable[[str, Call], Call]
"""Makes a call that does the same within a range of that name."""

NVTX = "GRAPHSCHED_NVTX"
PREFIX = "graphsched/"  # of ranges of actions

_marker: ContextVar[Marker | None] = ContextVar("marker of ranges", default=None)


@contextmanager
def marked_by(marker: Marker) -> Iterator[None]:
    """Programs that are made meanwhile put the calls of their actions into ranges of `marker`."""
    token = _marker.set(marker)
    try:
        yield
    finally:
        _marker.reset(token)


def with_ranges(calls: dict[int, Call], names: Sequence[str]) -> dict[int, Call]:
    """The `calls` by action within ranges that bear the actions' names, if any are asked for; else as they are.

    Raises:
        ExecutionError: NVTX ranges are asked for, and torch has no NVTX here.

    Example:
        >>> shown = []
        >>> def marker(name, call):
        ...     return lambda: (shown.append(name), call())[1]
        >>> with marked_by(marker):
        ...     calls = with_ranges({0: lambda: shown.append("runs")}, ["mm0"])
        >>> calls[0]()
        >>> shown
        ['graphsched/mm0', 'runs']
    """
    marker = _marker.get() or _nvtx_if_asked()
    if marker is None:
        return calls
    return {i: marker(PREFIX + names[i], call) for i, call in calls.items()}


def _nvtx_if_asked() -> Marker | None:
    if os.environ.get(NVTX, "") in ("", "0"):
        return None
    push, pop = _nvtx()
    try:
        push("graphsched")
        pop()
    except RuntimeError as error:
        raise ExecutionError(f"{NVTX} is set, but torch has no NVTX here ({error}): unset it") from error
    return nvtx_range


def nvtx_range(name: str, call: Call) -> Call:
    """`call` within an NVTX range of the thread that makes it."""
    push, pop = _nvtx()

    def ranged() -> None:
        push(name)
        try:
            call()
        finally:
            pop()

    return ranged


def _nvtx() -> tuple[Callable[[str], object], Callable[[], object]]:
    """What begins a range and what ends the last one begun."""
    from torch.cuda import nvtx

    module: Any = nvtx
    return module.range_push, module.range_pop


def profiler_range(name: str, call: Call) -> Call:
    """`call` within a range that torch's profiler records."""
    from torch.profiler import record_function

    def ranged() -> None:
        with record_function(name):
            call()

    return ranged

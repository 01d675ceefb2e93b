"""The calls of a run in order, and the times that a timed one takes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from graphsched.executors.calls import Call


@dataclass
class Stamps:
    """Times of a timed run: columns of host seconds; of CUDA actions timing events, or stamps in their place."""

    size: int
    issue_start: list[float] = field(init=False)
    issue_end: list[float] = field(init=False)
    start: list[float] = field(init=False)
    end: list[float] = field(init=False)
    events: dict[int, tuple[Any, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("issue_start", "issue_end", "start", "end"):
            setattr(self, name, [0.0] * self.size)


def stamp(column: list[float], i: int) -> Call:
    """A call that writes the time of `time.perf_counter` into `column[i]`."""
    clock = time.perf_counter

    def take() -> None:
        column[i] = clock()

    return take


@dataclass
class Calls:
    """The calls of a run in order, and the action that each belongs to."""

    calls: list[Call] = field(default_factory=list)
    owner: list[int] = field(default_factory=list)

    def add(self, action: int, call: Call) -> None:
        """Append one call of `action`."""
        self.calls.append(call)
        self.owner.append(action)

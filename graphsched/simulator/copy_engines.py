"""Copies from one GPU to others: its engine makes one after another, whatever their lanes.

First come, first served; in a CUDA graph a lane keeps the engine while its next copy waits for nothing else. Found on
all hosts with four H200s that were recorded, in streams and in CUDA graphs alike: copies of 160 MB from one GPU to
three others, ready at the same time, take 410 µs each, one after the other, and not 1,090 µs side by side. Copies into
one GPU from several do share its port, and copies to the host and from it have engines of their own.

Not modelled: which of several copies that are ready within some microseconds goes first, which differs from run to
run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from graphsched.plan import Copy, Plan


def engines_of(plan: Plan, memory_of: Callable[[Copy], str]) -> dict[int, int]:
    """By action, the number of the engine that makes it: of copies from a GPU to others by several lanes, more than it
    makes at a time (`Device.peer_engines`).
    """
    lanes: dict[str, dict[int, list[int]]] = {}
    for i, copy in plan.copies.items():
        if memory_of(copy) == "peer":
            lanes.setdefault(copy.source, {}).setdefault(plan.lane_of[i], []).append(i)
    at_a_time = {source: plan.platform.device(source).peer_engines for source in lanes}
    crowded = [by for source, by in lanes.items() if 0 < at_a_time[source] < len(by)]
    return {i: k for k, by in enumerate(crowded) for actions in by.values() for i in actions}


class CopyEngine:
    """Lets copies begin as long as it has room; a `simulator.fluid.Resource`.

    Example:
        >>> begun = []
        >>> engine = CopyEngine(1, lambda action, time: begun.append((action, time)))
        >>> engine.enter(4, now=0.0)
        >>> engine.enter(2, now=0.5)
        >>> engine.leave(now=3.0, follows=5)
        >>> engine.enter(5, now=3.5)
        >>> engine.leave(now=6.0)
        >>> begun
        [(4, 0.0), (5, 3.5), (2, 6.0)]
    """

    def __init__(self, at_a_time: int, begin: Callable[[int, float], None]) -> None:
        """``begin(action, time)`` is called for each copy when its turn comes."""
        self._room, self._begin = at_a_time, begin
        self._waiting: list[int] = []
        self._kept_for: dict[int, None] = {}

    def enter(self, action: int, now: float) -> None:
        """`action` is ready."""
        if action in self._kept_for:
            del self._kept_for[action]
            self._begin(action, now)
        elif self._room:
            self._room -= 1
            self._begin(action, now)
        else:
            self._waiting.append(action)

    def leave(self, now: float, follows: int = -1) -> None:
        """A copy is over; `follows` is the next one of its lane, if nothing but that held it up."""
        if follows >= 0:
            self._kept_for[follows] = None
        elif self._waiting:
            self._begin(self._waiting.pop(0), now)
        else:
            self._room += 1

    def refresh(self, now: float) -> None:
        """Nothing here has a rate."""

    def due(self, token: int, now: float) -> list[int]:  # noqa: ARG002 - a Resource has it
        """Nothing here ends."""
        return []


def rooms(plan: Plan, engines: Mapping[int, int]) -> list[int]:
    """Copies at a time of each engine, by number."""
    found: dict[int, int] = {}
    for i, k in engines.items():
        found[k] = plan.platform.device(plan.copies[i].source).peer_engines
    return [found[k] for k in sorted(found)]

"""Tasks in CUDA graphs that start together on a GPU and have to fetch their code: the first hinders those behind it.

A kernel whose code the instruction cache has lost takes up to 16 µs longer where it begins within a microsecond behind
a kernel of other code, much of which has to be fetched, too; the first takes no longer. With its code there, or a
microsecond later, a kernel is not hindered, however long the other runs. What tasks have to fetch is told by
`simulator.instruction_cache`, what it costs was measured of each operation (`calibration.graph_fetches`).

Not modelled: kernels of a task behind its first, which have codes of their own; those of little code that hinder some
others (sorts, concatenations); tasks in streams, which the thread
starts one after another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from graphsched.simulator.instruction_cache import Codes, Fetched

TOGETHER_S = 1e-6
"""Kernels that begin within this time fetch their code at once (docs/graph-mode.md)."""

HINDERS_S = 2e-6
"""What hinders others has so much code that it would itself take this much longer (docs/graph-mode.md)."""


class Fetch(NamedTuple):
    """A task that has to fetch its code.

    Attributes:
        longer_s: What it takes longer behind the start of one that hinders it.
        codes: Its code, by name: those who share some of it do not hinder each other.
    """

    longer_s: float
    codes: Codes

    @property
    def hinders(self) -> bool:
        """Whether there is enough of it to hinder others."""
        return self.longer_s >= HINDERS_S


def fetches_of(fetched: Mapping[int, Fetched]) -> dict[int, Fetch]:
    """By action, those tasks that others can make longer when they fetch their code."""
    found: dict[int, Fetch] = {}
    for i, code in fetched.items():
        if longer_s := code.lost * (code.states.beside_s + code.gone * code.states.beside_lost_s):
            found[i] = Fetch(longer_s, code.codes)
    return found


class Fetches:
    """Those of a GPU, as a run comes to them.

    Example:
        >>> fetches = Fetches({1: Fetch(5e-6, {"a": 1.0}), 2: Fetch(3e-6, {"b": 1.0}), 3: Fetch(4e-6, {"a": 1.0})})
        >>> [fetches.longer_s(action, now) for action, now in ((1, 0.0), (2, 0.4e-6), (3, 0.8e-6))]
        [0.0, 3e-06, 4e-06]
        >>> fetches.longer_s(7, 1e-6), fetches.longer_s(1, 3e-6), fetches.longer_s(3, 3e-6)
        (0.0, 0.0, 0.0)
    """

    def __init__(self, fetches: Mapping[int, Fetch]) -> None:
        """`fetches`: by action; others have nothing to fetch."""
        self._fetches = fetches
        self._recent: list[tuple[float, Codes]] = []

    def longer_s(self, action: int, now: float) -> float:
        """What `action`, which starts `now`, takes longer for those that started right before."""
        fetch = self._fetches.get(action)
        if fetch is None:
            return 0.0
        recent = [(start_s, codes) for start_s, codes in self._recent if now - start_s <= TOGETHER_S]
        hindered = any(fetch.codes.keys().isdisjoint(codes) for _, codes in recent)
        if fetch.hinders:
            recent.append((now, fetch.codes))
        self._recent = recent
        return fetch.longer_s if hindered else 0.0

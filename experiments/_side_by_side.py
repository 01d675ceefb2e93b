"""Several ways to compute the same, timed side by side: checked to be equal, then in turn, round by round."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

import torch

from graphsched.executors.collector import no_collector

ROUNDS = 21
WARM_UP = 3
TOLERANCE = 0.01  # of the largest magnitude: convolutions may use TF32, and kernels differ

Figures = dict[str, list[dict[str, Any]]]  # tables by name, a row a dict


@dataclass(frozen=True)
class Running:
    """A way made ready.

    Attributes:
        time_s: Does it once, all devices idle before and after; returns the seconds.
        results: What the last time returned, on the CPU.
        call: Does it once without waiting for its end; None where there is no such thing.
    """

    time_s: Callable[[], float]
    results: Callable[[], Sequence[torch.Tensor]]
    call: Callable[[], Any] | None = None


@dataclass(frozen=True)
class Way:
    """A way to compute something: its name, and what makes it ready."""

    name: str
    start: Callable[[], AbstractContextManager[Running]]


@dataclass(frozen=True)
class Entry:
    """What came of a way.

    Attributes:
        name: The way's.
        samples_s: A sample a round; empty if it failed.
        difference: Largest difference from what was expected, as a share of the largest magnitude.
        failure: Why there are no samples.
    """

    name: str
    samples_s: tuple[float, ...] = ()
    difference: float | None = None
    failure: str = ""

    @property
    def median_s(self) -> float | None:
        """Median of the samples."""
        return statistics.median(self.samples_s) if self.samples_s else None

    def figures(self) -> dict[str, Any]:
        """Median, quartiles, rounds and difference, and why there are none; no infinity, which JSON does not have."""
        low, _, high = quartiles(self.samples_s)
        finite = self.difference is not None and math.isfinite(self.difference)
        return {
            "way": self.name,
            "median_s": self.median_s,
            "q1_s": low,
            "q3_s": high,
            "rounds": len(self.samples_s),
            "difference": self.difference if finite else None,
            "note": self.failure,
        }


def quartiles(samples: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """The three quartiles; None without samples.

    Example:
        >>> quartiles([1.0, 2.0, 3.0]), quartiles([4.0]), quartiles([])
        ((1.5, 2.0, 2.5), (4.0, 4.0, 4.0), (None, None, None))
    """
    if not samples:
        return None, None, None
    low, middle, high = statistics.quantiles([*samples] * 2 if len(samples) == 1 else samples, method="inclusive")
    return low, middle, high


def side_by_side(
    ways: Sequence[Way], expected: Sequence[torch.Tensor], *, rounds: int = ROUNDS, tolerance: float = TOLERANCE
) -> list[Entry]:
    """Time all `ways` in turn, another one first in each round; one that fails says why and the others go on.

    A way whose results are not those `expected` (on the CPU) is not timed.
    """
    entries: dict[str, Entry] = {}
    samples: dict[str, list[float]] = {}
    with ExitStack() as stack:
        ready: list[tuple[str, Running]] = []
        for way in ways:
            try:
                running = stack.enter_context(way.start())
                entries[way.name] = _checked(way.name, running, expected, tolerance)
            except Exception as error:
                entries[way.name] = Entry(way.name, failure=_words(error))
            if not entries[way.name].failure:
                ready.append((way.name, running))
        stack.enter_context(no_collector())
        for i in range(rounds):
            first = i % max(len(ready), 1)
            for name, running in ready[first:] + ready[:first]:
                samples.setdefault(name, []).append(running.time_s())
    return [_with_samples(entry, samples.get(entry.name, ())) for entry in entries.values()]


def _checked(name: str, running: Running, expected: Sequence[torch.Tensor], tolerance: float) -> Entry:
    for _ in range(WARM_UP):
        running.time_s()
    found = difference(running.results(), expected)
    failure = "" if found <= tolerance else f"results differ from plain PyTorch's by {found:.2g} of the largest"
    return Entry(name, difference=found, failure=failure)


def difference(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> float:
    """The largest difference as a share of the largest expected magnitude; infinite where shapes or numbers differ.

    Example:
        >>> difference([torch.ones(2)], [2 * torch.ones(2)]), difference([torch.ones(2)], [torch.ones(3)])
        (0.5, inf)
    """
    if [t.shape for t in found] != [t.shape for t in expected]:
        return float("inf")
    worst = 0.0
    for a, b in zip(found, expected, strict=True):
        share = float((a - b).abs().max() / b.abs().max().clamp(min=1e-30))
        worst = max(worst, share if share == share else float("inf"))
    return worst


def _with_samples(entry: Entry, samples: Sequence[float]) -> Entry:
    return Entry(entry.name, tuple(samples), entry.difference, entry.failure)


def say(text: str) -> None:
    """Print a line about what is under way, for people."""
    print(text, file=sys.stderr, flush=True)


def _words(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"[:200]

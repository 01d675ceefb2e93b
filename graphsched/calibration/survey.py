"""Transfers together, pattern by pattern, in rounds: what a host's drift does to one it does to all.

The rates that a host's memory gives drift by per cent within seconds. Patterns that are measured one after the other,
each to its end, so differ by more than their loads; medians over rounds that all of them take part in do not.

Which of several transfers goes first may differ from round to round, so the median is that of their sum, and each has
its mean share of it.

Not modelled: drift that is slower than all rounds together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, median

import numpy as np

from graphsched.calibration.capacities import Flow, Rates
from graphsched.calibration.patterns import pattern_label

FEW = 4  # rounds; of fewer the range is the spread


class Survey:
    """Rates of transfers together: the median of their sum over rounds, in their mean shares.

    Args:
        rates: Measures the rates of some flows once.
        patterns: What is measured at once; each takes part in every round. Those of the same flows are one.
        rounds: How often each is measured.

    Example:
        >>> rates = iter([[4.0], [2.0, 2.0], [6.0], [3.0, 1.0]])
        >>> survey = Survey(lambda flows: next(rates), [[("a", "b")], [("a", "b"), ("a", "c")]], rounds=2)
        >>> survey([("a", "b")]), survey([("a", "c"), ("a", "b")])
        ([5.0], [1.5, 2.5])
    """

    def __init__(self, rates: Rates, patterns: Iterable[Sequence[Flow]], rounds: int) -> None:
        self._rates, self._rounds = rates, rounds
        self._samples: dict[tuple[Flow, ...], list[list[float]]] = {}
        distinct: dict[tuple[Flow, ...], Sequence[Flow]] = {}
        for flows in patterns:
            distinct.setdefault(_key(flows), flows)
        self._measure(distinct)

    def __call__(self, flows: Sequence[Flow]) -> list[float]:
        """Each flow's rate over the rounds; what was not among the patterns is measured now."""
        if _key(flows) not in self._samples:
            self._measure({_key(flows): flows})
        samples = self._samples[_key(flows)]
        whole = median([sum(sample) for sample in samples])
        found = [0.0] * len(flows)
        for place, k in enumerate(_order(flows)):
            found[k] = whole * fmean(sample[place] / sum(sample) for sample in samples)
        return found

    @property
    def spreads(self) -> dict[str, float]:
        """By a pattern's label how much the sum of its rates varied from round to round, over its median.

        That is the interquartile range; of two or three rounds the whole range.
        """
        return {pattern_label(flows): _spread([sum(s) for s in samples]) for flows, samples in self._samples.items()}

    def _measure(self, patterns: dict[tuple[Flow, ...], Sequence[Flow]]) -> None:
        """Add samples of patterns, in rounds."""
        for _ in range(self._rounds):
            for key, flows in patterns.items():
                found = self._rates(flows)
                self._samples.setdefault(key, []).append([found[k] for k in _order(flows)])


def _order(flows: Sequence[Flow]) -> list[int]:
    """Places of the flows by their names."""
    return sorted(range(len(flows)), key=lambda k: flows[k])


def _key(flows: Sequence[Flow]) -> tuple[Flow, ...]:
    return tuple(sorted(flows))


def _spread(sums: Sequence[float]) -> float:
    low, high = (0.25, 0.75) if len(sums) >= FEW else (0.0, 1.0)
    return float(np.quantile(sums, high) - np.quantile(sums, low)) / median(sums)

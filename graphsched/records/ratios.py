"""How much faster one way of running is than another over many cases, and whether predictions say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

from graphsched.plan import MODES
from graphsched.records.modes import Row

BEST = "best mode"


@dataclass(frozen=True)
class Ratio:
    """Of one row, for two ways: the measured ratio, and whether the prediction names the faster one."""

    of: str
    to: str
    scheduler: str
    measured: float
    predicted: float | None
    agrees: bool | None


def ratios_of(rows: Sequence[Row]) -> list[Ratio]:
    """All ratios of all rows; code of others is held against the best mode of a row, whichever that is."""
    return [
        Ratio(
            one,
            other if one in MODES else BEST,
            row.scheduler,
            row.ratio(one, other),
            row.predicted_ratio(one, other),
            row.agrees(one, other),
        )
        for row in rows
        for one, other in row.pairs()
    ]


def summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Geometric mean ratios: by pair of ways over all rows (``scheduler`` None), then by scheduler too.

    ``judged`` counts the rows in which both were predicted and differ beyond noise, ``agree`` those of them whose
    prediction names the faster way.
    """
    ratios = ratios_of(rows)
    found = []
    for of, to in dict.fromkeys((ratio.of, ratio.to) for ratio in ratios):
        of_pair = [ratio for ratio in ratios if (ratio.of, ratio.to) == (of, to)]
        schedulers = dict.fromkeys(ratio.scheduler for ratio in of_pair)
        found.append(_summed(of, to, None, of_pair))
        found += [_summed(of, to, name, [r for r in of_pair if r.scheduler == name]) for name in schedulers]
    return found


def _summed(of: str, to: str, scheduler: str | None, ratios: Sequence[Ratio]) -> dict[str, Any]:
    judged = [ratio.agrees for ratio in ratios if ratio.agrees is not None]
    predicted = [ratio.predicted for ratio in ratios if ratio.predicted is not None]
    return {
        "of": of,
        "to": to,
        "scheduler": scheduler,
        "cases": len(ratios),
        "measured": geometric_mean([ratio.measured for ratio in ratios]),
        "predicted": geometric_mean(predicted) if len(predicted) == len(ratios) else None,
        "judged": len(judged),
        "agree": sum(judged),
    }

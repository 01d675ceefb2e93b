"""Errors of many cases in a few figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphsched.records.checked import Checked
from graphsched.records.concordance import regrets

SMALLEST_ERROR_S = 5e-6  # a makespan that is off by less is right, however short it is


def summary(errors: Sequence[float] | NDArray[np.float64]) -> dict[str, float | None]:
    """Median, 95th percentile and maximum; None for no errors.

    Example:
        >>> summary([0.01, 0.03, 0.02])["median"]
        0.02
    """
    if not len(errors):
        return {"median": None, "p95": None, "max": None}
    median, p95, largest = (float(x) for x in np.percentile(errors, (50, 95, 100)))
    return {"median": median, "p95": p95, "max": largest}


def errors_of(checked: Sequence[Checked]) -> dict[str, Any]:
    """Absolute errors of makespans, and of the starts and ends of actions and compute lanes, all cases together.

    ``makespan_p95_or_5us``: as the 95th percentile of makespans, those off by 5 µs or less taken as right;
    ``interval``: as `intervals_of`.
    """
    return {
        "runs": len(checked),
        "makespan_error": summary([abs(c.makespan_error) for c in checked]),
        "makespan_p95_or_5us": summary([_beyond_5us(c) for c in checked])["p95"],
        "task_start_error": summary(_joined([c.start_errors for c in checked])),
        "task_end_error": summary(_joined([c.end_errors for c in checked])),
        "lane_end_error": summary(_joined([c.lane_end_errors for c in checked])),
        "interval": intervals_of(checked),
    }


def intervals_of(checked: Sequence[Checked]) -> dict[str, Any]:
    """How many of the cases with an interval were measured inside it, and as a share; None for none."""
    known = [c.inside for c in checked if c.inside is not None]
    return {"runs": len(known), "inside": sum(known), "share": sum(known) / len(known) if known else None}


def _beyond_5us(entry: Checked) -> float:
    off_s = abs(entry.predicted_s - entry.measured_s)
    return abs(entry.makespan_error) if off_s > SMALLEST_ERROR_S else 0.0


def _joined(columns: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.concatenate(columns) if columns else np.empty(0)


def cases_by(checked: Sequence[Checked], key: Callable[[Checked], str]) -> dict[str, list[Checked]]:
    """The cases by what `key` says of each, in alphabetical order."""
    return {name: [c for c in checked if key(c) == name] for name in sorted({key(c) for c in checked})}


def errors_by(checked: Sequence[Checked], key: Callable[[Checked], str]) -> dict[str, Any]:
    """`errors_of` by what `key` says of each case, in alphabetical order."""
    return {name: errors_of(cases) for name, cases in cases_by(checked, key).items()}


def regret_of(checked: Sequence[Checked]) -> dict[str, Any]:
    """How much slower the schedules that are predicted to be best are than the best, as fractions.

    ``groups``: workloads (on a platform, in a mode) with several schedules; ``median`` and ``max`` over them;
    ``beyond_noise``: the largest that is more than noise, 0 if none is; ``over``: all of those.
    """
    found = regrets(checked)
    over = sorted((r for r in found if r.beyond_noise), key=lambda r: -r.share)
    shares = summary([r.share for r in found])
    return {
        "groups": len(found),
        "median": shares["median"],
        "max": shares["max"],
        "beyond_noise": (over[0].share if over else 0.0) if found else None,
        "over": [r.figures() for r in over],
    }

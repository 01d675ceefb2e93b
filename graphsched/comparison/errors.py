"""Errors as fractions, their summary, and the spread of what they are held against."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Shares = NDArray[np.float64]

NOISY_SPREAD = 0.02  # a measurement that spreads more than this cannot show an error of one per cent


def noisy(spread: float | None) -> bool:
    """Whether a measured spread (share of the median) is too wide to judge a prediction by.

    Example:
        >>> noisy(0.021), noisy(0.02), noisy(None)
        (True, False, False)
    """
    return spread is not None and spread > NOISY_SPREAD


def relative_error(predicted_s: float, measured_s: float) -> float:
    """Signed fraction by which a prediction is off.

    Example:
        >>> relative_error(1.5, 2.0), relative_error(0.0, 0.0), relative_error(1.0, 0.0)
        (-0.25, 0.0, inf)
    """
    if predicted_s == measured_s:
        return 0.0
    return predicted_s / measured_s - 1 if measured_s else math.inf


def summary(errors: Shares) -> dict[str, float]:
    """Median, 95th percentile and maximum of absolute errors; zeros for none.

    Example:
        >>> summary(np.array([-0.01, 0.03, 0.02]))["median"]
        0.02
    """
    if not len(errors):
        return {"median": 0.0, "p95": 0.0, "max": 0.0}
    median, p95, worst = np.percentile(np.abs(errors), (50, 95, 100))
    return {"median": float(median), "p95": float(p95), "max": float(worst)}

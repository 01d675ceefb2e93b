"""Errors as fractions, and spreads that are too wide for them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graphsched.comparison import NOISY_SPREAD, noisy
from graphsched.comparison.errors import relative_error, summary


@pytest.mark.parametrize(
    ("spread", "wide"), [(None, False), (0.0, False), (NOISY_SPREAD, False), (NOISY_SPREAD * 1.001, True)]
)
def test_a_spread_above_two_per_cent_is_noisy(spread: float | None, wide: bool) -> None:
    assert NOISY_SPREAD == 0.02
    assert noisy(spread) is wide


def test_relative_errors_are_signed() -> None:
    assert relative_error(1.1, 1.0) == pytest.approx(0.1)
    assert relative_error(0.0, 0.0) == 0.0
    assert relative_error(1.0, 0.0) == math.inf


def test_summaries_are_of_absolute_errors() -> None:
    assert summary(np.array([-0.4, 0.2])) == pytest.approx({"median": 0.3, "p95": 0.39, "max": 0.4})
    assert summary(np.empty(0)) == {"median": 0.0, "p95": 0.0, "max": 0.0}

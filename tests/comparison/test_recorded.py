"""Recorded runs of real hardware: what errors are made of, and how often intervals hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from graphsched.comparison import Comparison, compare
from graphsched.records import find_runs, load_run

RESULTS = Path(__file__).resolve().parents[2] / "experiments" / "results"
MODEST = 3_000  # actions up to which a case is taken

pytestmark = pytest.mark.timeout(600)  # all recorded runs, compared once


def comparisons() -> Iterator[Comparison]:
    for path in find_runs([RESULTS]):
        for case in load_run(path).cases:
            if case.workload is not None and len(case.plan) <= MODEST:
                yield compare(case.repredict(), case.measured)


@pytest.fixture(scope="module")
def compared() -> list[Comparison]:
    return list(comparisons())


def test_all_classes_measured_is_the_run_that_was_measured(compared: list[Comparison]) -> None:
    """Every seventh case, of all kinds, and all of several ranks: nothing is left over."""
    ranks = [c for c in compared if c.predicted.plan.mode == "distributed"]
    assert ranks
    for c in [*compared[::7], *ranks]:
        assert c.attribution is not None
        assert c.attribution.error == pytest.approx(c.makespan_error, abs=1e-12)
        assert abs(c.attribution.figures()["rest"]) < 1e-6


def test_about_nine_in_ten_lie_in_the_90_per_cent_interval(compared: list[Comparison]) -> None:
    inside = [c.inside for c in compared]
    assert None not in inside
    assert 0.8 < sum(map(bool, inside)) / len(inside) <= 1.0

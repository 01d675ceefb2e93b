"""Errors of many cases in a few figures."""

from __future__ import annotations

import numpy as np
import pytest

from graphsched.records.summaries import errors_by, errors_of, summary
from tests.records.entries import entry


def test_quantiles_are_of_absolute_errors():
    assert summary(np.arange(101) / 100) == pytest.approx({"median": 0.5, "p95": 0.95, "max": 1.0})
    assert errors_of([entry(0.5, 1.0), entry(1.1, 1.0)])["makespan_error"]["max"] == pytest.approx(0.5)


def test_actions_and_lanes_of_all_cases_count_alike():
    cases = [
        entry(1.0, 1.0, starts=(0.1, 0.2), ends=(0.3,), lane_ends=(0.5,)),
        entry(1.0, 1.0, starts=(0.3,), ends=(0.4, 0.5), lane_ends=(0.7,)),
    ]
    figures = errors_of(cases)
    assert figures["task_start_error"]["median"] == pytest.approx(0.2)
    assert figures["task_end_error"]["median"] == pytest.approx(0.4)
    assert figures["lane_end_error"]["median"] == pytest.approx(0.6)


@pytest.mark.parametrize(("measured_s", "found"), [(10e-6, 0.0), (14.9e-6, 0.0), (15.1e-6, 5.1 / 15.1)])
def test_an_error_of_5_microseconds_is_none(measured_s, found):
    """10 µs predicted."""
    assert errors_of([entry(10e-6, measured_s)])["makespan_p95_or_5us"] == pytest.approx(found)


def test_cases_are_told_apart_by_a_key():
    cases = [entry(1.0, 1.0, label="b"), entry(2.0, 1.0, label="a"), entry(1.5, 1.0, label="b")]
    found = errors_by(cases, lambda c: c.case.label)
    assert {name: errors["runs"] for name, errors in found.items()} == {"a": 1, "b": 2}
    assert list(found) == ["a", "b"]
    assert found["b"]["makespan_error"]["max"] == pytest.approx(0.5)


def test_no_cases_give_no_figures():
    nothing = {"median": None, "p95": None, "max": None}
    assert errors_of([]) == {
        "runs": 0,
        "makespan_error": nothing,
        "makespan_p95_or_5us": None,
        "task_start_error": nothing,
        "task_end_error": nothing,
        "lane_end_error": nothing,
        "interval": {"runs": 0, "inside": 0, "share": None},
    }

"""The rules of sharing links, held against transfers that were measured together on 4 H200s."""

from __future__ import annotations

import pytest

from tests.calibration.h200_links import errors, patterns, rules


@pytest.mark.parametrize(
    ("between_gpus", "reached"),
    [(False, (0.010, 0.166)), (True, (0.096, 0.302))],
)
def test_errors_stay_where_they_are(between_gpus: bool, reached: tuple[float, float]) -> None:
    """Median and 95th percentile of single flows."""
    found = errors(rules()["tables, in turn"], patterns(between_gpus))
    assert all(error <= 1.05 * limit for error, limit in zip(found, reached, strict=True))


def test_each_rule_is_worth_something() -> None:
    medians = [errors(platform, patterns(between_gpus=True))[0] for platform in rules().values()]
    assert medians == sorted(medians)
    assert medians[0] < medians[1] / 1.5 < medians[2] / 2
    host = {rule: errors(platform, patterns(between_gpus=False))[0] for rule, platform in rules().items()}
    assert host["tables"] < host["highest rates"] / 3

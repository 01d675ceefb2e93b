"""The rules of sharing links, held against transfers that were measured together on 4 H200s, and on recorded hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsched.calibration.patterns import pattern_label, predicted_rates
from graphsched.platform import Platform
from graphsched.records.store import load_run
from tests.calibration.h200_links import errors, patterns, rules

RESULTS = Path(__file__).parents[2] / "experiments" / "results"
HOSTS = [  # all of four GPUs, by a run that was recorded on each, and when; how much predictions may be off; how many
    ("h100-80gb-hbm3-x4/ring", "2026-11-28T02", 0.01, 4),
    ("h100-80gb-hbm3-x4/lenet_data_parallel", "2026-11-27T01", 0.01, 4),
    ("h200-x4/resnet18_data_parallel", "2026-11-26T22", 0.01, 4),
    ("h200-x4/kvstore", "2026-11-27T04", 0.01, 4),
    ("h200-x4/complex_graph-4-gpus", "2026-11-22T11", 0.06, 3),  # a GPU's other copies move on while the first drains
    ("h200-x4/ring", "2026-11-22T13", 0.06, 3),
]


def test_errors_stay_where_they_are() -> None:
    """Median and 95th percentile of single flows."""
    found = errors(rules()["tables"], patterns())
    assert all(error <= 1.05 * limit for error, limit in zip(found, (0.010, 0.166), strict=True))


def test_tables_are_worth_something() -> None:
    host = {rule: errors(platform, patterns())[0] for rule, platform in rules().items()}
    assert host["tables"] < host["highest rates"] / 3


def recorded_platform(name: str, measured: str) -> Platform:
    platforms = (case.setup.platform for case in load_run(RESULTS / f"{name}.json").cases)
    return next(here for here in platforms if here.provenance["measured"].startswith(measured))


@pytest.mark.parametrize(("name", "measured", "most", "number"), HOSTS)
def test_patterns_between_gpus_that_nothing_was_fitted_on(name: str, measured: str, most: float, number: int) -> None:
    """Two pairs; three copies from one GPU beside one from another; both ways beside a third; some, all to all.

    The first of a GPU's flows has its engine, the others wait.
    """
    here = recorded_platform(name, measured)
    new = [row for row in here.provenance["patterns"] if not row["fitted"]]
    rows = [row for row in new if all("cpu" not in flow for flow in row["flows"])]
    found = {}
    for row in rows:
        flows = [(source, target) for source, target in row["flows"]]
        found[pattern_label(flows)] = sum(predicted_rates(here, flows)) / row["measured_bytes_per_s"] - 1
    assert len(found) == number
    assert all(abs(error) < most for error in found.values()), found
    assert sum(abs(error) >= 0.01 for error in found.values()) <= 1, found

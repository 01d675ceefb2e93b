"""Transfers with the host together on one with 4 H200s, and how well its platform predicts them: tests/data/h200-links.

``python -m tests.calibration.h200_links`` prints the errors of single flows: by the platform's tables, and by max-min
over the highest rates.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from graphsched.calibration.capacities import Flow
from graphsched.calibration.patterns import predicted_rates
from graphsched.platform import Platform

DATA = Path(__file__).parents[1] / "data" / "h200-links"


def rules() -> dict[str, Platform]:
    """The platform under each rule."""
    here = Platform.load(DATA / "platform.json")
    return {"tables": here, "highest rates": replace(here, tables={})}


def patterns() -> list[tuple[list[Flow], list[float]]]:
    """Flows and their measured rates."""
    rows = json.loads((DATA / "patterns.json").read_text())
    return [([(s, t) for s, t in row["flows"]], row["measured_bytes_per_s"]) for row in rows]


def errors(platform: Platform, chosen: Sequence[tuple[list[Flow], list[float]]]) -> tuple[float, float]:
    """Median and 95th percentile of the absolute relative errors of single flows."""
    found = [
        abs(predicted / measured - 1)
        for flows, rates in chosen
        for predicted, measured in zip(predicted_rates(platform, flows), rates, strict=True)
    ]
    median, p95 = np.percentile(found, (50, 95))
    return float(median), float(p95)


def main() -> None:
    """Print a line a rule."""
    for rule, platform in rules().items():
        median, p95 = errors(platform, patterns())
        print(f"{rule:16} {median:6.1%} / {p95:6.1%}")


if __name__ == "__main__":
    main()

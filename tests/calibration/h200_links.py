"""Transfers together on a host with 4 H200s, and how well its platform predicts them; the data: tests/data/h200-links.

``python -m tests.calibration.h200_links`` prints the errors of single flows: by the platform's tables with
GPUs that send to others in turn, by tables alone, and by max-min over the highest rates.
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
    fair = replace(here, devices=tuple(replace(device, peer_engines=0) for device in here.devices))
    return {"tables, in turn": here, "tables": fair, "highest rates": replace(fair, tables={})}


def patterns(between_gpus: bool) -> list[tuple[list[Flow], list[float]]]:
    """Flows and their measured rates: all with the host, or all between GPUs."""
    rows = json.loads((DATA / "patterns.json").read_text())
    found = [([(s, t) for s, t in row["flows"]], row["measured_bytes_per_s"]) for row in rows]
    return [(flows, rates) for flows, rates in found if ("cpu" not in flows[0]) == between_gpus]


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
        shown = [f"{what} {median:6.1%} / {p95:6.1%}" for what, (median, p95) in (
            ("with the host", errors(platform, patterns(between_gpus=False))),
            ("between GPUs", errors(platform, patterns(between_gpus=True))),
        )]  # fmt: skip
        print(f"{rule:16}", ", ".join(shown))


if __name__ == "__main__":
    main()

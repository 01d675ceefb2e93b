"""Running cases: which costs are asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphsched.cases import Case
from graphsched.cli.perform import Runner
from graphsched.cli.request import Request
from graphsched.costs import Costs, TaskCost
from graphsched.platform import Platform
from graphsched.workload import Workload
from tests.builders import kernel, platform


def test_costs_are_asked_for_once_in_each_mode(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What was measured for eager mode may lack what graph mode needs, and one lane a device needs no curves."""
    work = Workload()
    work.task(kernel, 0, name="a", outputs=[], device="cuda")
    here, costs = platform(gpus=1), Costs({(work["a"].signature, "GPU"): TaskCost(1.0)})
    asked: list[tuple[str, bool]] = []

    def profile(work: Workload, on: Platform, *, mode: str, concurrency: bool, report: Any) -> Costs:
        asked.append((mode, concurrency))
        return costs

    monkeypatch.setattr("graphsched.calibration.profile", profile)
    monkeypatch.setattr("graphsched.cli.perform.environment", dict)
    experiment: Any = None
    runner = Runner(Request(experiment, {}, here, Costs(), []), tmp_path)
    for mode in ("eager", "graph", None, "graph"):
        for scheduler in ("heft", "one_stream", "sequential"):
            assert runner.costs(Case("c", work, scheduler=scheduler, mode=mode)) == costs
    assert asked == [("eager", True), ("eager", False), ("graph", True), ("graph", False)]

"""What comes with the package and the checkout: platforms, and recorded runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphsched.platform import Platform
from graphsched.records import find_runs, load_run

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "experiments" / "results"


def predicted(experiment: str, platform: str, hash_seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "graphsched", "predict", experiment, "--platform", platform, "--json"],
        cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


@pytest.mark.parametrize("gpus", [1, 2, 4])
def test_a_shipped_platform_has_its_gpus_all_links_and_says_where_it_is_from(gpus: int) -> None:
    platform = Platform.load(f"h200-x{gpus}")
    names = platform.accelerators()
    assert platform.name == f"h200-x{gpus}"
    assert len(names) == gpus
    assert {platform.device(name).model for name in names} == {"NVIDIA H200"}
    assert {"measured", "fingerprint", "spread"} <= set(platform.provenance)
    for name in names:
        for memory in ("pinned", "pageable", "fresh"):
            assert platform.link(name, "cpu", memory).memory == memory
            assert platform.link("cpu", name, memory).memory == memory
        assert all(platform.link(name, other).memory == "peer" for other in names if other != name)


@pytest.mark.parametrize("platform", ["h200-x1", "h200-x2", "h200-x4"])
def test_overlap_is_predicted_anywhere_from_measured_costs_and_to_the_byte(platform: str) -> None:
    first, second = predicted("overlap", platform, "1"), predicted("overlap", platform, "2")
    assert first == second
    cases = json.loads(first)["cases"]
    assert len(cases) == 6
    assert not any(case["estimated"] for case in cases)
    by_label = {case["label"].split(",")[0]: case["predicted_s"] for case in cases}
    assert by_label["overlapped"] < 1.02 * by_label["products alone"]  # the copies hide behind the products


@pytest.mark.timeout(600)
def test_every_recorded_run_is_read_and_predicted_again() -> None:
    paths = find_runs([RESULTS])
    assert {path.parent.name for path in paths} == {
        "h100-80gb-hbm3-x1",
        "h100-80gb-hbm3-x2",
        "h100-80gb-hbm3-x4",
        "h200-x1",
        "h200-x2",
        "h200-x4",
    }
    for path in paths:
        for case in load_run(path).cases:
            if case.workload is not None:
                assert case.repredict().makespan_s > 0
                assert len(case.measured) == len(case.plan)


def test_recorded_runs_keep_a_clone_small() -> None:
    assert sum(path.stat().st_size for path in RESULTS.rglob("*")) < 50e6

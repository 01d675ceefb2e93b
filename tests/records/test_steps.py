"""Steps among many of recorded runs, simulated again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphsched.platform import Pace
from graphsched.records import accuracy, save_run
from graphsched.records.checked import check_case
from graphsched.records.steps import can_be_predicted, step_errors
from tests.records.examples import SETUP, case_of, chain, run_of
from tests.records.test_accuracy import FREE

STEPS = replace(SETUP, platform=replace(SETUP.platform, dispatch=FREE), parameters={"steps": 5})
SLOW = replace(STEPS, platform=replace(STEPS.platform, dispatch=replace(FREE, run_s=0.5, call_s=1e-6)))


def test_a_step_adds_what_its_chain_takes(tmp_path: Path) -> None:
    """t0 → t1 → t2, one second each, five times: 15 s, of which a step adds 3; measured are 2.5."""
    case = replace(case_of(chain(3), measured_s=3.0, setup=STEPS), metrics={"step_s": 2.5, "step_call_s": 0.0})
    save_run(run_of(case), tmp_path)
    steps = accuracy([tmp_path])["steps"]
    assert steps["runs"] == steps["by_mode"]["eager"]["runs"] == 1
    assert steps["step_error"] == pytest.approx({"median": 0.2, "p95": 0.2, "max": 0.2})
    (row,) = steps["cases"]
    assert row["predicted_s"] == pytest.approx(3.0)
    assert (row["measured_s"], row["mode"], row["error"]) == (2.5, "eager", pytest.approx(0.2))


def test_the_pace_of_the_thread_is_that_of_the_steps() -> None:
    """A thread that takes half a second for each task of one second keeps up, one half as fast does not quite."""
    found = []
    for call_s in (1e-6, 4e-6):
        metrics = {"step_s": 3.0, "step_call_s": call_s}
        case = replace(case_of(chain(3), measured_s=3.0, setup=SLOW), metrics=metrics, pace=Pace(2e-6))
        found.append(step_errors([check_case("exp", case)])["cases"][0]["predicted_s"])
    assert found[0] < found[1]


@pytest.mark.parametrize(
    ("metrics", "parameters", "mode", "told"),
    [
        ({"step_s": 1.0}, {"steps": 5}, "graph", True),
        ({"step_s": 1.0}, {"steps": 5}, "eager", False),
        ({"step_s": 1.0, "step_call_s": 1e-6}, {"steps": 5}, "eager", True),
        ({}, {"steps": 5}, "graph", False),
        ({"step_s": 1.0}, {}, "graph", False),
        ({"step_s": 1.0}, {"steps": 1}, "graph", False),
        ({"step_s": 1.0}, {"steps": "many"}, "graph", False),
        ({"step_s": "1 s"}, {"steps": 5}, "graph", False),
        ({"step_s": True}, {"steps": 5}, "graph", False),
        ({"step_s": -1.0}, {"steps": 5}, "graph", False),
        ({"step_s": 1.0, "step_call_s": None}, {"steps": 5}, "eager", False),
        ({"step_s": 1.0, "step_call_s": "fast"}, {"steps": 5}, "eager", False),
    ],
)
def test_which_steps_can_be_predicted(
    metrics: dict[str, Any], parameters: dict[str, object], mode: str, told: bool
) -> None:
    """A case of one task; metrics may be text, or empty."""
    case = case_of(chain(1), measured_s=1.0, setup=replace(SETUP, parameters=parameters))
    assert can_be_predicted(replace(case, metrics=metrics, mode=mode)) is told


def test_without_steps_there_are_no_errors() -> None:
    assert step_errors([check_case("exp", case_of(chain(1), measured_s=1.0, setup=STEPS))]) == {
        "runs": 0, "step_error": {"median": None, "p95": None, "max": None}, "by_mode": {}, "cases": []
    }  # fmt: skip

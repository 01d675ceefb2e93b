"""Recorded runs simulated again: which errors count where, and pairs of schedules in order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphsched.costs import Costs, TaskCost
from graphsched.errors import FileFormatError
from graphsched.platform import Device, Dispatch, Platform
from graphsched.records import Setup, accuracy, record_baseline, save_run
from graphsched.records.accuracy import Checked, concordance, summary
from graphsched.simulator import Model
from tests.records.examples import SETUP, case_of, chain, run_of, two

FREE = Dispatch(**{name: 0 for name in Dispatch.__dataclass_fields__ if name != "queue_depth"})
EXACT = replace(SETUP, platform=replace(SETUP.platform, dispatch=FREE))
WORKERS = Setup({}, Platform("workers", (Device("worker:0", "worker", "threads"),), dispatch=FREE))


def test_errors_are_those_of_the_plan_simulated_again(tmp_path):
    """t0 → t1 → t2, one second each: 3 s predicted, ends at 1, 2 and 3 s.

    Measured ends are thirds of 2.5 s, and the timed makespan is 1.01 × 2.5 s.
    """
    save_run(run_of(case_of(chain(3), predicted_s=99.0, measured_s=2.5, setup=EXACT)), tmp_path)
    data = accuracy([tmp_path])
    assert data["runs"] == data["gpu_bound"]["runs"] == 1
    assert data["makespan_error"] == pytest.approx({"median": 0.2, "p95": 0.2, "max": 0.2})
    ends = [(i - i * 2.5 / 3) / 2.525 for i in (1, 2, 3)]
    assert data["task_end_error"]["median"] == pytest.approx(ends[1])
    assert data["task_end_error"]["max"] == pytest.approx(ends[2])
    assert data["by_experiment"]["exp"]["makespan_error"]["max"] == pytest.approx(0.2)
    assert list(data["by_scheduler"]) == ["one_stream"]
    assert list(data["by_mode"]) == ["eager"]
    assert len(data["cases"]) == data["runs"]
    for case in data["cases"]:
        assert case["error"] == pytest.approx(case["predicted_s"] / case["measured_s"] - 1)


def test_cases_are_told_apart_by_what_bounds_them(tmp_path):
    """A chain on a GPU; two tasks side by side on a GPU; two tasks on a CPU thread."""
    alone = case_of(chain(3), measured_s=3.0, label="alone", setup=EXACT)
    shared = case_of(two(), measured_s=1.6, label="shared", scheduler="round_robin", lanes=2, setup=EXACT)
    cpu = case_of(two(), measured_s=4.0, label="cpu", setup=WORKERS)
    plain = record_baseline(EXACT, "plain PyTorch", (1.0, 1.0))
    save_run(run_of(alone, shared, cpu, plain), tmp_path)
    data = accuracy([tmp_path])
    assert data["runs"] == 3
    assert (data["gpu_bound"]["runs"], data["sm_sharing"]["runs"], data["host_bound"]["runs"]) == (1, 1, 1)
    assert data["makespan_error"]["max"] == pytest.approx(0.0)
    assert data["sm_sharing"]["makespan_error"]["max"] == pytest.approx(2 / 1.6 - 1)
    assert data["host_bound"]["makespan_error"]["max"] == pytest.approx(0.5)
    assert data["by_experiment"]["exp"]["runs"] == 3


def test_switches_of_the_model_are_passed_on(tmp_path):
    """Two tasks side by side take 2 s when they share the GPU, 1 s when nothing is shared."""
    save_run(run_of(case_of(two(), measured_s=2.0, scheduler="round_robin", lanes=2, setup=EXACT)), tmp_path)
    assert accuracy([tmp_path])["sm_sharing"]["makespan_error"]["max"] == pytest.approx(0.0)
    data = accuracy([tmp_path], model=Model(sharing=False))
    assert data["sm_sharing"]["makespan_error"]["max"] == pytest.approx(0.5)


def test_a_recorded_cost_is_what_is_simulated(tmp_path):
    work = chain(1)
    work.graph.nodes["t0"]["task"] = replace(work["t0"], duration_s=None, signature="op")
    costs = Costs({("op", "GPU"): TaskCost(0.5)})
    setup = replace(EXACT, platform=replace(EXACT.platform, costs=costs))
    save_run(run_of(case_of(work, measured_s=1.0, setup=setup)), tmp_path)
    assert accuracy([tmp_path])["makespan_error"]["max"] == pytest.approx(0.5)


def test_no_runs_give_no_figures(tmp_path):
    data = accuracy([tmp_path])
    assert data["runs"] == 0
    assert data["makespan_error"] == {"median": None, "p95": None, "max": None}
    assert data["concordant"] is None
    with pytest.raises(FileFormatError, match="no file or folder"):
        accuracy([tmp_path / "none"])


def checked(predicted_s, measured_s, *, spread=0.0, mode="eager", work=None):
    case = case_of(work or two(), measured_s=measured_s, spread=spread, mode=mode)
    return Checked("exp", case, predicted_s, 0.0, np.zeros(0), "makespan")


def test_pairs_in_the_measured_order_count():
    """Three schedules measured at 1, 2 and 3 s, predicted at 1, 3 and 2 s: two of three pairs."""
    assert concordance([checked(1.0, 1.0), checked(3.0, 2.0), checked(2.0, 3.0)]) == pytest.approx(2 / 3)


def test_pairs_that_do_not_differ_have_no_order():
    assert concordance([checked(1.0, 1.0), checked(2.0, 1.009)]) is None
    assert concordance([checked(1.0, 1.0), checked(2.0, 1.011)]) == 1.0
    assert concordance([checked(1.0, 1.0, spread=0.1), checked(2.0, 1.19)]) is None
    assert concordance([checked(1.0, 1.0, spread=0.1), checked(2.0, 1.21)]) == 1.0


def test_only_schedules_of_one_workload_and_mode_are_held_against_each_other():
    assert concordance([checked(1.0, 2.0), checked(2.0, 1.0, mode="graph")]) is None
    assert concordance([checked(1.0, 2.0), checked(2.0, 1.0, work=chain())]) is None
    assert concordance([checked(1.0, 2.0), checked(2.0, 1.0)]) == 0.0


def test_quantiles_are_of_absolute_errors():
    assert summary(np.arange(101) / 100) == pytest.approx({"median": 0.5, "p95": 0.95, "max": 1.0})

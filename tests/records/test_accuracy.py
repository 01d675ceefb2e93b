"""Recorded runs simulated again: which errors count where, and what each term of the model is worth."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.costs import Costs, TaskCost
from graphsched.errors import FileFormatError
from graphsched.platform import Device, Dispatch, Platform
from graphsched.platform.dispatch import TABLES
from graphsched.records import Setup, accuracy, record_baseline, save_run
from graphsched.records.accuracy import ablation
from graphsched.records.checked import check_runs
from graphsched.simulator import Model
from tests.records.examples import SETUP, case_of, chain, run_of, two

FREE = Dispatch(**{name: 0 for name in Dispatch.__dataclass_fields__ if name not in {*TABLES, "queue_depth"}})
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
    assert data["task_start_error"]["median"] == pytest.approx(ends[0])
    assert data["task_start_error"]["max"] == pytest.approx(ends[1])
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


def test_noisy_cases_are_left_out_of_figures_of_their_own(tmp_path):
    """t0 → t1 → t2 on a GPU, 50 % off with a spread of 3 %, right with one of 1 %, off in a single repeat."""
    noisy = case_of(chain(3), measured_s=2.0, label="noisy", spread=0.03, setup=EXACT)
    quiet = case_of(chain(3), measured_s=3.0, label="quiet", spread=0.01, setup=EXACT)
    once = replace(case_of(chain(3), measured_s=2.0, label="once", setup=EXACT), samples_s=(2.0,), spread=None)
    save_run(run_of(noisy, quiet, once), tmp_path)
    data = accuracy([tmp_path])
    assert data["gpu_bound"]["makespan_error"]["max"] == pytest.approx(0.5)
    assert data["quiet"]["gpu_bound"]["runs"] == 1
    assert data["quiet"]["gpu_bound"]["makespan_error"]["max"] == pytest.approx(0.0)
    assert data["quiet"]["host_bound"]["runs"] == 0


def test_measured_makespans_are_counted_inside_the_intervals(tmp_path):
    """A chain of 3 s on a GPU, known within some per cent: measured as predicted, and 50 % off."""
    inside, outside = (case_of(chain(3), measured_s=s, label=str(s), setup=EXACT) for s in (3.0, 2.0))
    save_run(run_of(inside, outside), tmp_path)
    data = accuracy([tmp_path])
    assert data["interval"] == data["gpu_bound"]["interval"] == {"runs": 2, "inside": 1, "share": 0.5}
    assert data["sm_sharing"]["interval"]["share"] is None
    low_s, high_s = data["cases"][0]["interval_s"]
    assert low_s < 3.0 < high_s


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


def test_a_chain_of_short_tasks_is_bound_by_dispatch(tmp_path):
    """Three tasks of 1 ms, whose launches take the thread 1 s each."""
    slow = replace(EXACT, platform=replace(EXACT.platform, dispatch=replace(FREE, run_s=1.0)))
    save_run(run_of(case_of(chain(3, seconds=1e-3), measured_s=4.0, setup=slow)), tmp_path)
    data = accuracy([tmp_path])
    assert data["host_bound"]["runs"] == 1
    assert data["host_bound"]["makespan_error"]["max"] == pytest.approx(1 - 3.001 / 4)


# -- large errors ----------------------------------------------------------------------------------


def test_gpu_bound_cases_over_5_percent_are_listed_largest_first(tmp_path):
    """3 s predicted; a case bound by the host, and one within 5 %, are not listed."""
    cases = [case_of(chain(3), measured_s=s, label=f"{s} s", setup=EXACT) for s in (2.9, 2.5, 4.0)]
    noisy = case_of(chain(3), measured_s=2.8, label="noisy", spread=0.03, setup=EXACT)
    host = case_of(two(), measured_s=4.0, label="cpu", setup=WORKERS)
    save_run(run_of(*cases, noisy, host), tmp_path)
    large = accuracy([tmp_path])["large_errors"]
    assert [(c["label"], c["noisy"]) for c in large["cases"]] == [
        ("4.0 s", False),
        ("2.5 s", False),
        ("noisy", True),
    ]
    assert large["without_cause"] == 3


def test_written_causes_stand_beside_their_cases(tmp_path):
    cases = [case_of(chain(3), measured_s=s, label=f"{s} s", setup=EXACT) for s in (2.5, 4.0)]
    save_run(run_of(*cases), tmp_path / "runs" / "bench")
    (tmp_path / "runs" / "causes.toml").write_text('[[cause]]\nlabel = "2.5 *"\ncause = "a slow clock"\n')
    for folder in ("runs", "runs/bench", "runs/bench/exp.json"):
        large = accuracy([tmp_path / folder])["large_errors"]
        assert [case["cause"] for case in large["cases"]] == [None, "a slow clock"]
        assert large["without_cause"] == 1


# -- switches --------------------------------------------------------------------------------------


def test_each_switch_of_the_model_has_a_row(tmp_path):
    save_run(run_of(case_of(chain(3), setup=EXACT)), tmp_path)
    rows = ablation(check_runs([tmp_path]))
    assert [row["off"] for row in rows] == [None, *Model.__dataclass_fields__]
    assert all(row["gpu_bound"]["runs"] == 1 for row in rows)


def test_what_a_switch_is_worth_is_told_in_the_group_of_the_whole_model(tmp_path):
    """A case bound by dispatch stays so where dispatch is off; one that shares a GPU where sharing is off."""
    slow = replace(EXACT, platform=replace(EXACT.platform, dispatch=replace(FREE, run_s=1.0)))
    host = case_of(chain(3, seconds=1e-3), measured_s=3.001, label="host", setup=slow)
    shared = case_of(two(), measured_s=2.0, label="shared", scheduler="round_robin", lanes=2, setup=EXACT)
    save_run(run_of(host, shared), tmp_path)
    rows = {row["off"]: row for row in ablation(check_runs([tmp_path]))}
    worst = {off: [row[g]["makespan_error"]["max"] for g in ("host_bound", "sm_sharing")] for off, row in rows.items()}
    assert worst[None] == pytest.approx([0.0, 0.0])
    assert worst["dispatch"] == pytest.approx([1 - 0.003 / 3.001, 0.0])
    assert worst["sharing"] == pytest.approx([0.0, 0.5])
    assert all(row["gpu_bound"]["runs"] == 0 for row in rows.values())


def test_switches_that_are_off_anyway_have_no_row(tmp_path):
    save_run(run_of(case_of(chain(3), setup=EXACT)), tmp_path)
    model = Model(dispatch=False)
    rows = ablation(check_runs([tmp_path], model), model=model)
    assert "dispatch" not in [row["off"] for row in rows]


def test_processes_say_the_same_as_one(tmp_path):
    """Three tasks in two files: cases in the order of the files, a row a switch, and errors as from this process."""
    for name, measured_s in (("a", 3.5), ("b", 2.9)):
        save_run(run_of(case_of(chain(3), measured_s=measured_s, label=name, setup=EXACT)), tmp_path / name)
    alone, spread = check_runs([tmp_path]), check_runs([tmp_path], processes=2)
    assert [entry.figures() for entry in spread] == [entry.figures() for entry in alone]
    assert ablation(spread, processes=2) == ablation(alone)
    off = ablation(spread, model=Model(dispatch=False), processes=2)
    assert "dispatch" not in [row["off"] for row in off]


def test_a_wrong_file_is_named_by_a_process_too(tmp_path):
    save_run(run_of(case_of(chain(3), setup=EXACT)), tmp_path / "right")
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong" / "exp.json").write_text("{}")
    with pytest.raises(FileFormatError, match=r"exp\.json"):
        check_runs([tmp_path / "right", tmp_path / "wrong" / "exp.json"], processes=2)


def test_wrong_order_and_best_show_with_the_switch_that_is_to_blame(tmp_path):
    """Two tasks on one GPU: in one lane 2 s; side by side too, but 1 s where sharing is off."""
    one = case_of(two(), measured_s=2.0, label="one lane", setup=EXACT)
    lanes = case_of(two(), measured_s=2.1, label="two", scheduler="round_robin", lanes=2, setup=EXACT)
    save_run(run_of(one, lanes), tmp_path)
    rows = {row["off"]: row for row in ablation(check_runs([tmp_path]))}
    assert rows["sharing"]["concordant"] == 0.0
    assert rows["sharing"]["regret"]["beyond_noise"] == pytest.approx(0.05)
    assert rows[None]["regret"]["beyond_noise"] == 0.0

"""Recorded runs: what was predicted and measured, in files that can be predicted again anywhere."""

from graphsched.records.accuracy import ablation, accuracy, accuracy_of
from graphsched.records.causes import find_causes
from graphsched.records.checked import check_runs
from graphsched.records.making import record_baseline, record_case
from graphsched.records.model import CaseRecord, RunRecord, Setup, error_of
from graphsched.records.store import find_runs, load_run, run_file, save_run

__all__ = [
    "CaseRecord",
    "RunRecord",
    "Setup",
    "ablation",
    "accuracy",
    "accuracy_of",
    "check_runs",
    "error_of",
    "find_causes",
    "find_runs",
    "load_run",
    "record_baseline",
    "record_case",
    "run_file",
    "save_run",
]

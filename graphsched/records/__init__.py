"""Recorded runs: what was predicted and measured, in files that can be predicted again anywhere."""

from graphsched.records.accuracy import accuracy
from graphsched.records.making import record_baseline, record_case
from graphsched.records.model import CaseRecord, RunRecord, Setup, error_of
from graphsched.records.store import find_runs, load_run, run_file, save_run

__all__ = [
    "CaseRecord",
    "RunRecord",
    "Setup",
    "accuracy",
    "error_of",
    "find_runs",
    "load_run",
    "record_baseline",
    "record_case",
    "run_file",
    "save_run",
]

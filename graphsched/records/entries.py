"""Entries of a recorded run's file, checked for their types before anything is made of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphsched.errors import FileFormatError
from graphsched.platform.checks import LONGEST_S
from graphsched.timeline import HALVES

FIGURES = ("predicted_s", "measured_s", "spread", "reported_s")
LENGTHS = ("measured_s", "timed_makespan_s")  # what errors of a case with spans are shares of
MEASURED = ("timed_makespan_s", "clock_uncertainty_s", "call_s", "product_s", "sweep_s", "fetch_s", "pinned_s")


def check_run(data: Mapping[str, Any]) -> None:
    """Make sure that a run's name and source are text, and that it and its earlier parts were set up with objects.

    Raises:
        TypeError: One is not.
        KeyError: One is missing.
    """
    for key in ("experiment", "source"):
        _check_text(key, data[key])
    for part in (data, *data["earlier"]):
        for key in ("environment", "parameters"):
            _check_object(key, part[key])
        if isinstance(part["seed"], bool) or not isinstance(part["seed"], int):
            raise TypeError(f"'seed' is {part['seed']!r}, a whole number is needed")


def check_case(entry: Mapping[str, Any]) -> None:
    """Make sure that a case's names are text, its times finite and not negative, its options and metrics objects.

    Raises:
        TypeError: One is not.
        KeyError: One is missing.
        FileFormatError: There are spans of a run that took no time, which no error is a share of.

    Example:
        >>> check_case({"label": 5})
        Traceback (most recent call last):
        ...
        TypeError: 'label' is 5, text is needed
    """
    for key in ("label", "mode"):
        _check_text(key, entry[key])
    if entry["scheduler"] is not None:
        _check_text("scheduler", entry["scheduler"])
    for key in FIGURES:
        _check_figure(key, entry[key])
    for key in ("options", "metrics"):
        _check_object(key, entry[key])
    for key in ("estimated", *(name for name in ("notes",) if name in entry)):
        _check_texts(key, entry[key])
    for sample in entry["samples_s"]:
        _check_time("samples_s", sample)
    for key in (name for name in MEASURED if name in entry):
        _check_time(key, entry[key])
    if "spans" in entry and entry["measured_s"] is None:
        raise TypeError("'measured_s' is null, though there are spans")
    for key in (name for name in LENGTHS if "spans" in entry and entry.get(name) == 0):
        raise FileFormatError(
            f"case {entry['label']!r} ({entry['mode']}) has spans, but {key!r} is 0: a time above 0 is needed; "
            "run the experiment again"
        )


def check_plan(workload: Any, plan: Any, spans: Mapping[str, NDArray[np.float64]]) -> None:
    """Make sure that what a case refers to is a workload's object, a plan's text, and times.

    Raises:
        TypeError: One is not.
        ValueError: A time is longer than any run's.
    """
    if not isinstance(workload, Mapping):
        raise TypeError(f"a workload is {type(workload).__name__}, an object is needed")
    if not isinstance(plan, str):
        raise TypeError(f"a plan is {type(plan).__name__}, text is needed")
    for name, column in spans.items():
        if name == HALVES and (column.ndim != 2 or column.shape[1] != 4):
            raise TypeError(f"the spans' {name} are no list of an action, a rank and two times each")
        if name != HALVES and column.ndim != 1:
            raise TypeError(f"the spans' {name} are no list of numbers")
        if not np.isfinite(column).all():
            raise TypeError(f"the spans' {name} hold what is no finite number")
        if (np.abs(column) > LONGEST_S).any():
            raise ValueError(f"the spans' {name} hold {np.abs(column).max():g} s: at most {LONGEST_S:g} s are needed")


def _check_text(key: str, value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{key!r} is {value!r}, text is needed")


def _check_texts(key: str, values: Any) -> None:
    if not isinstance(values, Sequence) or isinstance(values, str) or not all(isinstance(v, str) for v in values):
        raise TypeError(f"{key!r} is {values!r}, a list of texts is needed")


def _check_object(key: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"{key!r} is {value!r}, an object is needed")


def _check_figure(key: str, value: Any) -> None:
    """As `_check_time`, or null."""
    if value is not None:
        _check_time(key, value)


def _check_time(key: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TypeError(f"{key!r} is {value!r}, a finite number is needed")
    if value < 0:
        raise ValueError(f"{key!r} is {value!r}, at least 0 is needed")

"""Entries of a recorded run's file, checked for their types before anything is made of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

FIGURES = ("predicted_s", "measured_s", "spread", "reported_s")
MEASURED = ("timed_makespan_s", "clock_uncertainty_s", "call_s", "product_s")


def check_run(data: Mapping[str, Any]) -> None:
    """Make sure that a run's name and source are text.

    Raises:
        TypeError: One is not.
        KeyError: One is missing.
    """
    for key in ("experiment", "source"):
        _check_text(key, data[key])


def check_case(entry: Mapping[str, Any]) -> None:
    """Make sure that a case's names are text, its figures finite numbers, its options and metrics objects.

    Raises:
        TypeError: One is not.
        KeyError: One is missing.

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
    for key in (*FIGURES, *(name for name in MEASURED if name in entry)):
        _check_figure(key, entry[key])
    if "spans" in entry and entry["measured_s"] is None:
        raise TypeError("'measured_s' is null, though there are spans")
    for sample in entry["samples_s"]:
        _check_figure("samples_s", sample)
    for key in ("options", "metrics"):
        if not isinstance(entry[key], Mapping):
            raise TypeError(f"{key!r} is {entry[key]!r}, an object is needed")


def check_plan(workload: Any, plan: Any, spans: Mapping[str, NDArray[np.float64]]) -> None:
    """Make sure that what a case refers to is a workload's object, a plan's text, and times.

    Raises:
        TypeError: One is not.
    """
    if not isinstance(workload, Mapping):
        raise TypeError(f"a workload is {type(workload).__name__}, an object is needed")
    if not isinstance(plan, str):
        raise TypeError(f"a plan is {type(plan).__name__}, text is needed")
    for name, column in spans.items():
        if not np.isfinite(column).all():
            raise TypeError(f"the spans' {name} hold what is no finite number")


def _check_text(key: str, value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{key!r} is {value!r}, text is needed")


def _check_figure(key: str, value: Any) -> None:
    """A finite number, or null."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TypeError(f"{key!r} is {value!r}, a finite number is needed")

"""Points of a sweep: predicted in many processes, each kept in a file of its own as soon as it is finished."""

from __future__ import annotations

import contextlib
import functools
import json
import sys
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any

from graphsched.cases import Case
from graphsched.cli.output import say
from graphsched.cli.planning import make_plan
from graphsched.cli.request import collect_cases, platform_to_predict
from graphsched.cli.sweep_grid import Point
from graphsched.costs import Costs
from graphsched.errors import EstimateWarning, ExecutionError, FileFormatError, OutputError, error_text
from graphsched.files import read_json, write_text
from graphsched.platform import Platform
from graphsched.processes import spread

Row = dict[str, Any]

_COLUMNS = ("case", "scheduler", "mode", "predicted_s", "lower_bound_s", "reported_s", "estimated", "error")


def kept_rows(folder: Path, point: Point) -> list[Row] | None:
    """The rows of a point that an earlier sweep finished; None: it is to be computed."""
    path = _file(folder, point)
    if not path.is_file():
        return None
    try:
        rows = read_json(path)["rows"]
    except (FileFormatError, KeyError, TypeError):
        return None
    return rows if isinstance(rows, list) and all(map(_is_ours, rows)) else None  # else changed by hand


def compute(points: Sequence[Point], folder: Path, processes: int) -> Iterator[tuple[Point, list[Row]]]:
    """The rows of each point, as they are finished; those without errors are kept in `folder`.

    Where a process dies the points that are left have one each, one after the other: so one of them is found, and
    there is more memory for the rest.
    """
    if processes == 1 or len(points) <= 1:
        yield from ((point, compute_point(point, folder)) for point in points)
        return
    left = dict.fromkeys(points)
    try:
        for point, rows in _in_processes(points, folder, processes):
            del left[point]
            yield point, rows
    except BrokenProcessPool:
        for point in left:
            yield point, _alone(point, folder)


def _alone(point: Point, folder: Path) -> list[Row]:
    """The rows of a point from a process of its own, which may die."""
    try:
        ((_, rows),) = _in_processes([point], folder, 1)
    except BrokenProcessPool:
        return [_failed(None, ExecutionError("its process died (out of memory?)"))]
    return rows


def _in_processes(points: Sequence[Point], folder: Path, processes: int) -> Iterator[tuple[Point, list[Row]]]:
    """The rows of each point, as they are finished.

    Raises:
        BrokenProcessPool: A process died.
    """
    return spread(functools.partial(compute_point, folder=folder), points, processes, _say_no_estimates)


def _say_no_estimates() -> None:
    """Points say themselves what of them is estimated."""
    warnings.simplefilter("ignore", EstimateWarning)


def compute_point(point: Point, folder: Path) -> list[Row]:
    """Predict the cases of a point; what fails is a row with an error."""
    try:
        rows = [_row(case, *_platform(point.platform), point.time_limit_s) for case in _cases(point)]
    except Exception as error:
        rows = [_failed(None, error)]
    if not any(row["error"] for row in rows):
        _keep(rows, folder, point)
    return rows


# -- inside ----------------------------------------------------------------------------------


def _is_ours(row: Any) -> bool:
    """Whether a kept row may be one that was predicted without an error."""
    return (
        isinstance(row, dict)
        and row.keys() == set(_COLUMNS)
        and all(_is_text(row[key]) for key in ("case", "scheduler", "mode"))
        and all(_is_time(row[key]) for key in ("predicted_s", "lower_bound_s"))
        and (row["reported_s"] is None or _is_time(row["reported_s"]))
        and isinstance(row["estimated"], bool)
        and row["error"] is None
    )


def _is_text(value: Any) -> bool:
    """Whether it is a text that can be written again: JSON may hold halves of characters."""
    return isinstance(value, str) and value == value.encode(errors="replace").decode()


def _is_time(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and 0.0 <= value <= sys.float_info.max


def _keep(rows: Sequence[Row], folder: Path, point: Point) -> None:
    """Write the rows of a point; where that fails it is computed again next time."""
    try:
        write_text(_file(folder, point), json.dumps({"point": point.label, "rows": rows}, ensure_ascii=False))
    except OutputError as error:
        say(f"not kept: {point.label}: {error}")


def _file(folder: Path, point: Point) -> Path:
    return folder / f"{point.key}.json"


@functools.lru_cache(maxsize=8)
def _platform(name: str | None) -> tuple[Platform, Costs]:
    return platform_to_predict(name)


def _cases(point: Point) -> list[Case]:
    """The cases that have a prediction, with the scheduler asked for."""
    from graphsched.cases import find

    with contextlib.redirect_stdout(sys.stderr):
        found = find(point.experiment)
        numbered = collect_cases(found, point.values, _platform(point.platform)[0], mode=point.mode, only=None)
    cases = [case for _, case in numbered if not case.is_baseline]
    if point.scheduler is None:
        return cases
    asked = point.scheduler
    return [replace(case, scheduler=asked.name, options=dict(asked.options)) for case in cases]


def _row(case: Case, platform: Platform, costs: Costs, time_limit_s: float) -> Row:
    from graphsched.schedulers.bounds import bound_of
    from graphsched.simulator import predict

    try:
        plan = make_plan(case, platform, costs, time_limit_s)
        line = predict(plan)
    except Exception as error:
        return _failed(case, error)
    return {
        "case": case.label,
        "scheduler": plan.scheduler,
        "mode": plan.mode,
        "predicted_s": line.makespan_s,
        "lower_bound_s": bound_of(plan),
        "reported_s": case.reported_s,
        "estimated": bool(line.estimated),
        "error": None,
    }


def _failed(case: Case | None, error: Exception) -> Row:
    return {
        "case": None if case is None else case.label,
        "scheduler": None if case is None else case.scheduler,
        "mode": None if case is None else case.mode,
        "predicted_s": None,
        "lower_bound_s": None,
        "reported_s": None if case is None else case.reported_s,
        "estimated": None,
        "error": error_text(error),
    }

"""How good predictions are: recorded runs simulated again and held against what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphsched.processes import spread
from graphsched.records.causes import Cause, cause_of, find_causes
from graphsched.records.checked import GROUPS, Checked, bare, check_again, check_runs
from graphsched.records.concordance import concordance
from graphsched.records.goals import coverage, goal_rows
from graphsched.records.steps import step_errors
from graphsched.records.summaries import cases_by, errors_by, errors_of, intervals_of, regret_of

if TYPE_CHECKING:
    from graphsched.simulator import Model

LARGE_ERROR = 0.05  # of a GPU-bound case; it needs a written cause
_HELD: list[Any] = []  # in a process of its own: the cases that its rows are of, and the whole model


def accuracy(folders: Iterable[str | Path], *, model: Model | None = None) -> dict[str, Any]:
    """Errors of all recorded runs in `folders`, simulated again with this version (and `model`'s switches).

    Returns:
        As `accuracy_of`.

    Raises:
        FileFormatError: A file is no recorded run, or no list of causes, or there is none.
    """
    named = list(folders)
    return accuracy_of(check_runs(named, model), find_causes(named))


def accuracy_of(checked: Sequence[Checked], causes: Sequence[Cause] = ()) -> dict[str, Any]:
    """Errors of cases that were simulated again.

    Returns:
        ``runs`` (compared cases); ``makespan_error``, ``task_start_error`` and ``task_end_error`` (median, p95
        and max of absolute fractions) of cases bound by GPUs whose kernels run alone on their device; all
        their figures under ``gpu_bound``, the same under ``sm_sharing`` for those that share one, and under
        ``host_bound`` for the rest; ``concordant``: the share of pairs of schedules that come out in the measured
        order; ``interval``: how many were measured inside the 90 % interval of their prediction; ``regret``: how
        much slower the schedules predicted to be best are than the best; ``large_errors``: GPU-bound cases over
        5 %, with the cause that was written down; the errors ``by_experiment``, ``by_scheduler`` and ``by_mode``;
        all ``cases``; ``steps`` among many, as `step_errors`; ``goals``, and whether they are reached; and
        ``goals_by_mode``, the same goals held against the cases of each mode alone. Figures without a case are None.
    """
    data = _judged(checked, causes)
    return data | {
        "by_experiment": errors_by(checked, lambda c: c.experiment),
        "by_scheduler": errors_by(checked, lambda c: c.case.scheduler or ""),
        "by_mode": errors_by(checked, _mode),
        "cases": [c.figures() for c in checked],
        "steps": step_errors(checked),
        "goals": goal_rows(data),
        "goals_by_mode": {mode: goal_rows(_judged(cases, causes)) for mode, cases in cases_by(checked, _mode).items()},
    }


def _mode(entry: Checked) -> str:
    return entry.case.mode


def _judged(checked: Sequence[Checked], causes: Sequence[Cause]) -> dict[str, Any]:
    """The figures that goals look at."""
    groups = _groups(checked)
    alone = groups.pop("makespan")
    return {
        "runs": len(checked),
        "makespan_error": alone["makespan_error"],
        "task_start_error": alone["task_start_error"],
        "task_end_error": alone["task_end_error"],
        "gpu_bound": alone,
        **groups,
        "quiet": quiet_groups(checked),
        "concordant": concordance(checked),
        "interval": intervals_of(checked),
        "regret": regret_of(checked),
        "large_errors": large_errors(checked, causes),
        "coverage": coverage(checked),
    }


def _groups(checked: Sequence[Checked]) -> dict[str, Any]:
    return {group: errors_of([c for c in checked if c.group == group]) for group in GROUPS}


def quiet_groups(checked: Sequence[Checked]) -> dict[str, Any]:
    """The groups' errors of cases whose repeats agree within 2 %: what the model is off by where it can be told.

    Of fewer than four repeats it is not known whether they agree.
    """
    groups = _groups([c for c in checked if c.case.spread is not None and not c.noisy])
    return {"gpu_bound": groups.pop("makespan"), **groups}


def large_errors(checked: Sequence[Checked], causes: Sequence[Cause]) -> dict[str, Any]:
    """GPU-bound cases whose makespan is off by more than 5 %, largest first, each with its written cause or None.

    ``without_cause`` counts those that have none.
    """
    large = [c.figures() for c in checked if c.group == GROUPS[0] and abs(c.makespan_error) > LARGE_ERROR]
    rows = [row | {"cause": cause_of(row, causes)} for row in sorted(large, key=lambda row: -abs(row["error"]))]
    return {"without_cause": sum(row["cause"] is None for row in rows), "cases": rows}


def ablation(checked: Sequence[Checked], *, model: Model | None = None, processes: int = 1) -> list[dict[str, Any]]:
    """The same figures with each term of the model switched off in turn, so that what each is worth shows.

    Args:
        checked: Cases simulated with `model`; each stays in the group that this put it into.
        model: The switches to start from (default: everything on).
        processes: In how many the rows are simulated; with 1 in this one.

    Returns:
        One row a switch, after one with ``off`` None: the errors of each group, ``concordant`` and ``regret``.
    """
    from graphsched.simulator import Model

    whole = model or Model()
    switches = [f.name for f in fields(whole) if getattr(whole, f.name) is True]
    if processes == 1:
        rows = {name: _row_without(name, checked, whole) for name in switches}
    else:
        rows = dict(spread(_held_row_without, switches, processes, _hold, (bare(checked), whole)))
    return [_row(None, checked), *(rows[name] for name in switches)]


def _row_without(off: str, checked: Sequence[Checked], whole: Model) -> dict[str, Any]:
    return _row(off, check_again(checked, replace(whole, **{off: False})))


def _hold(checked: Sequence[Checked], whole: Model) -> None:
    """Before a process of its own simulates its first row."""
    _HELD[:] = checked, whole


def _held_row_without(off: str) -> dict[str, Any]:
    checked, whole = _HELD
    return _row_without(off, checked, whole)


def _row(off: str | None, checked: Sequence[Checked]) -> dict[str, Any]:
    groups = _groups(checked)
    return {
        "off": off,
        "gpu_bound": groups.pop("makespan"),
        **groups,
        "quiet": quiet_groups(checked),
        "concordant": concordance(checked),
        "regret": regret_of(checked),
    }

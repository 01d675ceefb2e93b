"""How good predictions are: recorded runs simulated again and held against what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from graphsched.errors import FileFormatError, GraphschedError
from graphsched.records.model import CaseRecord, RunRecord
from graphsched.records.store import find_runs, load_run

if TYPE_CHECKING:
    from graphsched.simulator import Model

SMALLEST_DIFFERENCE = 0.01  # two schedules nearer than this have no order worth predicting


@dataclass(frozen=True, eq=False)
class Checked:
    """A recorded case, simulated again.

    Attributes:
        experiment, case: What was run.
        predicted_s: Its makespan, simulated now.
        makespan_error: Signed fraction, predicted / measured - 1.
        end_errors: Absolute errors of the ends of all actions, as shares of the timed makespan.
        group: ``makespan`` (bound by GPUs, kernels alone on their device), ``sm_sharing`` or ``host_bound``.
    """

    experiment: str
    case: CaseRecord
    predicted_s: float
    makespan_error: float
    end_errors: NDArray[np.float64]
    group: str

    def figures(self) -> dict[str, Any]:
        """The case and its error, for JSON."""
        case = self.case
        return {
            "experiment": self.experiment,
            "platform": case.setup.platform.name,
            "label": case.label,
            "scheduler": case.scheduler,
            "mode": case.mode,
            "group": self.group,
            "predicted_s": self.predicted_s,
            "measured_s": case.measured_s,
            "error": self.makespan_error,
            "spread": case.spread,
        }


def accuracy(folders: Iterable[str | Path], *, model: Model | None = None) -> dict[str, Any]:
    """Errors of all recorded runs in `folders`, simulated again with this version (and `model`'s switches).

    Returns:
        ``runs`` (compared cases); ``makespan_error`` and ``task_end_error`` (median, p95 and max of absolute
        fractions) of cases bound by GPUs whose kernels run alone on their device; the same under
        ``sm_sharing`` for those that share one, and under ``host_bound`` for the rest; ``concordant``: the
        share of pairs of schedules that come out in the measured order; the errors ``by_experiment``,
        ``by_scheduler`` and ``by_mode``; and all ``cases``. Figures without a case are None.

    Raises:
        FileFormatError: A file is no recorded run, or there is none.
    """
    checked = [entry for path in find_runs(folders) for entry in _check_run(path, model)]
    groups = {name: [c for c in checked if c.group == name] for name in ("makespan", "sm_sharing", "host_bound")}
    alone = _errors(groups["makespan"])
    return {
        "runs": len(checked),
        "makespan_error": alone["makespan_error"],
        "task_end_error": alone["task_end_error"],
        "gpu_bound": {"runs": alone["runs"]},
        "sm_sharing": _errors(groups["sm_sharing"]),
        "host_bound": _errors(groups["host_bound"]),
        "concordant": concordance(checked),
        "by_experiment": _by(checked, lambda c: c.experiment),
        "by_scheduler": _by(checked, lambda c: c.case.scheduler or ""),
        "by_mode": _by(checked, lambda c: c.case.mode),
        "cases": [c.figures() for c in checked],
    }


def _check_run(path: Path, model: Model | None) -> list[Checked]:
    run = load_run(path)
    try:
        return _check_cases(run, model)
    except GraphschedError as error:
        raise FileFormatError(f"{path}: {error}: run the experiment again") from error


def _check_cases(run: RunRecord, model: Model | None) -> list[Checked]:
    return [_check(run.experiment, case, model) for case in run.cases if case.workload is not None]


def _check(experiment: str, case: CaseRecord, model: Model | None) -> Checked:
    from graphsched.comparison import compare

    comparison = compare(case.repredict(model), case.measured)
    if comparison.bound == "host":
        group = "host_bound"
    else:
        group = "sm_sharing" if comparison.shares_device else "makespan"
    return Checked(
        experiment,
        case,
        comparison.predicted.makespan_s,
        comparison.makespan_error,
        np.abs(comparison.end_errors),
        group,
    )


def _errors(checked: Sequence[Checked]) -> dict[str, Any]:
    ends = np.concatenate([c.end_errors for c in checked]) if checked else np.empty(0)
    return {
        "runs": len(checked),
        "makespan_error": summary([abs(c.makespan_error) for c in checked]),
        "task_end_error": summary(ends),
    }


def summary(errors: Sequence[float] | NDArray[np.float64]) -> dict[str, float | None]:
    """Median, 95th percentile and maximum; None for no errors.

    Example:
        >>> summary([0.01, 0.03, 0.02])["median"]
        0.02
    """
    if not len(errors):
        return {"median": None, "p95": None, "max": None}
    median, p95, largest = (float(x) for x in np.percentile(errors, (50, 95, 100)))
    return {"median": median, "p95": p95, "max": largest}


def _by(checked: Sequence[Checked], key: Callable[[Checked], str]) -> dict[str, Any]:
    return {name: _errors([c for c in checked if key(c) == name]) for name in sorted({key(c) for c in checked})}


def concordance(checked: Sequence[Checked]) -> float | None:
    """Share of pairs of schedules of one workload, platform and mode that are predicted in the measured order.

    Only pairs count whose measured times differ by more than 1 % and by more than twice the larger
    spread. None where there is no such pair.
    """
    places: dict[tuple[str, str, str], list[Checked]] = {}
    for entry in checked:
        case = entry.case
        places.setdefault((case.plan.work.digest(), case.setup.platform.digest(), case.mode), []).append(entry)
    right = [
        (a.predicted_s < b.predicted_s) == (_measured(a) < _measured(b))
        for group in places.values()
        for a, b in combinations(group, 2)
        if _differ(a, b)
    ]
    return sum(right) / len(right) if right else None


def _differ(a: Checked, b: Checked) -> bool:
    least = max(SMALLEST_DIFFERENCE, 2 * max(a.case.spread or 0.0, b.case.spread or 0.0))
    low, high = sorted((_measured(a), _measured(b)))
    return high - low > least * low


def _measured(entry: Checked) -> float:
    return entry.case.measured_s or 0.0

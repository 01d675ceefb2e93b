"""Recorded cases simulated again: their errors, and the group that they are reported in."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from graphsched.errors import FileFormatError, GraphschedError
from graphsched.processes import spread
from graphsched.records.model import CaseRecord
from graphsched.records.store import find_runs, load_run
from graphsched.timeline import Timeline

if TYPE_CHECKING:
    from graphsched.comparison import Comparison
    from graphsched.simulator import Model

Errors = NDArray[np.float64]

GROUPS = ("makespan", "sm_sharing", "host_bound")


@dataclass(frozen=True, eq=False)
class Checked:
    """A recorded case, simulated again.

    Attributes:
        experiment, case: What was run.
        place: Digests of workload and platform, and mode: schedules of one place can be held against each other.
        predicted_s: Its makespan, simulated now.
        makespan_error: Signed fraction, predicted / measured - 1.
        start_errors, end_errors: Absolute errors of all actions, as shares of the timed makespan.
        lane_end_errors: Absolute errors of the end of each compute lane of an accelerator, as fractions of it.
        group: One of `GROUPS`: ``makespan`` (bound by GPUs, kernels alone on their device), ``sm_sharing`` or
            ``host_bound``.
        interval_s: Between which bounds the makespan was expected nine times in ten; None: not asked for.
    """

    experiment: str
    case: CaseRecord
    place: tuple[str, str, str]
    predicted_s: float
    makespan_error: float
    start_errors: Errors
    end_errors: Errors
    lane_end_errors: Errors
    group: str
    interval_s: tuple[float, float] | None = None

    @property
    def measured_s(self) -> float:
        """The measured makespan."""
        return self.case.measured_s or 0.0

    @property
    def noisy(self) -> bool:
        """Whether the measured makespans scatter too much to show an error of one per cent."""
        from graphsched.comparison import noisy

        return noisy(self.case.spread)

    @property
    def inside(self) -> bool | None:
        """Whether the measured makespan lies in the interval; None without one."""
        if self.interval_s is None:
            return None
        low_s, high_s = self.interval_s
        return low_s <= self.measured_s <= high_s

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
            "noisy": self.noisy,
            "interval_s": None if self.interval_s is None else list(self.interval_s),
        }


def check_runs(
    folders: Iterable[str | Path],
    model: Model | None = None,
    *,
    modes: Collection[str] | None = None,
    processes: int = 1,
) -> list[Checked]:
    """All cases with a prediction of the recorded runs in `folders`, simulated again; only those of `modes`, if given.

    In so many `processes`, or in this one.

    Raises:
        FileFormatError: A file is no recorded run, or there is no such file or folder.
    """
    paths = find_runs(folders)
    if processes == 1 or len(paths) == 1:
        return [entry for path in paths for entry in _check_run(path, model, modes)]
    large_first = sorted(paths, key=lambda path: -path.stat().st_size)
    found = dict(spread(partial(_bare_run, model=model, modes=modes), large_first, processes))
    return [entry for path in paths for entry in found[path]]


def bare(entries: Sequence[Checked]) -> list[Checked]:
    """`entries` without what their cases have kept of their predictions, for another process."""
    return [replace(entry, case=replace(entry.case)) for entry in entries]


def _bare_run(path: Path, model: Model | None, modes: Collection[str] | None) -> list[Checked]:
    return bare(_check_run(path, model, modes))


def _check_run(path: Path, model: Model | None, modes: Collection[str] | None) -> list[Checked]:
    run = load_run(path)
    planned = [case for case in run.cases if case.workload is not None and (modes is None or case.mode in modes)]
    try:
        return [check_case(run.experiment, case, model) for case in planned]
    except GraphschedError as error:
        raise FileFormatError(f"{path}: {error}: run the experiment again") from error


def check_case(experiment: str, case: CaseRecord, model: Model | None = None) -> Checked:
    """One case with a prediction, simulated again with `model`'s switches, and its interval."""
    place = (case.work.digest(), case.setup.platform.digest(), case.mode)
    comparison = _compared(case, model)
    return replace(_checked(experiment, case, place, comparison), interval_s=comparison.predicted.interval_s)


def check_again(entries: Sequence[Checked], model: Model) -> list[Checked]:
    """The same cases with other switches, without intervals; each stays in its group."""
    return [replace(_checked(e.experiment, e.case, e.place, _compared(e.case, model)), group=e.group) for e in entries]


def _compared(case: CaseRecord, model: Model | None) -> Comparison:
    from graphsched.comparison import compare

    return compare(case.repredict(model), case.measured)


def _checked(experiment: str, case: CaseRecord, place: tuple[str, str, str], comparison: Comparison) -> Checked:
    return Checked(
        experiment,
        case,
        place,
        comparison.predicted.makespan_s,
        comparison.makespan_error,
        np.abs(comparison.start_errors),
        np.abs(comparison.end_errors),
        lane_end_errors(comparison.predicted, comparison.measured),
        _group(comparison),
    )


def _group(comparison: Comparison) -> str:
    if comparison.bound == "host":
        return "host_bound"
    return "sm_sharing" if comparison.shares_device else "makespan"


def lane_end_errors(predicted: Timeline, measured: Timeline) -> Errors:
    """Absolute errors of the end of each compute lane of an accelerator, as fractions of the measured end."""
    from graphsched.comparison.span_ends import span_ends_s

    plan = measured.plan
    last: dict[int, int] = {}
    for i, lane in enumerate(plan.lane_of):
        last[lane] = i
    accelerators = set(plan.platform.accelerators())
    ends = [
        i for lane, i in last.items() if plan.lanes[lane].kind == "compute" and plan.lanes[lane].device in accelerators
    ]
    there = [i for i in ends if measured.end_s[i] > 0]
    return np.abs(span_ends_s(predicted)[there] / measured.end_s[there] - 1)

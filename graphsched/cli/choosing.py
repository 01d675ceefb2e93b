"""Which cases of a recorded run a command is about."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from graphsched.errors import ExperimentError

if TYPE_CHECKING:
    from graphsched.records import CaseRecord, RunRecord


def planned_cases(record: RunRecord, only: str | None, run: Path) -> list[tuple[int, CaseRecord]]:
    """The cases that have a plan, and whose label holds `only`, if given; with their numbers in the file, from 1.

    Raises:
        ExperimentError: None is left; the labels of those with a plan are listed.
    """
    planned = [(number, case) for number, case in enumerate(record.cases, 1) if case.workload is not None]
    if not planned:
        raise ExperimentError(f"{run} has no case with a plan, of {len(record.cases)}: run the experiment first")
    chosen = [(number, case) for number, case in planned if only is None or only in case.label]
    if not chosen:
        labels = "".join(f"\n  {case.label}" for _, case in planned)
        raise ExperimentError(f"{run} has no case with a plan whose label holds {only!r}; there are:{labels}")
    return chosen

"""Which cases of a recorded run a command is about."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graphsched.errors import ExperimentError

if TYPE_CHECKING:
    from graphsched.records import CaseRecord, RunRecord
    from graphsched.records.checked import Checked

LARGE_BYTES = 2**22  # of recorded runs: less is simulated sooner than processes have started


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
        labels = "".join(f"\n  {label}" for label in dict.fromkeys(case.label for _, case in planned))
        raise ExperimentError(f"{run} has no case with a plan whose label holds {only!r}; there are:{labels}")
    return chosen


def checked_cases(folders: Sequence[Path], mode: str | None, processes: int | None = 1) -> list[Checked]:
    """The cases with a prediction in `folders`, simulated again; only those of the modes in `mode`, if given.

    In so many `processes`; None: see `processes_for`.

    Raises:
        ExperimentError: There is no such mode, or no case is left; the modes of those with a prediction are listed.
        FileFormatError: A file is no recorded run, or there is no such file or folder.
    """
    from graphsched.cli.request import read_modes
    from graphsched.records import check_runs

    modes = None if mode is None else read_modes(mode)
    checked = check_runs(folders, modes=modes, processes=processes_for(folders, processes))
    if checked:
        return checked
    named, there = ", ".join(map(str, folders)), _modes_there(folders)
    if modes is None or not there:
        raise ExperimentError(f"there is no recorded run with a prediction in {named}")
    raise ExperimentError(f"no case in {named} is of mode {' or '.join(modes)}; there are: {', '.join(there)}")


def processes_for(folders: Sequence[Path], asked: int | None) -> int:
    """In how many processes recorded runs are simulated: as asked, or one a core where there is much to do."""
    from graphsched.processes import cores
    from graphsched.records import find_runs

    if asked is not None:
        return asked
    return cores() if sum(path.stat().st_size for path in find_runs(folders)) > LARGE_BYTES else 1


def _modes_there(folders: Sequence[Path]) -> list[str]:
    """Of the cases with a prediction."""
    from graphsched.records import find_runs, load_run

    runs = map(load_run, find_runs(folders))
    return sorted({case.mode for run in runs for case in run.cases if case.workload is not None})

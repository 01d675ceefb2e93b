"""``compare``: recorded cases side by side, by the mode they were run in, and beside the code of others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphsched.cli.compare_tables import print_comparison
from graphsched.cli.options import AsJson, CaseFilter
from graphsched.cli.output import print_json, say
from graphsched.errors import ExperimentError

if TYPE_CHECKING:
    from graphsched.records import CaseRecord, RunRecord
    from graphsched.records.modes import Row


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN.json", help="Recorded runs, or folders of them.")],
    cases: CaseFilter = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="PICTURE", help="Also draw it: .png, .svg or .pdf.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Put modes side by side: measured and predicted times of recorded runs, and how many times as fast one is.

    A run in another mode adds its cases to the same file; several files are read as one. Plain PyTorch stands beside
    the cases of the same problem.
    """
    from graphsched.charts.saving import picture_format
    from graphsched.records import find_runs, load_run
    from graphsched.records.modes import comparable, side_by_side
    from graphsched.records.ratios import summary

    if out is not None:
        picture_format(out)
    records = [load_run(path) for path in find_runs(runs)]
    every = side_by_side(records)
    chosen = _chosen(every, cases, runs)
    rows = comparable(chosen)
    if not rows:
        raise ExperimentError(_nothing(records, runs, chosen))
    notes = _notes(rows, chosen)
    if out is not None:
        _draw(rows, out)
        say(f"written: {out}")
    data = {"rows": [row.figures() for row in rows], "summary": summary(rows), "notes": notes}
    if as_json:
        print_json(data)
    else:
        print_comparison(data)
    return 0


def _chosen(rows: Sequence[Row], only: str | None, runs: Sequence[Path]) -> list[Row]:
    """The rows whose label holds `only`, if given."""
    chosen = [row for row in rows if only is None or only in row.label]
    if rows and not chosen:
        labels = "".join(f"\n  {label}" for label in dict.fromkeys(row.label for row in rows))
        raise ExperimentError(f"no case with a plan in {_named(runs)} has {only!r} in its label; there are:{labels}")
    return chosen


def _nothing(records: Sequence[RunRecord], runs: Sequence[Path], rows: Sequence[Row]) -> str:
    if not records:
        return f"there is no recorded run in {_named(runs)}: name files that 'graphsched run' wrote, or folders of them"
    found = dict.fromkeys(case.mode for record in records for case in record.cases)
    setups = (case.setup for record in records for case in record.cases)
    gpus = any(device.kind == "cuda" for setup in setups for device in setup.platform.devices)
    name = records[0].experiment
    mode = next((mode for mode in ("graph" if gpus else "distributed", "eager") if mode not in found), "eager")
    apart = _other_devices(rows)
    same = f" on the same devices ({apart})" if apart else ""
    return (
        f"nothing to compare: no case in {_named(runs)} was run in two modes{same}, nor beside code of others "
        f"(modes there: {', '.join(found) or 'none'}): call 'graphsched run {name} --mode {mode}' too, which adds its "
        "cases to the same file, or name the runs of both modes"
    )


def _named(runs: Sequence[Path]) -> str:
    return ", ".join(map(str, runs))


def _other_devices(rows: Sequence[Row]) -> str:
    """How devices differ of what was left apart for them."""
    return "; ".join(dict.fromkeys(row.other_devices for row in rows if row.elsewhere))


def _notes(rows: Sequence[Row], chosen: Sequence[Row]) -> list[str]:
    """What a reader must know of the table."""
    notes = []
    platforms = dict.fromkeys(row.platform for row in rows)
    if len(platforms) > 1:
        notes.append(f"runs of {len(platforms)} platforms ({', '.join(platforms)}), each beside its own alone")
    single = [row for row in chosen if len(row.ways) == 1]
    if apart := [row for row in single if row.elsewhere]:
        what = _other_devices(apart)
        notes.append(f"cases left out, as they were recorded on other devices than the rest ({what}): {len(apart)}")
    alone = [row for row in single if not row.elsewhere]
    if alone:
        notes.append(f"cases left out, as they were run in one way alone: {len(alone)}")
    if twins := _twins(alone):
        notes.append(
            f"of these, with the same label in another mode but another workload: {twins}; run both modes again"
        )
    if mixed := sum(len({_software(case) for case in row.ways.values()}) > 1 for row in rows):
        notes.append(f"cases whose ways were run with different software: {mixed}")
    return notes


def _twins(rows: Sequence[Row]) -> int:
    """How many rows of one mode differ from one of another mode in their workload alone."""
    modes: dict[tuple[str, ...], set[str]] = {}
    names = [(row.experiment, row.platform, row.label, row.scheduler, str(row.options)) for row in rows]
    for name, row in zip(names, rows, strict=True):
        modes.setdefault(name, set()).update(row.ways)
    return sum(len(modes[name]) > 1 for name in names)


def _software(case: CaseRecord) -> str:
    return repr(sorted((name, str(value)) for name, value in case.setup.environment.items()))


def _draw(rows: Sequence[Row], path: Path) -> None:
    from graphsched.charts import plot_ways

    several = len({(row.experiment, row.platform) for row in rows}) > 1
    bars = {
        (f"{row.experiment}, {row.platform}: " if several else "") + _label(row): {
            way: (case.predicted_s, case.measured_s) for way, case in row.ways.items()
        }
        for row in rows
    }
    first = rows[0]
    plot_ways(bars, path, title="ways to run a case" if several else f"{first.experiment} on {first.platform}")


def _label(row: Row) -> str:
    words = [row.scheduler, *(f"{key}={value}" for key, value in row.options.items())]
    return row.label if row.scheduler in row.label else f"{row.label} ({' '.join(words)})"


COMMANDS = {"compare": compare}

"""``sweep``: an experiment predicted over a grid of platforms, parameters, modes and schedulers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphsched.cli.options import TIME_LIMIT_S, AsJson, ExperimentName, Mode, Processes, TimeLimit
from graphsched.cli.output import NONE, figure, print_json, print_table, say, seconds

if TYPE_CHECKING:
    from graphsched.cli.sweep_grid import Grid, Point
    from graphsched.cli.sweep_points import Row

SWEEPS = Path("build/sweeps")

Platforms = Annotated[
    list[str] | None,
    typer.Option("--platform", metavar="A,B", help="Shipped platforms or files; default this host."),
]
Schedulers = Annotated[
    list[str] | None,
    typer.Option(
        "--scheduler", metavar="NAME[ OPTION=VALUE]...", help="In place of the cases' own; several between commas."
    ),
]
Values = Annotated[
    list[str] | None,
    typer.Option("-p", "--param", metavar="NAME=A,B", help="Values of a parameter; A;B where it holds several."),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Table, .csv or .parquet; default build/sweeps/<experiment>.csv."),
]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Picture; default beside the table, .png.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Compute all points, also those that are kept.")]


def sweep(
    experiment: ExperimentName,
    platform: Platforms = None,
    scheduler: Schedulers = None,
    params: Values = None,
    mode: Mode = "eager",
    out: Out = None,
    plot: Plot = None,
    processes: Processes = None,
    fresh: Fresh = False,
    time_limit: TimeLimit = TIME_LIMIT_S,
    as_json: AsJson = False,
) -> int:
    """Predict an experiment over a grid: platforms, schedulers, modes and parameters, to one table and one picture.

    Finished points are kept beside the table: a sweep that was interrupted goes on where it was. Points that fail are
    rows with an error, and keep no other from being computed.
    """
    from graphsched.cases import find
    from graphsched.cli.sweep_grid import make_grid
    from graphsched.cli.sweep_table import write_table
    from graphsched.errors import ExperimentError
    from graphsched.processes import cores

    found = find(experiment)
    table, picture = _outputs(found.name, out, plot)
    grid = make_grid(found, experiment, platform or (), scheduler or (), mode, params, time_limit)
    rows = _rows(grid, table.with_suffix(".points"), processes or cores(), fresh=fresh)
    flat = [_flat(point, row) for point in grid.points for row in rows[point.key]]
    if not flat:
        raise ExperimentError(f"{experiment}: no case has a prediction, so there is nothing to sweep")
    write_table(flat, table)
    drawn = _drawn(grid, rows, picture)
    _show(grid, flat, [table, *([picture] if drawn else [])], as_json=as_json)
    if not drawn and picture.exists():
        say(f"{picture} is of an earlier sweep: there is nothing to draw of this one")
    failed = [row for row in flat if row["error"]]
    _say_failed(failed)
    return 1 if failed else 0


def _say_failed(failed: Sequence[Mapping[str, Any]]) -> None:
    """A line an error: where first, and how often."""
    for text, count in Counter(row["error"] for row in failed).items():
        first = next(row for row in failed if row["error"] == text)
        others = f" and {count - 1} more" if count > 1 else ""
        say(f"failed: {first['platform']}, {first['mode']}, {first['case'] or 'all cases'}{others}: {text}")


def _outputs(name: str, out: Path | None, plot: Path | None) -> tuple[Path, Path]:
    """Table and picture, made sure that they can be written."""
    from graphsched.charts.saving import picture_format
    from graphsched.cli.sweep_table import check_table
    from graphsched.errors import OutputError
    from graphsched.files import check_folder

    table = out or SWEEPS / f"{name}.csv"
    picture = plot or table.with_suffix(".png")
    check_table(table)
    picture_format(picture)
    for folder in (table.parent, picture.parent):
        check_folder(folder)
    points = table.with_suffix(".points")
    if points.exists() and not points.is_dir():
        raise OutputError(f"{points} is a file, and finished points are kept in a folder of that name: move it away")
    return table, picture


def _rows(grid: Grid, folder: Path, processes: int, *, fresh: bool) -> dict[str, list[Row]]:
    """The rows of every point by its key: kept ones, and those that are computed now."""
    from graphsched.cli.progress import progress
    from graphsched.cli.sweep_points import compute, kept_rows

    kept = {} if fresh else {point.key: kept_rows(folder, point) for point in grid.points}
    rows = {key: found for key, found in kept.items() if found is not None}
    left = [point for point in grid.points if point.key not in rows]
    if rows:
        say(f"{len(rows)} of {len(grid.points)} points are kept from before")
    try:
        with progress("sweep", [point.label for point in left]) as report:
            for point, found in compute(left, folder, processes):
                rows[point.key] = found
                report(point.label)
    except KeyboardInterrupt:
        done = sum(not any(row["error"] for row in found) for found in rows.values())
        say(f"{done} of {len(grid.points)} points are kept in {folder}: the same command goes on with the rest")
        raise
    return rows


def _flat(point: Point, row: Row) -> dict[str, Any]:
    from graphsched.cli.sweep_table import flat_row

    return flat_row(point, row)


def _drawn(grid: Grid, rows: Mapping[str, list[Row]], picture: Path) -> bool:
    """Draw the picture; whether there was anything to draw."""
    from graphsched.charts.sweeps import plot_sweep
    from graphsched.cli.sweep_curves import axis_of, curves_of
    from graphsched.cli.sweep_table import column_of

    placed = [(place, _flat(point, row)) for point in grid.points for place, row in enumerate(rows[point.key], 1)]
    if all(row["predicted_s"] is None for _, row in placed):
        return False
    swept = [column_of(key) for key in grid.swept]
    axis = axis_of([row for _, row in placed], swept)
    plot_sweep(curves_of(placed, axis, swept), axis, f"{grid.experiment.name}, predicted", path=picture)
    return True


def _show(grid: Grid, rows: Sequence[Mapping[str, Any]], files: Sequence[Path], *, as_json: bool) -> None:
    from graphsched.cli.sweep_table import column_of

    swept = [column_of(key) for key in grid.swept]
    if as_json:
        data = {"experiment": grid.experiment.name, "points": len(grid.points), "swept": swept}
        print_json(data | {"rows": list(rows), "files": list(map(str, files))})
        return
    shown = ("platform", *swept, "mode", "scheduler", "case")
    cells = [
        (
            *(NONE if row[key] is None else str(row[key]) for key in shown),
            "failed" if row["error"] else seconds(row["predicted_s"], estimated=bool(row["estimated"])),
            seconds(row["lower_bound_s"]),
        )
        for row in rows
    ]
    print(f"{grid.experiment.name}, {figure('points', len(grid.points))} points")
    print_table((*shown, ">predicted", ">lower bound"), cells)
    if any(row["estimated"] for row in rows):
        print("~ rests on costs that are estimates, neither measured nor given")
    say(f"written: {', '.join(map(str, files))}")


COMMANDS = {"sweep": sweep}

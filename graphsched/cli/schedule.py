"""``schedule``: graph files, scheduled on processors that are alike or on a platform."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphsched.cli.options import TIME_LIMIT_S, AsJson, TimeLimit
from graphsched.cli.output import NONE, percent, print_json, print_table, say

if TYPE_CHECKING:
    from graphsched.cli.schedule_runs import Job, Scheduled
    from graphsched.formats.graph_files import GraphFile

File = Annotated[Path, typer.Argument(metavar="FILE", help="A graph: STG, WfFormat, DOT, a trace, JSON.")]
Processors = Annotated[
    int | None, typer.Option("--processors", min=1, metavar="M", help="So many that are alike; data costs nothing.")
]
Schedulers = Annotated[
    list[str] | None,
    typer.Option(
        "--scheduler",
        metavar="NAME[ OPTION=VALUE]...",
        help="As in heft or 'search seed=3'; several between commas. Default heft.",
    ),
]
PlatformInstead = Annotated[
    str | None,
    typer.Option(
        "--platform",
        metavar="NAME|FILE",
        help="Devices and links of a platform file or a shipped platform, in place of --processors.",
    ),
]
Form = Annotated[str | None, typer.Option("--format", help="Of the file; default by its suffix and content.")]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Also draw a Gantt chart (.png, .svg or .pdf).")
]


def schedule(
    file: File,
    processors: Processors = None,
    scheduler: Schedulers = None,
    platform: PlatformInstead = None,
    form: Form = None,
    out: Out = None,
    time_limit: TimeLimit = TIME_LIMIT_S,
    as_json: AsJson = False,
) -> int:
    """Schedule a graph file: makespan and lower bound in the file's own unit, with no cost of dispatch.

    A scheduler that fails is named, and the others' results are printed all the same.
    """
    from graphsched.cli.schedule_runs import disproved, run_all, without_bound
    from graphsched.cli.scheduler_words import check_choice, read_choices
    from graphsched.cli.search_bar import searches_shown
    from graphsched.formats.graph_files import open_graph

    choices = read_choices(scheduler or ["heft"])
    for choice in choices:
        check_choice(choice)
    _check_out(out)
    read = open_graph(file, form)
    job = _job(read, processors, platform)
    with searches_shown(lambda makespan: _time(makespan, read.format.unit)):
        found = list(run_all(job, choices, time_limit))
    wrong = disproved(found)
    found = [without_bound(one) if one in wrong else one for one in found]
    files = _draw(out, found, read)
    _show(read, job, found, files, as_json=as_json)
    _say_disproved(wrong, read.format.unit)
    failed = [one for one in found if one.error is not None]
    for one in failed:
        say(f"error: {one.failure}")
    return 1 if failed else 0


def _job(read: GraphFile, processors: int | None, platform: str | None) -> Job:
    from graphsched.cli.request import platform_to_predict
    from graphsched.cli.schedule_runs import on_platform, on_processors
    from graphsched.errors import ScheduleError

    if platform is not None:
        if processors is not None:
            raise ScheduleError("--processors and --platform contradict each other: give one of them")
        return on_platform(read, *platform_to_predict(platform))
    if processors is None:
        raise ScheduleError("on what? Give --processors M, or a platform with --platform")
    return on_processors(read, processors)


def _check_out(out: Path | None) -> None:
    from graphsched.charts.saving import picture_format
    from graphsched.files import check_folder

    if out is not None:
        picture_format(out)
        check_folder(out.parent)


def _draw(out: Path | None, found: Sequence[Scheduled], read: GraphFile) -> list[str]:
    """Gantt charts: into the file asked for, or one beside it for each of several schedulers."""
    if out is None:
        return []
    from graphsched.cli.naming import stem
    from graphsched.gantt import plot_gantt

    files = []
    for number, one in enumerate(found, 1):
        if one.line is not None:
            path = out if len(found) == 1 else out.with_stem(stem(out.stem, number, str(one.choice)))
            unit = "" if read.format.unit else " (times in the file's unit, drawn as seconds)"
            plot_gantt(one.line, path=path, title=f"{read.path.name}, {one.choice}{unit}")
            files.append(str(path))
    return files


def _say_disproved(wrong: Sequence[Scheduled], unit: str) -> None:
    for one in wrong:
        if one.line is not None and one.line.plan.bound_s is not None:
            bound = _time(one.line.plan.bound_s, unit)
            claim = f"scheduler {one.choice.name!r} claims that no plan takes less than {bound}"
            say(f"{claim}: a plan here does, and its bound is left out")


# -- printing --------------------------------------------------------------------------------


def _show(read: GraphFile, job: Job, found: Sequence[Scheduled], files: Sequence[str], *, as_json: bool) -> None:
    from graphsched.cli.schedule_runs import best_of, bounds_of

    bounds, best = bounds_of(job, found), best_of(found)
    bound = max(bounds.values())
    rows = [_row(one, job, bound) for one in found]
    if as_json:
        data: dict[str, Any] = {
            "file": str(read.path),
            "unit": read.format.unit or None,
            "tasks": len(job.work),
            "platform": job.platform.name,
            "makespan": None if best is None else best.makespan,
            "lower_bound": bound,
            "scheduler": None if best is None else str(best.choice),
            "processors": job.processors,
            "bounds": bounds,
            "schedules": rows,
        }
        print_json(data | ({"files": list(files)} if files else {}))
        return
    _print(read, job, rows, bounds)
    if best is not None:
        _print_gantt(best, several=len(found) > 1)
    if files:
        say(f"written: {', '.join(files)}")


def _row(one: Scheduled, job: Job, bound: float) -> dict[str, Any]:
    row = {"scheduler": str(one.choice), "makespan": one.makespan, "lower_bound": bound, "processors": job.processors}
    if one.line is None:
        return row | {"error": one.failure}
    return row | {"gap": one.line.makespan_s / bound - 1 if bound else 0.0, "plan": one.line.plan.scheduler}


def _print(read: GraphFile, job: Job, rows: Sequence[dict[str, Any]], bounds: dict[str, float]) -> None:
    unit = read.format.unit
    cells = [
        (
            row.get("plan", row["scheduler"]),
            "failed" if row["makespan"] is None else _time(row["makespan"], unit),
            NONE if row["makespan"] is None else percent(row["gap"]),
        )
        for row in rows
    ]
    where = f"{job.processors} processors" if job.platform.name.endswith(" processors") else job.platform.name
    print(f"{read.path.name}, {len(job.work):,} tasks, on {where}")
    print_table(("scheduler", ">makespan", ">above the lower bound"), cells)
    bound = _time(max(bounds.values()), unit)
    shown = ", ".join(f"{name} {_time(value, unit)}" for name, value in bounds.items() if value)
    print(f"lower bound: {bound} ({shown})" if shown else f"lower bound: {bound}")
    if not unit:
        print("times in the file's own unit")


def _print_gantt(best: Scheduled, *, several: bool) -> None:
    from graphsched.cli.text_gantt import text_gantt

    if best.line is not None and best.line.makespan_s > 0:
        print(f"\n{best.choice}, the shortest:" if several else "")
        print("\n".join(text_gantt(best.line)))


def _time(value: float, unit: str) -> str:
    return f"{value:.10g} {unit}".rstrip()


COMMANDS = {"schedule": schedule}

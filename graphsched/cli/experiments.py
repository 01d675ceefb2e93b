"""``list``, ``predict`` and ``run``: commands that find and use experiments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphsched.cli.options import (
    TIME_LIMIT_S,
    AsJson,
    CaseFilter,
    ExperimentName,
    Mode,
    Parameters,
    PlatformName,
    TimeLimit,
)
from graphsched.cli.output import (
    NONE,
    figure,
    percent,
    print_json,
    print_table,
    say,
    seconds,
    unit_free,
    value_text,
)

if TYPE_CHECKING:
    from graphsched.cases import Experiment
    from graphsched.cli.outcome import Outcome
    from graphsched.executors.distributed import World

RUNS = Path("build/runs")


def list_experiments(
    path: Annotated[
        Path, typer.Argument(help="A folder, or an experiment's file; the Python files there are run.")
    ] = Path("experiments"),
    as_json: AsJson = False,
) -> int:
    """List experiments, their source and what they need."""
    from graphsched.cases import discover

    found = discover(path)
    if as_json:
        rows = [
            {
                "name": made.name,
                "title": made.title,
                "source": made.source,
                "needs": made.needs,
                "path": str(made.path),
                "parameters": {p.name: p.default for p in made.parameters},
            }
            for made in found.experiments
        ]
        print_json({"experiments": rows, "errors": [str(error) for error in found.errors]})
    else:
        print_table(
            ("name", "title", "source", "needs", "parameters"),
            [
                (made.name, made.title, made.source or NONE, made.needs or NONE, " ".join(map(str, made.parameters)))
                for made in found.experiments
            ],
        )
    for error in found.errors:
        say(f"error: {error}")
    return 2 if found.errors else 0


def predict(
    experiment: ExperimentName,
    platform: PlatformName = None,
    params: Parameters = None,
    mode: Mode = "eager",
    cases: CaseFilter = None,
    pictures: Annotated[
        bool, typer.Option(help="With --out: draw a Gantt chart and write a trace for each case.")
    ] = True,
    out: Annotated[Path | None, typer.Option("--out", help="Folder to draw into; default: nothing is drawn.")] = None,
    time_limit: TimeLimit = TIME_LIMIT_S,
    as_json: AsJson = False,
) -> int:
    """Predict the timelines of an experiment; measures nothing and needs no GPU."""
    from graphsched.cli.naming import draw, stem, title_of
    from graphsched.cli.origin import platform_notes
    from graphsched.cli.perform import predict_cases
    from graphsched.cli.refusals import without_refused
    from graphsched.cli.request import Request, collect_cases, find_with_values, platform_to_predict
    from graphsched.files import check_folder

    found, values = find_with_values(experiment, params, mode)
    on, costs = platform_to_predict(platform)
    chosen = collect_cases(found, values, on, mode=mode, only=cases)
    if out is not None:
        check_folder(out)
    request, left_out = without_refused(Request(found, values, on, costs, chosen, time_limit))
    outcomes = predict_cases(request)
    files: list[str] = []
    for outcome in outcomes if out is not None and pictures else ():
        if outcome.predicted is not None:
            assert out is not None
            number, label, way = outcome.number, outcome.case.label, outcome.case.mode
            name, title = stem(found.name, number, label, way), title_of(label, way)
            files += map(str, draw(out, name, title, outcome.predicted, None))
    notes = [*left_out, *platform_notes(on)]
    show(found.name, on.name, values, outcomes, as_json=as_json, out=out, files=files, notes=notes)
    return 0


def run(
    experiment: ExperimentName,
    platform: PlatformName = None,
    params: Parameters = None,
    mode: Mode = "eager",
    cases: CaseFilter = None,
    repeats: Annotated[int, typer.Option(min=1, help="Timed runs a case; five, once they take 10 s.")] = 20,
    pictures: Annotated[bool, typer.Option(help="Draw a Gantt chart and write a trace for each case.")] = True,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write to; default build/runs/<platform>.")
    ] = None,
    time_limit: TimeLimit = TIME_LIMIT_S,
    as_json: AsJson = False,
) -> int:
    """Predict an experiment, run it for real, and compare.

    Writes the recorded run, and for each case a Gantt chart and a trace for Perfetto. In mode distributed it is
    called by torchrun: torchrun --nproc-per-node 4 -m graphsched run EXPERIMENT --mode distributed.
    """
    from graphsched.cli.ranks import follow, joined, leading
    from graphsched.cli.request import find_with_values

    found, values = find_with_values(experiment, params, mode)
    world = joined(mode)
    if world is not None and world.rank > 0:
        return follow(world, found, values, mode, cases)
    with leading(world):
        asked = found, values, platform, mode, cases, repeats, out, time_limit, world
        return _run(*asked, pictures=pictures, as_json=as_json)


def _run(
    found: Experiment,
    values: dict[str, Any],
    platform: str | None,
    mode: str,
    cases: str | None,
    repeats: int,
    out: Path | None,
    time_limit_s: float,
    world: World | None,
    *,
    pictures: bool,
    as_json: bool,
) -> int:
    """`run` in this process, which other ranks follow if there is a `world`."""
    from graphsched.cli.naming import title_of
    from graphsched.cli.origin import platform_notes
    from graphsched.cli.perform import Runner
    from graphsched.cli.ranks import compare_cases, facts_of_cases, tell_platform
    from graphsched.cli.refusals import check_cases, without_refused
    from graphsched.cli.request import Request, check_outputs, collect_cases, platform_to_run
    from graphsched.plan import MODES

    named = None if platform is None else platform_to_run(platform)
    check_outputs(out or RUNS, found.name)
    on = named or platform_to_run(None)  # which may take a minute
    folder = check_outputs(out or RUNS / on.name, found.name)
    on_ranks = tell_platform(world, on)
    chosen = collect_cases(found, values, on, mode=mode, only=cases)
    request = Request(found, values, on, on.costs, chosen, time_limit_s)
    compare_cases(world, facts_of_cases(found, values, request.cases))
    request, left_out = without_refused(request, world.size if world is not None else None)
    check_cases(request, MODES)
    outcomes, files = Runner(request, folder, repeats, pictures, on_ranks).run()
    notes = [*left_out, *platform_notes(on)]
    show(found.name, on.name, values, outcomes, as_json=as_json, out=folder, files=files, notes=notes)
    for outcome in outcomes if not as_json else ():
        if outcome.explanation:
            print("\n  ".join((title_of(outcome.case.label, outcome.case.mode), *outcome.explanation)))
    return 1 if any(outcome.failure for outcome in outcomes) else 0


def show(
    experiment: str,
    platform: str,
    values: dict[str, Any],
    outcomes: Sequence[Outcome],
    *,
    as_json: bool,
    out: Path | None = None,
    files: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> None:
    """Print the cases of a prediction or run, and the best of each group; draw how schedulers rank into `out`."""
    from graphsched.cli.best import best_of_groups, in_words
    from graphsched.cli.ranking import draw_rankings, print_rankings, rankings

    figures = [outcome.figures() | {"lower_bound_s": outcome.lower_bound_s} for outcome in outcomes]
    grouped = [(outcome.case.group, case) for outcome, case in zip(outcomes, figures, strict=True)]
    ranked = rankings(grouped)
    several = {ranking.group for ranking in ranked}
    best = best_of_groups((group, case) for group, case in grouped if group not in several)
    if out is not None and ranked:
        drawn = draw_rankings(ranked, out, f"{platform}-{experiment}", f"{experiment} on {platform}")
        files = [*files, *map(str, drawn)]
    if as_json:
        data: dict[str, Any] = {"experiment": experiment, "platform": platform, "parameters": values, "cases": figures}
        data |= {"best": best} if best else {}
        data |= {"ranking": [ranking.figures() for ranking in ranked]} if ranked else {}
        print_json(data | ({"files": list(files)} if files else {}) | ({"notes": list(notes)} if notes else {}))
        return
    words = " ".join(f"{name}={value_text(value)}" for name, value in values.items())
    peaks = [outcome.peak_bytes for outcome in outcomes]
    print_figures(figures, title=f"{experiment} on {platform}  {words}".rstrip(), peaks=peaks)
    for group in best:
        print(in_words(group))
    print_rankings(ranked)
    for note in notes:
        print(f"note: {note}")
    if files:
        say(f"written: {files[0]} and {len(files) - 1} more beside it")


def print_figures(figures: Sequence[dict[str, Any]], *, title: str, peaks: Sequence[int | None] = ()) -> None:
    """Print a table of cases, what is estimated marked; with a column for the peak memory of a GPU, where known."""
    headings = ["case", "scheduler", "mode", ">predicted", ">measured", ">error", ">spread", ">source's figure"]
    rows = [_row(case) for case in figures]
    if any(case.get("lower_bound_s") for case in figures):
        headings.insert(5, ">lower bound")
        rows = [
            (*row[:5], seconds(case.get("lower_bound_s")), *row[5:]) for row, case in zip(rows, figures, strict=True)
        ]
    if any(peaks):
        headings.append(">peak memory")
        rows = [(*row, figure("peak_bytes", peak)) for row, peak in zip(rows, peaks, strict=True)]
    print_table(headings, rows, title=title)
    for case in figures:
        if case["metrics"]:
            listed = ", ".join(f"{unit_free(name)} {figure(name, value)}" for name, value in case["metrics"].items())
            print(f"{case['label']}: {listed}")
    if any(case["estimated"] for case in figures):
        print("~ rests on costs that are estimates, neither measured nor given")
    if any(map(_noisy, figures)):
        print("! spread too wide to judge the error by")


def _row(case: dict[str, Any]) -> tuple[str, ...]:
    return (
        case["label"],
        " ".join([case["scheduler"] or NONE, *(f"{k}={v}" for k, v in case["options"].items())]),
        case["mode"],
        seconds(case["predicted_s"], estimated=bool(case["estimated"])),
        "failed" if "failure" in case else seconds(case["measured_s"]),
        percent(case["error"], signed=True),
        percent(case["spread"]) + (" !" if _noisy(case) else ""),
        seconds(case["reported_s"]),
    )


def _noisy(case: dict[str, Any]) -> bool:
    from graphsched.comparison import noisy

    return noisy(case["spread"])


COMMANDS = {"list": list_experiments, "predict": predict, "run": run}

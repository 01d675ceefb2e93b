"""``plot``, ``export`` and ``accuracy``: commands on recorded runs."""

from __future__ import annotations

from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphsched.cli.accuracy_tables import print_accuracy
from graphsched.cli.choosing import checked_cases, planned_cases, processes_for
from graphsched.cli.options import AsJson, CaseFilter, ModeFilter, Processes, RunFile
from graphsched.cli.output import print_json, say
from graphsched.errors import CostError, ExecutionError, ExperimentError, WorkloadError

if TYPE_CHECKING:
    from graphsched.plan import Plan

ENDINGS = {
    "perfetto": "perfetto.json",
    "dot": "dot",
    "plan": "plan.txt",
    "json": "json",
    "wfformat": "wfformat.json",
    "stg": "stg",
    "node-link": "node-link.json",
}
FORMATS = tuple(ENDINGS)
RESULTS = Path("experiments/results")
PLOTS, EXPORTS = Path("build/plots"), Path("build/exports")


def plot(
    run: RunFile,
    out: Annotated[Path | None, typer.Option("--out", help="Folder; default build/plots/<platform>.")] = None,
    cases: CaseFilter = None,
    as_json: AsJson = False,
) -> int:
    """Draw a recorded run: predicted and measured on one Gantt chart a case."""
    from graphsched.cli.naming import title_of
    from graphsched.gantt import plot_gantt

    folder, chosen = _open(run, out, PLOTS, cases)
    files = []
    for name, case in chosen:
        plot_gantt(case.repredict(), case.measured, path=folder / f"{name}.png", title=title_of(case.label, case.mode))
        files.append(str(folder / f"{name}.png"))
    _print_files(files, as_json)
    return 0


def export(
    run: RunFile,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="perfetto, dot or plan; or the graph with measured durations: json, wfformat, stg or node-link.",
        ),
    ] = "perfetto",
    out: Annotated[Path | None, typer.Option("--out", help="Folder; default build/exports/<platform>.")] = None,
    cases: CaseFilter = None,
    as_json: AsJson = False,
) -> int:
    """Write each case of a recorded run as a trace, a plan, or a graph, which 'graphsched schedule' reads.

    Beside the plan of a case of mode distributed stands what each rank does. A case that the format does not hold (no
    task, in an STG file) is named, and the others are written all the same.
    """
    if form not in FORMATS:
        raise ExperimentError(f"no format {form!r}: one of {', '.join(FORMATS)}")
    folder, chosen = _open(run, out, EXPORTS, cases)
    files, failed = [], False
    for name, case in chosen:
        try:
            files.append(str(_write(form, folder, name, case)))
        except (CostError, WorkloadError) as error:
            say(f"failed: {case.label}: {error}")
            failed = True
        if form == "plan" and case.mode == "distributed":
            files += _write_ranks(folder, name, case.plan)
    _print_files(files, as_json)
    return 1 if failed else 0


def _open(run: Path, out: Path | None, default: Path, only: str | None) -> tuple[Path, list[tuple[str, Any]]]:
    """The folder to write to, and the names and records of the cases that have a plan."""
    from graphsched.cli.naming import stem
    from graphsched.files import check_folder
    from graphsched.records import load_run

    record = load_run(run)
    chosen = planned_cases(record, only, run)
    folder = check_folder(out or default / record.platform)
    return folder, [(stem(record.experiment, number, case.label, case.mode), case) for number, case in chosen]


def _write(form: str, folder: Path, name: str, case: Any) -> Path:
    from graphsched.cli.naming import title_of
    from graphsched.files import write_text
    from graphsched.formats.dot import to_dot
    from graphsched.formats.graph_files import write_graph
    from graphsched.formats.measured_graph import measured_workload
    from graphsched.formats.perfetto import write_perfetto

    path = folder / f"{name}.{ENDINGS[form]}"
    if form == "perfetto":
        write_perfetto(path, case.repredict(), case.measured, title=title_of(case.label, case.mode))
    elif form in ("dot", "plan"):
        write_text(path, to_dot(case.plan) if form == "dot" else case.plan.text)
    else:
        write_graph(measured_workload(case.measured), path, form)
    return path


def _write_ranks(folder: Path, name: str, plan: Plan) -> list[str]:
    """What each rank does, a file a rank."""
    from graphsched.files import write_text
    from graphsched.plan.ranks import compile_ranks, rank_text

    lists = compile_ranks(plan)
    paths = [folder / f"{name}.rank-{rank}.txt" for rank in range(len(lists))]
    for rank, path in enumerate(paths):
        write_text(path, rank_text(lists, rank))
    return list(map(str, paths))


def _print_files(files: list[str], as_json: bool) -> None:
    if as_json:
        print_json({"files": files})
        return
    for file in files:
        print(file)


def accuracy(
    folders: Annotated[list[Path] | None, typer.Argument(metavar="[DIR]...", help="Folders of recorded runs.")] = None,
    mode: ModeFilter = None,
    cases: Annotated[bool, typer.Option("--cases", help="List every case too.")] = False,
    ablation: Annotated[
        bool, typer.Option("--ablation", help="Also the figures with each term of the model switched off.")
    ] = False,
    processes: Processes = None,
    as_json: AsJson = False,
) -> int:
    """Simulate recorded runs again and state the errors of the predictions."""
    from graphsched.records import ablation as ablate
    from graphsched.records import accuracy_of, find_causes

    named = folders or [RESULTS]
    try:
        checked = checked_cases(named, mode, processes)
        data = accuracy_of(checked, find_causes(named))
        if ablation:
            data["ablation"] = ablate(checked, processes=processes_for(named, processes))
    except BrokenProcessPool as error:
        raise ExecutionError("a process died (out of memory?): ask for fewer with --processes") from error
    if as_json:
        print_json(data)
    else:
        print_accuracy(data, cases=cases)
    return 0


COMMANDS = {"plot": plot, "export": export, "accuracy": accuracy}

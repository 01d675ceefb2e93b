"""``bench``: speed of simulator, schedulers, dispatch and replay on this host, and of experiments side by side.

What has a goal (`cli.bench_goals`) is held against it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from graphsched.cli.bench_goals import GOAL_TABLES, speed_goals
from graphsched.cli.interrupts import check_interrupted
from graphsched.cli.options import AsJson, PlatformName
from graphsched.cli.output import print_json, print_rows, say

ACTIONS, QUICK_ACTIONS = (10_000, 100_000, 1_000_000), (10_000,)
TASKS, QUICK_TASKS = (1_000, 10_000, 100_000), (1_000,)
OPTIMA = "optima"
IN_FILE_ONLY = "_samples"  # tables of this ending are long, and not printed

Data = dict[str, Any]


def bench(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[FOLDER]", help="For --only optima: graphs (.stg), and best.csv with what is known."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes, within a few seconds.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="NAME",
            help="simulator, schedulers, dispatch, replay, optima, or an experiment (metg, branches).",
        ),
    ] = None,
    params: Annotated[
        list[str] | None,
        typer.Option(
            "-p",
            "--param",
            metavar="NAME=VALUE",
            help="A parameter of the experiment's benchmark, as in -p networks=nas (branches) or -p patterns=tree "
            "(metg). A name that it does not have, as in -p any=1, lists all with their defaults.",
        ),
    ] = None,
    platform: PlatformName = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Also write all figures here, those of each part as it is finished."
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Measure the speed of simulator, schedulers, dispatch and replay on this host.

    An experiment that compares ways to run something side by side is named with --only, and takes parameters with -p.
    What is finished is kept when something later fails or is interrupted.
    """
    from graphsched.errors import ExperimentError
    from graphsched.files import check_folder

    asked = {name: _part(name, platform, params, folder, quick=quick) for name in only or OWN}
    if folder is not None and OPTIMA not in asked:
        raise ExperimentError(f"a folder ({folder}) is for the benchmark of known optima: add --only {OPTIMA}")
    if out is not None:
        check_folder(out.parent)
    parts = {name: begin() for name, begin in asked.items()}
    data: Data = {}
    left = list(parts)
    try:
        _measure(parts, data, left, out)
    finally:
        _finish(data, left, out, as_json=as_json)
    return 0


def _measure(parts: Mapping[str, Iterator[Data]], data: Data, left: list[str], out: Path | None) -> None:
    """Add the figures of all `parts` to `data`, take finished ones out of `left`, and write both each time."""
    for name, tables in parts.items():
        check_interrupted()
        for found in tables:
            data |= found
            for table in GOAL_TABLES:  # they come last
                data.pop(table, None)
            data |= speed_goals(data)
            _write(out, data, left)
            check_interrupted()
        left.remove(name)


def _finish(data: Data, left: Sequence[str], out: Path | None, *, as_json: bool) -> None:
    """Write and print what is finished, and name what is not."""
    try:
        _write(out, data, left)
        if left:
            kept = f"; what is finished is in {out}" if out is not None and data else ""
            say(f"not finished: {', '.join(left)}{kept}")
    finally:
        _show(data, left, as_json=as_json)


def _write(out: Path | None, data: Data, left: Sequence[str]) -> None:
    from graphsched.files import write_text

    if out is not None and data:
        write_text(out, json.dumps(_marked(data, left), indent=1, ensure_ascii=False))


def _marked(data: Data, left: Sequence[str]) -> Data:
    """`data`, and under ``unfinished`` what is not finished.

    Example:
        >>> _marked({"replay": []}, []), _marked({"replay": []}, ["dispatch"])
        ({'replay': []}, {'replay': [], 'unfinished': ['dispatch']})
    """
    return data | ({"unfinished": list(left)} if left else {})


def _show(data: Data, left: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        print_json(_marked(data, left))
        return
    for name, rows in data.items():
        if not name.endswith(IN_FILE_ONLY):
            print_rows(rows if isinstance(rows, list) else [rows], title=name.replace("_", " "))


def _simulator(quick: bool) -> Data:
    from graphsched.simulator.bench import bench_simulator

    say("simulator …")
    return {"simulator": bench_simulator(QUICK_ACTIONS if quick else ACTIONS)}


def _schedulers(quick: bool) -> Data:
    from graphsched.schedulers.benchmarks.peer import bench_peer
    from graphsched.schedulers.benchmarks.speed import DEVICES, bench_schedulers

    say("schedulers …")
    rows = bench_schedulers(QUICK_TASKS if quick else TASKS)
    return {"schedulers": rows, "peer": [bench_peer(QUICK_TASKS[0], DEVICES)]}


def _workloads(quick: bool) -> Data:
    from graphsched.schedulers.benchmarks.speed import bench_workloads

    say("workloads …")
    return {"workloads": bench_workloads(QUICK_TASKS if quick else TASKS)}


def _dispatch(quick: bool) -> Data:
    from graphsched.executors.bench import bench_dispatch

    say("dispatch …")
    return {"dispatch": bench_dispatch(quick=quick)}


def _replay(quick: bool) -> Data:
    from graphsched.executors.bench_replay import bench_replay

    say("replay …")
    return {"replay": bench_replay(quick=quick)}


OWN: Mapping[str, Callable[[bool], Data]] = {
    "simulator": _simulator,
    "workloads": _workloads,
    "schedulers": _schedulers,
    "dispatch": _dispatch,
    "replay": _replay,
}


def _part(
    name: str, platform: str | None, params: list[str] | None, folder: Path | None, *, quick: bool
) -> Callable[[], Iterator[Data]]:
    """What begins the benchmark of this name: one of `OWN`, that of known optima, or ``bench`` of an experiment's file.

    That function checks its parameters and returns an iterator that measures: over the tables with all rows so far.

    Raises:
        ExperimentError: There is neither, or it has no such parameter.
    """
    from graphsched.cases import find
    from graphsched.cases.loading import import_paths
    from graphsched.cases.parameters import read_signature, read_values
    from graphsched.cli.request import platform_to_run, read_params
    from graphsched.errors import ExperimentError

    given = read_params(params)
    if name in OWN:
        read_values(f"benchmark {name!r}", (), given)
        return lambda: _at_once(OWN[name], quick)
    if name == OPTIMA:
        from graphsched.cli.bench_optima import bench_optima

        read_values(f"benchmark {name!r}", (), given)
        tables = bench_optima(folder, quick=quick)
        return lambda: tables
    found = find(name)
    function = found.function.__globals__.get("bench")
    if not callable(function):
        raise ExperimentError(
            f"experiment {name!r} has nothing to compare side by side: its file needs a function 'bench'; "
            f"of the benchmarks of this command there are {', '.join(OWN)}"
        )
    values = read_values(f"benchmark {name!r}", read_signature(function), given) | ({"quick": True} if quick else {})

    def begin() -> Iterator[Data]:
        on = platform_to_run(platform)
        with import_paths(found.path):
            tables = function(on, **values)
        if not isinstance(tables, Iterator):
            raise ExperimentError(
                f"benchmark {name!r} returned {type(tables).__name__}: let its function 'bench' yield "
                "a dict of its tables, with all rows so far, whenever there are more"
            )
        return _seeded(name, tables, found.path)

    return begin


def _at_once(measure: Callable[[bool], Data], quick: bool) -> Iterator[Data]:
    yield measure(quick)


def _seeded(name: str, tables: Iterator[Data], path: Path | None) -> Iterator[Data]:
    from graphsched.cases.loading import import_paths
    from graphsched.cli.request import SEED, seed_everything
    from graphsched.errors import ExperimentError

    seed_everything(SEED)
    data = None
    with import_paths(path):
        for data in tables:
            yield data
    if data is None:
        raise ExperimentError(f"benchmark {name!r} has nothing to measure: give each of its parameters a value")


COMMANDS = {"bench": bench}

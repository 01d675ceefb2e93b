"""``bench``: speed of simulator, schedulers, dispatch and replay on this host, and of experiments side by side.

What has a goal (`cli.bench_goals`) is held against it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from graphsched.cli.bench_goals import GOAL_TABLES, speed_goals
from graphsched.cli.bench_parts import OPTIMA, OWN, Data, check_replay, part_of
from graphsched.cli.interrupts import check_interrupted
from graphsched.cli.options import AsJson, PlatformName
from graphsched.cli.output import json_text, print_json, print_rows, say

IN_FILE_ONLY = "_samples"  # tables of this ending are long, and not printed

Folder = Annotated[
    Path | None,
    typer.Argument(metavar="[FOLDER]", help="For --only optima: graphs (.stg), and best.csv with what is known."),
]
Quick = Annotated[bool, typer.Option("--quick", help="Smaller sizes, within a few seconds.")]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="NAME",
        help="simulator, schedulers, dispatch, replay, optima, or an experiment (metg, branches).",
    ),
]
BenchParameters = Annotated[
    list[str] | None,
    typer.Option(
        "-p",
        "--param",
        metavar="NAME=VALUE",
        help="A parameter of the experiment's benchmark, as in -p networks=nas (branches) or -p patterns=tree "
        "(metg). A name that it does not have, as in -p any=1, lists all with their defaults.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Also write all figures here, those of each part as it is finished."),
]


def bench(
    folder: Folder = None,
    quick: Quick = False,
    only: Only = None,
    params: BenchParameters = None,
    platform: PlatformName = None,
    out: Out = None,
    as_json: AsJson = False,
) -> int:
    """Measure the speed of simulator, schedulers, dispatch and replay on this host.

    An experiment that compares ways to run something side by side is named with --only, and takes parameters with -p.
    What is finished is kept when something later fails or is interrupted.
    """
    from graphsched.errors import ExperimentError, OutputError
    from graphsched.files import check_folder

    asked = {name: part_of(name, platform, params, folder, quick=quick) for name in only or OWN}
    if folder is not None and OPTIMA not in asked:
        raise ExperimentError(f"a folder ({folder}) is for the benchmark of known optima: add --only {OPTIMA}")
    check_replay(asked)
    if out is not None:
        if out.is_dir():
            raise OutputError(f"cannot write {out}: it is a folder: name a file in it")
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
        write_text(out, json_text(_marked(data, left)))


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


COMMANDS = {"bench": bench}

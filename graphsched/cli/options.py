"""Options that several commands share."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")]
ExperimentName = Annotated[
    str,
    typer.Argument(metavar="EXPERIMENT", help="FILE.py, FILE.py::NAME, or a NAME of ./experiments."),
]
Parameters = Annotated[
    list[str] | None, typer.Option("-p", "--param", metavar="NAME=VALUE", help="A parameter of the experiment.")
]
PlatformName = Annotated[
    str | None,
    typer.Option("--platform", metavar="NAME|FILE", help="A shipped platform (h200-x2) or file; default: this host."),
]
Mode = Annotated[str, typer.Option("--mode", help="eager, graph or distributed; several between commas.")]
CaseFilter = Annotated[str | None, typer.Option("--cases", metavar="TEXT", help="Only cases whose label holds TEXT.")]
ModeFilter = Annotated[
    str | None,
    typer.Option("--mode", help="Only cases of this mode: eager, graph or distributed; several between commas."),
]
TIME_LIMIT_S = 600.0


def _seconds(value: float) -> float:
    if not 0.0 < value < math.inf:
        raise typer.BadParameter(f"seconds above 0 are needed, got {value:g}")
    return value


TimeLimit = Annotated[
    float,
    typer.Option(
        "--time-limit", callback=_seconds, metavar="SECONDS", help="For each scheduler asked; then it is ended."
    ),
]
RunFile = Annotated[Path, typer.Argument(metavar="RUN.json", help="A recorded run.")]

Processes = Annotated[int | None, typer.Option("--processes", min=1, metavar="N", help="Default: one a core.")]

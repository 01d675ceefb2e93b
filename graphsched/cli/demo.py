"""``demo``: all experiments at small sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphsched.cli.options import AsJson


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for pictures, traces and recorded runs.")] = Path(
        "build/demo"
    ),
    as_json: AsJson = False,
) -> int:
    """Predict, run and compare the experiments at small sizes, on GPUs where there are some."""
    from graphsched.demo import run_demo

    return run_demo(out, as_json=as_json)


COMMANDS = {"demo": demo}

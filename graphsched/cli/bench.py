"""``bench``: speed of simulator, schedulers, dispatch and replay on this host, and of experiments side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from graphsched.cli.options import AsJson, Parameters, PlatformName
from graphsched.cli.output import print_json, print_rows, say

ACTIONS, QUICK_ACTIONS = (10_000, 100_000), (10_000,)
TASKS, QUICK_TASKS = (1_000, 10_000), (1_000,)
IN_FILE_ONLY = "_samples"  # tables of this ending are long, and not printed

Data = dict[str, Any]


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes, within a few seconds.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", metavar="NAME", help="simulator, schedulers, dispatch, replay, or an experiment (metg, branches)."
        ),
    ] = None,
    params: Parameters = None,
    platform: PlatformName = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Also write all figures here.")] = None,
    as_json: AsJson = False,
) -> int:
    """Measure the speed of simulator, schedulers, dispatch and replay on this host.

    An experiment that compares ways to run something side by side is named with --only.
    """
    from graphsched.files import check_folder, write_text

    parts = [_part(name, platform, params) for name in only or OWN]
    if out is not None:
        check_folder(out.parent)
    data: Data = {}
    for part in parts:
        data |= part(quick)
    if out is not None:
        write_text(out, json.dumps(data, indent=1, ensure_ascii=False))
    if as_json:
        print_json(data)
        return 0
    for name, rows in data.items():
        if not name.endswith(IN_FILE_ONLY):
            print_rows(rows if isinstance(rows, list) else [rows], title=name.replace("_", " "))
    return 0


def _simulator(quick: bool) -> Data:
    from graphsched.simulator.bench import bench_simulator

    say("simulator …")
    return {"simulator": bench_simulator(QUICK_ACTIONS if quick else ACTIONS)}


def _schedulers(quick: bool) -> Data:
    from graphsched.schedulers.bench import bench_schedulers

    say("schedulers …")
    return {"schedulers": bench_schedulers(QUICK_TASKS if quick else TASKS)}


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
    "schedulers": _schedulers,
    "dispatch": _dispatch,
    "replay": _replay,
}


def _part(name: str, platform: str | None, params: list[str] | None) -> Callable[[bool], Data]:
    """The benchmark of this name: one of `OWN`, or the function ``bench`` of an experiment's file.

    Raises:
        ExperimentError: There is neither, or it has no such parameter.
    """
    from graphsched.cases import find
    from graphsched.cases.loading import import_paths
    from graphsched.cases.parameters import read_signature, read_values
    from graphsched.cli.request import SEED, platform_to_run, read_params, seed_everything
    from graphsched.errors import ExperimentError

    given = read_params(params)
    if name in OWN:
        read_values(f"benchmark {name!r}", (), given)
        return OWN[name]
    found = find(name)
    function = found.function.__globals__.get("bench")
    if not callable(function):
        raise ExperimentError(
            f"experiment {name!r} has nothing to compare side by side: its file needs a function 'bench'; "
            f"of the benchmarks of this command there are {', '.join(OWN)}"
        )
    values = read_values(f"benchmark {name!r}", read_signature(function), given)
    on = platform_to_run(platform)

    def run(quick: bool) -> Data:
        seed_everything(SEED)
        with import_paths(found.path):
            return dict(function(on, **(values | ({"quick": True} if quick else {}))))

    return run


COMMANDS = {"bench": bench}

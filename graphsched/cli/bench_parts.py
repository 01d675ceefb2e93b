"""What ``bench`` can measure: parts of its own, and what experiments compare side by side."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from graphsched.cli.output import say

ACTIONS, QUICK_ACTIONS = (10_000, 100_000, 1_000_000), (10_000,)
TASKS, QUICK_TASKS = (1_000, 10_000, 100_000), (1_000,)
OPTIMA, REPLAY = "optima", "replay"

Data = dict[str, Any]


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
    return {REPLAY: bench_replay(quick=quick)}


OWN: Mapping[str, Callable[[bool], Data]] = {
    "simulator": _simulator,
    "workloads": _workloads,
    "schedulers": _schedulers,
    "dispatch": _dispatch,
    REPLAY: _replay,
}


def part_of(
    name: str, platform: str | None, params: list[str] | None, folder: Path | None, *, quick: bool
) -> Callable[[], Iterator[Data]]:
    """What begins the benchmark of this name: one of `OWN`, that of known optima, or ``bench`` of an experiment's file.

    That function checks its parameters and returns an iterator that measures: over the tables with all rows so far.

    Raises:
        ExperimentError: There is neither, or it has no such parameter.
    """
    from graphsched.cases.parameters import read_values
    from graphsched.cli.request import read_params

    given = read_params(params)
    if name in (*OWN, OPTIMA):
        read_values(f"benchmark {name!r}", (), given)  # they have none
    if name in OWN:
        return lambda: _at_once(OWN[name], quick)
    if name == OPTIMA:
        from graphsched.cli.bench_optima import bench_optima

        tables = bench_optima(folder, quick=quick)
        return lambda: tables
    return _of_experiment(name, given, platform, quick=quick)


def check_replay(names: Collection[str]) -> None:
    """Make sure that replay finds a GPU; beside other parts of `names` it has no rows without one, and a note says so.

    Raises:
        PlatformError: There is none, and nothing else to measure.
    """
    from graphsched.errors import PlatformError

    if REPLAY not in names or gpu_here():
        return
    why = f"{REPLAY} needs a GPU, and PyTorch finds none here"
    if len(names) == 1:
        others = ", ".join(name for name in OWN if name != REPLAY)
        raise PlatformError(f"{why}: call it on a host with one, or measure what needs none, with --only: {others}")
    say(f"note: {why}: it has no rows")


def gpu_here() -> bool:
    """Whether PyTorch finds a GPU on this host."""
    import torch

    return torch.cuda.is_available()


def _of_experiment(
    name: str, given: Mapping[str, str], platform: str | None, *, quick: bool
) -> Callable[[], Iterator[Data]]:
    """What begins ``bench`` of the experiment's file."""
    from graphsched.cases import find
    from graphsched.cases.loading import import_paths
    from graphsched.cases.parameters import read_signature, read_values
    from graphsched.cli.request import platform_to_run
    from graphsched.errors import ExperimentError

    found = find(name)
    function = found.function.__globals__.get("bench")
    if not callable(function):
        raise ExperimentError(
            f"experiment {name!r} has nothing to compare side by side: its file needs a function 'bench'; "
            f"of the benchmarks of this command there are {', '.join(OWN)}"
        )
    of = f"benchmark {name!r}"
    values = read_values(of, read_signature(function), given) | ({"quick": True} if quick else {})

    def begin() -> Iterator[Data]:
        on = platform_to_run(platform)
        with import_paths(found.path):
            tables = function(on, **values)
        if not isinstance(tables, Iterator):
            raise ExperimentError(
                f"{of} returned {type(tables).__name__}: let its function 'bench' yield "
                "a dict of its tables, with all rows so far, whenever there are more"
            )
        return _seeded(of, tables, found.path)

    return begin


def _at_once(measure: Callable[[bool], Data], quick: bool) -> Iterator[Data]:
    yield measure(quick)


def _seeded(of: str, tables: Iterator[Data], path: Path | None) -> Iterator[Data]:
    from graphsched.cases.loading import import_paths
    from graphsched.cli.request import SEED, seed_everything
    from graphsched.errors import ExperimentError

    seed_everything(SEED)
    data = None
    with import_paths(path):
        for data in tables:
            yield data
    if data is None:
        raise ExperimentError(f"{of} has nothing to measure: give each of its parameters a value")

"""``bench --only optima``: how far schedulers are from known optima, with and without communication."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphsched.cli.interrupts import check_interrupted

if TYPE_CHECKING:
    from graphsched.cli.optima_cases import KnownCase
    from graphsched.cli.schedule_runs import Job
    from graphsched.schedulers.benchmarks.known_optima import KnownOptimum

Data = dict[str, Any]
Options = Mapping[str, Any]

SEARCH_S, OPTIMAL_S = 2.0, 10.0
QUICK_SEARCH_S, QUICK_OPTIMAL_S = 0.2, 1.0
QUICK_EVERY = 7
"""Of the cases of a folder a quick run takes every so many."""
GOALS: Mapping[str, Mapping[str, float]] = {
    "critical_path": {"mean_excess": 0.003},
    "search": {"mean_excess": 0.0002},
    "optimal": {"proven_share": 0.97},
}
"""For identical processors: excess at most, share of proven optima at least."""
COMMUNICATING = ("heft", "peft", "lookahead", "search")
SIZES, QUICK_SIZES = ((2, 20), (4, 50), (8, 100)), ((2, 20),)
"""Devices and tasks of generated workloads."""
SHARES, SEEDS, QUICK_SEEDS = (0.3, 1.0, 2.0), 5, 2
"""Seconds of transfers over seconds of tasks, and workloads of each kind."""


@dataclass(frozen=True)
class _Result:
    """What one scheduler made of one case.

    Attributes:
        scheduler: Its name.
        makespan: In the case's own unit.
        bound: No schedule takes less; None: nothing is proven beyond the other bounds.
        seconds: What it took to find.
    """

    scheduler: str
    makespan: float
    bound: float | None
    seconds: float


def bench_optima(folder: Path | None, *, quick: bool) -> Iterator[Data]:
    """Measure schedulers against known optima; yields tables with all that is known so far.

    Args:
        folder: Graphs of the Standard Task Graph Set, with their best known makespans in ``best.csv``: see
            `optima_cases.known_cases`. None: generated workloads only.
        quick: Fewer cases, less time for each.

    Raises:
        FileFormatError: The folder, its table or a graph is wrong; at once, before anything is measured.
    """
    from graphsched.cli.optima_cases import known_cases

    if folder is None:
        return _generated(quick)
    cases = known_cases(folder)[:: QUICK_EVERY if quick else 1]
    for case in cases:
        _check(case)
    return _both(cases, quick)


def _check(case: KnownCase) -> None:
    """Make sure that its graph can be read, and that no schedule is known that cannot be."""
    from graphsched.cli.optima_cases import TABLE
    from graphsched.errors import FileFormatError

    bound = max(_job(case).bounds.values())
    if case.best is not None and case.best < bound * (1.0 - 1e-9):
        many = "" if case.processors == 1 else "s"
        raise FileFormatError(
            f"{case.name!r} on {case.processors} processor{many} takes {case.best:g} in {TABLE}, and no schedule takes "
            f"less than {bound:g}: correct the table, or the graph"
        )


def _both(cases: Sequence[KnownCase], quick: bool) -> Iterator[Data]:
    for data in _of_folder(cases, quick):
        yield data
    for more in _generated(quick):
        yield data | more


# -- identical processors, no communication --------------------------------------------------------


def _of_folder(cases: Sequence[KnownCase], quick: bool) -> Iterator[Data]:
    asked: dict[str, Options] = {
        "critical_path": {},
        "search": {"seconds": QUICK_SEARCH_S if quick else SEARCH_S},
        "optimal": {"seconds": QUICK_OPTIMAL_S if quick else OPTIMAL_S},
    }
    samples: list[Data] = []
    with _progress("graphs of the folder", [f"{case.name} on {case.processors}" for case in cases]) as begin:
        for case in cases:
            check_interrupted()
            begin(f"{case.name} on {case.processors}")
            found = _schedules(case, asked)
            best = min([each.makespan for each in found] + ([] if case.best is None else [case.best]))
            samples += [_sample(case, each, best) for each in found]
    rows = [_summary(name, [s for s in samples if s["scheduler"] == name]) for name in asked]
    yield {"optima": rows if quick else [row | _goal(row) for row in rows], "optima_samples": samples}


def _job(case: KnownCase) -> Job:
    from graphsched.cli.schedule_runs import on_processors
    from graphsched.formats.graph_files import open_graph

    return on_processors(open_graph(case.path, "stg"), case.processors)


def _schedules(case: KnownCase, asked: Mapping[str, Options]) -> list[_Result]:
    job = _job(case)
    bound = max(job.bounds.values())
    return [_timed(job.work, job.platform, name, options, bound) for name, options in asked.items()]


def _timed(work: Any, platform: Any, name: str, options: Options, bound: float) -> _Result:
    from graphsched.schedulers import schedule
    from graphsched.schedulers.searching.trials import WITHOUT_DISPATCH, tried_by
    from graphsched.simulator import predict

    begin = time.perf_counter()
    with tried_by(WITHOUT_DISPATCH):
        plan = schedule(work, platform, scheduler=name, **options)
    seconds = time.perf_counter() - begin
    plan.check()
    proven = max(bound, plan.bound_s or 0.0)
    return _Result(name, predict(plan, model=WITHOUT_DISPATCH).makespan_s, proven, seconds)


def _sample(case: KnownCase, found: _Result, best: float) -> Data:
    return {
        "graph": case.name,
        "processors": case.processors,
        "scheduler": found.scheduler,
        "makespan": found.makespan,
        "lower_bound": found.bound,
        "best": case.best,
        "excess": found.makespan / best - 1.0 if best else 0.0,
        "seconds": found.seconds,
    }


def _summary(name: str, samples: Sequence[Data]) -> Data:
    """One row: how far from the best known, or from what was found here where that is shorter."""
    excess = [sample["excess"] for sample in samples]
    proven = [sample["makespan"] <= sample["lower_bound"] * (1.0 + 1e-9) for sample in samples]
    known = [sample for sample in samples if sample["best"] is not None]
    return {
        "scheduler": name,
        "cases": len(samples),
        "mean_excess": statistics.fmean(excess),
        "worst_excess": max(excess),
        "best_share": statistics.fmean(share <= 1e-9 for share in excess),
        "proven_share": statistics.fmean(proven),
        "shorter_than_known": sum(sample["makespan"] < sample["best"] * (1.0 - 1e-9) for sample in known),
        "mean_time_s": statistics.fmean(sample["seconds"] for sample in samples),
        "longest_time_s": max(sample["seconds"] for sample in samples),
    }


def _goal(row: Data) -> Data:
    """The goal of a scheduler, and whether it is reached."""
    goals = GOALS[row["scheduler"]]
    reached = all(row[key] <= goal if key == "mean_excess" else row[key] >= goal for key, goal in goals.items())
    words = (f"{'≤' if key == 'mean_excess' else '≥'} {goal:.2%}".replace("%", " %") for key, goal in goals.items())
    return {"goal": ", ".join(words), "reached": reached}


# -- generated, with communication -----------------------------------------------------------------


def _generated(quick: bool) -> Iterator[Data]:
    from graphsched.schedulers.benchmarks.known_optima import METHODS

    asked: dict[str, Options] = {name: {} for name in COMMUNICATING}
    asked["search"] = {"seconds": QUICK_SEARCH_S if quick else SEARCH_S}
    cases = [
        (method, devices, tasks, share, seed)
        for method in METHODS
        for devices, tasks in (QUICK_SIZES if quick else SIZES)
        for share in SHARES
        for seed in range(QUICK_SEEDS if quick else SEEDS)
    ]
    samples: list[Data] = []
    with _progress("generated workloads", [_text(case) for case in cases]) as begin:
        for case in cases:
            check_interrupted()
            begin(_text(case))
            method, devices, tasks, share, seed = case
            made = METHODS[method](devices, tasks, communication=share, seed=seed)
            samples += [_row(made, share, seed, name, options) for name, options in asked.items()]
    yield {"generated_optima": _by_method(samples), "generated_optima_samples": samples}


def _text(case: Sequence[object]) -> str:
    method, devices, tasks, share, seed = case
    return f"{method}, {tasks} tasks on {devices}, communication {share}, seed {seed}"


def _row(made: KnownOptimum, share: float, seed: int, name: str, options: Options) -> Data:
    found = _timed(made.work, made.platform, name, options, made.makespan_s)
    return {
        "method": made.method,
        "devices": len(made.platform.devices),
        "tasks": len(made.work),
        "communication": share,
        "seed": seed,
        "scheduler": name,
        "makespan": found.makespan,
        "lower_bound": made.makespan_s,
        "best": made.makespan_s,
        "excess": found.makespan / made.makespan_s - 1.0,
        "seconds": found.seconds,
    }


def _by_method(samples: Sequence[Data]) -> list[Data]:
    keys = list(dict.fromkeys((s["method"], s["devices"], s["scheduler"]) for s in samples))
    rows = []
    for method, devices, name in keys:
        chosen = [s for s in samples if (s["method"], s["devices"], s["scheduler"]) == (method, devices, name)]
        row = _summary(name, chosen)
        del row["proven_share"], row["shorter_than_known"]
        rows.append({"method": method, "devices": devices} | row)
    return rows


def _progress(title: str, parts: Sequence[str]) -> Any:
    from graphsched.cli.progress import progress

    return progress(title, parts)

"""``measure``: calibration of this host."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphsched.cli.options import AsJson
from graphsched.cli.output import NONE, figure, print_json, print_rows, say, unit_free
from graphsched.errors import ExperimentError

if TYPE_CHECKING:
    from graphsched.cases import Experiment
    from graphsched.platform import Link, Platform


def measure(
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Also write the platform here.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and smaller transfers.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Measure a sample again, and say what has changed.")] = False,
    kept: Annotated[bool, typer.Option("--kept", help="Measure nothing: show or write what was kept.")] = False,
    name: Annotated[str | None, typer.Option("--name", help="Name of the platform.")] = None,
    costs: Annotated[
        list[str] | None,
        typer.Option("--costs", metavar="EXPERIMENT", help="Also measure what the tasks of this experiment cost."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Calibrate this host: transfers, dispatch and waits, beside the nominal figures.

    The result is kept for later commands. A file written with --out also carries the costs of
    operations that are kept for this host.
    """
    if kept and (quick or check or costs):
        raise ExperimentError("--kept measures nothing: leave out --quick, --check and --costs")
    if check and (out or quick or costs):
        raise ExperimentError(
            "--check compares with what was kept and writes nothing: leave out --out, --quick and --costs"
        )
    if check:
        return _check(as_json)
    if out is not None:
        _check_output(out)
    if not kept:
        _check_cache()
    experiments = _experiments(costs or [])
    platform, file = _kept(name) if kept else _measured(name, quick)
    for experiment in experiments:
        _measure_costs(experiment, platform)
    if out is not None:
        from graphsched.calibration import kept_costs

        platform.with_costs(kept_costs(platform)).save(out)
        file = out
    _show(platform, file, as_json)
    return 0


def _check_cache() -> None:
    """Make sure that what is measured can be kept."""
    from graphsched.calibration.kept import platform_path
    from graphsched.files import check_folder

    check_folder(platform_path().parent)


def _check_output(out: Path) -> None:
    from graphsched.errors import OutputError
    from graphsched.files import check_folder

    check_folder(out.parent)
    if out.is_dir():
        raise OutputError(f"cannot write {out}: it is a folder, name a file in it")


def _measured(name: str | None, quick: bool) -> tuple[Platform, Path]:
    from graphsched.calibration import measure_platform
    from graphsched.calibration.kept import platform_path

    platform = measure_platform(name=name, quick=quick, report=say)
    platform.save(platform_path())
    return platform, platform_path()


def _experiments(names: list[str]) -> list[Experiment]:
    from graphsched.cases import find

    return [find(name) for name in names]


def _measure_costs(experiment: Experiment, platform: Platform) -> None:
    """Measure and keep the costs of an experiment's tasks, at its default parameters."""
    from graphsched.calibration import profile
    from graphsched.cli.request import collect_cases

    say(f"costs of {experiment.name}")
    for _, case in collect_cases(experiment, experiment.values(), platform, mode="eager", only=None):
        if case.work is not None:
            profile(case.work, platform)


def _kept(name: str | None) -> tuple[Platform, Path]:
    from graphsched.calibration.kept import platform_path
    from graphsched.cli.request import kept_platform

    platform = kept_platform()
    return replace(platform, name=name or platform.name), platform_path()


def _show(platform: Platform, file: Path, as_json: bool) -> None:
    from graphsched.calibration import nominal_rows

    nominal = [asdict(row) for row in nominal_rows(platform)]
    dispatch = asdict(platform.dispatch)
    if as_json:
        data = {"platform": platform.name, "file": str(file)}
        data |= {key: platform.to_dict()[key] for key in ("devices", "links", "capacities", "dispatch", "cores")}
        print_json(data | {"nominal": nominal})
        return
    print_rows(_link_rows(platform), title=f"{platform.name}: transfers, each kind alone")
    print_rows([{"capacity": key, "rate_bytes_per_s": value} for key, value in platform.capacities.items()])
    rows = [{"cost": unit_free(key), "figure": figure(key, value)} for key, value in dispatch.items()]
    print_rows(rows, title="dispatch and waits")
    print_rows([_nominal_row(row) for row in nominal], title="measured, and nominal")
    print(f"written: {file}")


def _link_rows(platform: Platform) -> list[dict[str, Any]]:
    """One row for the links between two kinds of devices through one kind of memory."""
    kinds: dict[tuple[str, str], list[Link]] = {}
    for link in platform.links:
        ends = [platform.device(name).kind for name in (link.source, link.target)]
        here = "inside " + ends[0] if link.source == link.target else f"{ends[0]} to {ends[1]}"
        kinds.setdefault((here, link.memory), []).append(link)
    return [
        {
            "from_to": ends,
            "memory": memory,
            "links": len(links),
            "latency_s": median(link.latency_s for link in links),
            "slowest_bytes_per_s": min(link.bandwidth_bytes_per_s for link in links),
            "fastest_bytes_per_s": max(link.bandwidth_bytes_per_s for link in links),
        }
        for (ends, memory), links in kinds.items()
    ]


def _nominal_row(row: dict[str, Any]) -> dict[str, str]:
    high = "" if row["nominal_high"] is None else f"–{row['nominal_high']:g}"
    measured = NONE if row["measured"] is None else f"{row['measured']:.4g} {row['unit']}"
    nominal = f"{row['nominal']:g}{high} {row['unit']}"
    return {"what": row["what"], "measured": measured, "nominal": nominal, "source": row["source"]}


def _check(as_json: bool) -> int:
    from graphsched.calibration import check_platform
    from graphsched.cli.request import kept_platform

    platform = kept_platform()
    rows = check_platform(platform)
    drifted = any(row.drifted for row in rows)
    if as_json:
        print_json({"platform": platform.name, "drifted": drifted, "checked": [asdict(row) for row in rows]})
        return int(drifted)
    shown = [
        {"figure": row.entry, "kept_s": row.stored, "now_s": row.now, "ratio": row.ratio, "drifted": row.drifted}
        for row in rows
    ]
    print_rows(shown, title=f"{platform.name}: what was kept, measured again")
    if drifted:
        print("this host has drifted from what was kept: call 'graphsched measure'")
    return int(drifted)


COMMANDS = {"measure": measure}

"""``measure``: calibration of this host."""

from __future__ import annotations

import re
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
    pictures: Annotated[
        Path | None,
        typer.Option("--pictures", metavar="DIR", help="Draw bandwidth against size, and a map of device pairs, here."),
    ] = None,
    costs: Annotated[
        list[str] | None,
        typer.Option("--costs", metavar="EXPERIMENT", help="Also measure what the tasks of this experiment cost."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Calibrate this host: transfers, dispatch and waits, beside the nominal figures.

    The result is kept for later commands. A file written with --out also carries the costs of
    operations that are kept for this host. --check ends with 0 whatever it finds: its table and
    JSON say what has drifted.
    """
    _check_options(
        kept=bool(kept and (quick or check or costs)), check=bool(check and (out or quick or costs or pictures))
    )
    if check:
        return _check(as_json)
    if name is not None:
        _check_name(name)
    if out is not None:
        _check_output(out)
    if pictures is not None:
        _check_folder(pictures)
    if not kept:
        _check_cache()
    experiments = _experiments(costs or [])
    platform, file = _kept(name) if kept else _measured(name, quick)
    for experiment in experiments:
        _measure_costs(experiment, platform)
    if out is not None:
        _with_kept_costs(platform).save(out)
        file = out
    _show(platform, [file, *(_drawn(platform, pictures) if pictures is not None else ())], as_json)
    return 0


def _check_options(*, kept: bool, check: bool) -> None:
    """Refuse what contradicts ``--kept``, or ``--check``."""
    if kept:
        raise ExperimentError("--kept measures nothing: leave out --quick, --check and --costs")
    if check:
        raise ExperimentError(
            "--check compares with what was kept and writes nothing: leave out --out, --quick, --costs and --pictures"
        )


def _with_kept_costs(platform: Platform) -> Platform:
    """The platform with the costs kept for it that hold now; says which are left out."""
    from graphsched.calibration.cost_cache import kept_costs, left_out

    if (line := left_out(platform)) is not None:
        say(f"note: {line}")
    return platform.with_costs(kept_costs(platform))


def _drawn(platform: Platform, folder: Path) -> tuple[Path, ...]:
    from graphsched.charts import draw_platform

    return draw_platform(platform, folder)


def _check_folder(folder: Path) -> None:
    from graphsched.files import check_folder

    check_folder(folder)


def _check_cache() -> None:
    """Make sure that what is measured can be kept."""
    from graphsched.calibration.kept import platform_path

    _check_folder(platform_path().parent)


def _check_name(name: str) -> None:
    """Files and folders are named after a platform."""
    if not re.fullmatch(r"\w[\w.+-]*", name):
        raise ExperimentError(f"--name {name!r}: letters, digits, '_', '.', '+' or '-' are needed, no sign first")


def _check_output(out: Path) -> None:
    from graphsched.errors import OutputError

    _check_folder(out.parent)
    if out.is_dir():
        raise OutputError(f"cannot write {out}: it is a folder, name a file in it")


def _measured(name: str | None, quick: bool) -> tuple[Platform, Path]:
    """Measure and keep; what is interrupted leaves what was kept before."""
    from graphsched.calibration import measure_platform
    from graphsched.calibration.host import host_facts
    from graphsched.calibration.kept import platform_path
    from graphsched.calibration.parts import calibration_parts
    from graphsched.cli.progress import progress
    from graphsched.platform.consistency import reconciled

    try:
        with progress("measuring this host", calibration_parts(len(host_facts().gpus))) as report:
            platform = reconciled(measure_platform(name=name, quick=quick, report=report))
    except KeyboardInterrupt:
        before = "what was kept before stays" if platform_path().is_file() else "nothing is kept"
        say(f"the measurement is not complete: nothing was written, {before}")
        raise
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
    from graphsched.platform.consistency import reconciled

    platform = reconciled(kept_platform())
    return replace(platform, name=name or platform.name), platform_path()


def _show(platform: Platform, files: list[Path], as_json: bool) -> None:
    from graphsched.calibration import nominal_rows
    from graphsched.calibration.latencies import latency_rows

    nominal, times = ([asdict(row) for row in rows(platform)] for rows in (nominal_rows, latency_rows))
    dispatch = asdict(platform.dispatch)
    if as_json:
        data = {"platform": platform.name, "file": str(files[0]), "pictures": list(map(str, files[1:]))}
        whole = platform.to_dict()
        data |= {key: whole[key] for key in ("devices", "links", "capacities", "dispatch", "cores")}
        print_json(data | {"nominal": nominal, "times": times})
        return
    print_rows(_link_rows(platform), title=f"{platform.name}: transfers, each kind alone")
    print_rows([{"capacity": key, "rate_bytes_per_s": value} for key, value in platform.capacities.items()])
    if patterns := _pattern_rows(platform):
        print_rows(patterns, title="transfers together, predicted against measured")
    changes = dispatch.pop("changes")
    rows = [{"cost": unit_free(key), "figure": figure(key, value)} for key, value in dispatch.items()]
    rows += [
        {"cost": f"change after {kinds} kinds", "figure": figure("change_s", seconds)} for kinds, seconds in changes
    ]
    print_rows(rows, title="dispatch and waits")
    print_rows([_nominal_row(row) for row in nominal], title="measured, and nominal")
    print_rows([_nominal_row(row) for row in times], title="times to know, and what the text gives")
    print(f"written: {', '.join(map(str, files))}")


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


def _pattern_rows(platform: Platform) -> list[dict[str, Any]]:
    """Errors of the patterns that capacities were fitted on, and of others, the worst of each named."""
    from graphsched.quantities import percent_text

    rows = []
    for fitted, what in ((True, "fitted on"), (False, "not fitted on")):
        found = [row for row in platform.provenance.get("patterns", ()) if row["fitted"] == fitted]
        errors = [row["predicted_bytes_per_s"] / row["measured_bytes_per_s"] - 1 for row in found]
        if found:
            worst = max(range(len(found)), key=lambda k: abs(errors[k]))
            row = {"patterns": what, "number": len(found), "median": percent_text(median(map(abs, errors)))}
            flows = [">".join(flow) for flow in found[worst]["flows"]]
            more = f" and {len(flows) - 4} more" if len(flows) > 4 else ""
            rows.append(row | {"worst": percent_text(errors[worst]), "of": ", ".join(flows[:4]) + more})
    return rows


def _nominal_row(row: dict[str, Any]) -> dict[str, str]:
    shown = {key: _scaled(row[key], row["unit"]) for key in ("measured", "nominal")}
    high = "" if row["nominal_high"] is None else f" to {_scaled(row['nominal_high'], row['unit'])}"
    return {"what": row["what"], "measured": shown["measured"], "nominal": shown["nominal"] + high} | {
        "source": row["source"]
    }


def _scaled(value: float | None, unit: str) -> str:
    if value is None:
        return NONE
    return figure("time_s", value * 1e-6) if unit == "µs" else f"{value:.4g} {unit}"


def _check(as_json: bool) -> int:
    from graphsched.calibration import check_platform
    from graphsched.calibration.parts import check_parts
    from graphsched.cli.progress import progress
    from graphsched.cli.request import kept_platform

    platform = kept_platform()
    gpus = sum(device.kind == "cuda" for device in platform.devices)
    with progress("measuring a sample", check_parts(gpus)) as report:
        rows = check_platform(platform, report=report)
    drifted = [row for row in rows if row.drifted]
    if as_json:
        print_json({"platform": platform.name, "drifted": bool(drifted), "checked": [asdict(row) for row in rows]})
        return 0
    print_rows([_drift_row(asdict(row)) for row in rows], title=f"{platform.name}: what was kept, measured again")
    if drifted:
        listed = "".join(f"\n  {row.entry}" for row in drifted)
        print(f"{len(drifted)} of {len(rows)} figures have drifted; 'graphsched measure' measures all anew:{listed}")
    else:
        print(f"none of {len(rows)} figures has drifted")
    return 0


def _drift_row(row: dict[str, Any]) -> dict[str, str]:
    names = {"s": "seconds", "bytes/s": "rate_bytes_per_s"}
    shown = {
        key: figure(names[row["unit"]], row[key]) if row["unit"] in names else f"{row[key] / 1e12:.4g} TFLOP/s"
        for key in ("stored", "now")
    }
    drifted = "drifted" if row["drifted"] else ""
    return {"figure": row["entry"], "kept": shown["stored"], "now": shown["now"], "ratio": f"{row['ratio']:.3f}"} | {
        "larger by at most": f"{row['tolerance'] * 100:.0f} %",
        "": drifted,
    }


COMMANDS = {"measure": measure}

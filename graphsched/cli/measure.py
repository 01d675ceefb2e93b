"""``measure``: calibration of this host."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphsched.cli.measure_tables import drift_row, show_platform
from graphsched.cli.options import AsJson
from graphsched.cli.output import print_json, print_rows, say
from graphsched.errors import ExperimentError

if TYPE_CHECKING:
    from graphsched.cases import Experiment
    from graphsched.platform import Platform


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
    _check_outputs(name, out, pictures)
    if not kept:
        _check_cache()
    experiments = _experiments(costs or [])
    platform, file = _kept(name) if kept else _measured(name, quick)
    for experiment in experiments:
        _measure_costs(experiment, platform)
    if out is not None:
        _with_kept_costs(platform).save(out)
        file = out
    files = [file, *(_drawn(platform, pictures) if pictures is not None else ())]
    show_platform(platform, files, as_json=as_json, notes=_said_notes(platform))
    return 0


def _said_notes(platform: Platform) -> tuple[str, ...]:
    """What a reader must know of where the figures come from, said on stderr; returned for JSON."""
    from graphsched.cli.origin import platform_notes

    notes = platform_notes(platform)
    for line in notes:
        say(f"note: {line}")
    return notes


def _check_options(*, kept: bool, check: bool) -> None:
    """Refuse what contradicts ``--kept``, or ``--check``."""
    if kept:
        raise ExperimentError("--kept measures nothing: leave out --quick, --check and --costs")
    if check:
        raise ExperimentError(
            "--check compares with what was kept and writes nothing: leave out --out, --quick, --costs and --pictures"
        )


def _check_outputs(name: str | None, out: Path | None, pictures: Path | None) -> None:
    """Make sure that what is asked for can be named so, and written."""
    if name is not None:
        _check_name(name)
    if out is not None:
        _check_output(out)
    if pictures is not None:
        _check_folder(pictures)


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
    from graphsched.platform.disturbed import disturbed

    try:
        with progress("measuring this host", calibration_parts(len(host_facts().gpus))) as report:
            platform = reconciled(measure_platform(name=name, quick=quick, report=report))
    except KeyboardInterrupt:
        before = "what was kept before stays" if platform_path().is_file() else "nothing is kept"
        say(f"the measurement is not complete: nothing was written, {before}")
        raise
    platform.save(platform_path())
    for line in disturbed(platform.links):
        say(f"note: {line}")
    return platform, platform_path()


def _experiments(names: list[str]) -> list[Experiment]:
    from graphsched.cases import find

    return [find(name) for name in names]


def _measure_costs(experiment: Experiment, platform: Platform) -> None:
    """Measure and keep the costs of an experiment's tasks, at its default parameters."""
    from graphsched.calibration import profile
    from graphsched.cli.progress import counting
    from graphsched.cli.request import collect_cases

    say(f"costs of {experiment.name}")
    for _, case in collect_cases(experiment, experiment.values(), platform, mode="eager", only=None):
        if case.work is not None:
            with counting("operations to measure") as report:
                profile(case.work, platform, report=report)


def _kept(name: str | None) -> tuple[Platform, Path]:
    from graphsched.calibration.kept import platform_path
    from graphsched.cli.request import kept_platform
    from graphsched.platform.consistency import reconciled

    platform = reconciled(kept_platform())
    return replace(platform, name=name or platform.name), platform_path()


def _check(as_json: bool) -> int:
    from graphsched.calibration import check_platform
    from graphsched.calibration.parts import check_parts
    from graphsched.cli.progress import progress
    from graphsched.cli.request import kept_platform

    platform = kept_platform()
    notes = _said_notes(platform)
    gpus = sum(device.kind == "cuda" for device in platform.devices)
    with progress("measuring a sample", check_parts(gpus)) as report:
        rows = check_platform(platform, report=report)
    drifted = [row for row in rows if row.drifted]
    if as_json:
        data = {"platform": platform.name, "drifted": bool(drifted), "checked": [asdict(row) for row in rows]}
        print_json(data | ({"notes": list(notes)} if notes else {}))
        return 0
    print_rows([drift_row(asdict(row)) for row in rows], title=f"{platform.name}: what was kept, measured again")
    if drifted:
        listed = "".join(f"\n  {row.entry}" for row in drifted)
        print(f"{len(drifted)} of {len(rows)} figures have drifted; 'graphsched measure' measures all anew:{listed}")
    else:
        print(f"none of {len(rows)} figures has drifted")
    return 0


COMMANDS = {"measure": measure}

"""Requests for an experiment, checked whole before anything is measured or run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphsched.cases import Case, Experiment, find
from graphsched.cases.experiments import check_new
from graphsched.cli.options import TIME_LIMIT_S
from graphsched.cli.output import say
from graphsched.costs import Costs
from graphsched.errors import ExperimentError, FileFormatError, PlatformError
from graphsched.files import check_folder, read_json
from graphsched.plan import MODES, Plan
from graphsched.platform import Platform

SEED = 0


@dataclass(frozen=True, eq=False)
class Request:
    """An experiment with all that it is to be predicted or run with.

    Attributes:
        experiment, values: What, with all its parameters.
        platform, costs: On what; costs are those that the platform carries and, for this host, those kept.
        cases: With their numbers among all cases of the experiment, from 1.
        time_limit_s: Seconds that a scheduler may take for a case.
        plans: Of these cases with `costs`, by number and mode, as far as they have been made.
    """

    experiment: Experiment
    values: Mapping[str, Any]
    platform: Platform
    costs: Costs
    cases: Sequence[tuple[int, Case]]
    time_limit_s: float = TIME_LIMIT_S
    plans: dict[tuple[int, str | None], Plan] = field(default_factory=dict)


def read_params(texts: Sequence[str] | None) -> dict[str, str]:
    """``NAME=VALUE`` texts as a mapping.

    Raises:
        ExperimentError: One is not of that form, or a name comes twice.

    Example:
        >>> read_params(["size=64", "lanes=1,2"])
        {'size': '64', 'lanes': '1,2'}
    """
    given: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ExperimentError(f"parameter {text!r}: NAME=VALUE is needed, as in -p size=1024")
        if name.strip() in given:
            raise ExperimentError(f"parameter {name.strip()!r} is given twice: {given[name.strip()]!r} and {value!r}")
        given[name.strip()] = value.strip()
    return given


def read_modes(text: str) -> tuple[str, ...]:
    """The modes that a text names, between commas; each once.

    Raises:
        ExperimentError: There is no such mode.

    Example:
        >>> read_modes("eager, graph")
        ('eager', 'graph')
    """
    named = dict.fromkeys(part.strip() for part in text.split(","))
    for mode in named:
        if mode not in MODES:
            raise ExperimentError(f"no mode {mode!r}: one of {', '.join(MODES)}, or several between commas")
    return tuple(named)


def find_with_values(name: str, params: Sequence[str] | None, mode: str) -> tuple[Experiment, dict[str, Any]]:
    """The experiment and all values of its parameters; needs no platform.

    Raises:
        ExperimentError: The experiment, a parameter or the mode does not exist.
    """
    read_modes(mode)
    experiment = find(name)
    return experiment, experiment.values(**read_params(params))


def platform_to_predict(name: str | None) -> tuple[Platform, Costs]:
    """The platform called `name` with the costs in its file; default: this host as it was measured last.

    Raises:
        PlatformError: There is none of that name, or this host has not been measured.
    """
    if name is not None:
        platform = Platform.load(name)
        return platform, platform.costs
    from graphsched.calibration.cost_cache import kept_costs, left_out

    kept = kept_platform(instead=_another())
    if (line := left_out(kept)) is not None:
        say(f"note: {line}")
    return kept, kept.costs.merged(kept_costs(kept))


def _another() -> str:
    return (
        f", or name a platform with --platform: a file, or one of {', '.join(shipped_platforms()) or '(none shipped)'}"
    )


def kept_platform(instead: str = "") -> Platform:
    """This host's platform as it was measured last; `instead` is what else a user may do where it was not.

    Raises:
        PlatformError: This host has not been measured.
        FileFormatError: The file kept is truncated or of another version.
    """
    from graphsched.calibration.kept import platform_path

    if not platform_path().is_file():
        raise PlatformError(f"this host has not been measured: call 'graphsched measure' first{instead}")
    try:
        return Platform.from_dict(read_json(platform_path()))  # measured: figures may differ by noise
    except (FileFormatError, PlatformError) as error:
        text = f"{platform_path()}: {error}: call 'graphsched measure' to measure this host again"
        raise FileFormatError(text) from error


def platform_to_run(name: str | None) -> Platform:
    """This host's platform, measured if need be; or the one called `name`, whose GPUs must be here.

    Raises:
        PlatformError: A GPU of the named platform is not here, or is of another model.
    """
    if name is None:
        from graphsched.calibration import local_platform

        return local_platform()
    from graphsched.cli.origin import check_gpus_here

    platform = Platform.load(name)
    check_gpus_here(platform)
    return platform


def shipped_platforms() -> list[str]:
    """Names of the platforms that come with the package."""
    from importlib import resources

    files = (resources.files("graphsched") / "platforms").iterdir()
    return sorted(file.name.removesuffix(".json") for file in files if file.name.endswith(".json"))


def collect_cases(
    experiment: Experiment, values: Mapping[str, Any], platform: Platform, *, mode: str, only: str | None
) -> list[tuple[int, Case]]:
    """The experiment's cases in `mode`, numbered from 1; only those whose label holds `only`, if given.

    In several modes each case stands once in each, one after the other; one that has a mode of its own stands once.

    Raises:
        ExperimentError: None is left, or two cases of one label and scheduler are in the same mode.
    """
    modes = read_modes(mode)
    seed_everything(SEED)
    numbered = enumerate(experiment.cases(platform, **values), 1)
    cases = [(n, case.in_mode(each)) for n, case in numbered for each in (modes if case.mode is None else modes[:1])]
    seen: set[tuple[str, str | None, str | None]] = set()
    for _, case in cases:
        check_new(experiment.name, case, seen)
    chosen = [(number, case) for number, case in cases if only is None or only in case.label]
    if not chosen:
        labels = "".join(f"\n  {label}" for label in dict.fromkeys(case.label for _, case in cases))
        raise ExperimentError(f"no case of {experiment.name!r} has {only!r} in its label; there are:{labels}")
    return chosen


def seed_everything(seed: int) -> None:
    """Seed Python, NumPy and torch, so that an experiment makes the same tensors every time."""
    import random

    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def check_outputs(folder: Path, experiment: str) -> Path:
    """Make sure that the outputs of a run can be written into `folder`.

    Raises:
        OutputError: They cannot.
        FileFormatError: A file of an earlier run is there that cannot be read.
    """
    from graphsched.records import load_run, run_file

    check_folder(folder)
    if run_file(folder, experiment).exists():
        load_run(run_file(folder, experiment))
    return folder

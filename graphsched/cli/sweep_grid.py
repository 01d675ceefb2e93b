"""The grid of a sweep: platforms × parameters × modes × schedulers, checked whole before anything is predicted."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphsched.cases import Experiment
from graphsched.cli.output import value_text
from graphsched.cli.request import platform_to_predict, read_modes, read_params
from graphsched.cli.scheduler_words import Choice, check_choice, read_choices
from graphsched.cli.sweep_code import code_digest
from graphsched.costs import Costs
from graphsched.errors import ExperimentError
from graphsched.platform import Platform


@dataclass(frozen=True, eq=False)
class Point:
    """One point of the grid: an experiment's cases on one platform, with one value of each parameter.

    Attributes:
        experiment: How it is found again.
        values: Of all parameters.
        platform: Name or file; None: this host.
        platform_name: Its name.
        mode: As for `predict`.
        scheduler: In place of the cases' own; None: these.
        label: What tells it from the others, for people.
        key: Hash of all that the figures rest on.
        time_limit_s: Seconds that a scheduler may take for a case.
    """

    experiment: str
    values: Mapping[str, Any]
    platform: str | None
    platform_name: str
    mode: str
    scheduler: Choice | None
    label: str
    key: str
    time_limit_s: float


@dataclass(frozen=True, eq=False)
class Grid:
    """What is swept.

    Attributes:
        experiment: Whose cases.
        swept: Names of the parameters with several values.
        points: In order: platforms, then parameters, modes and schedulers.
    """

    experiment: Experiment
    swept: tuple[str, ...]
    points: tuple[Point, ...]


def make_grid(
    found: Experiment,
    name: str,
    platforms: Sequence[str],
    schedulers: Sequence[str],
    modes: str,
    params: Sequence[str] | None,
    time_limit_s: float,
) -> Grid:
    """The grid of `found`, which is called `name`.

    Raises:
        ExperimentError: A parameter or mode does not exist, or a value is of the wrong type.
        PlatformError: There is no such platform.
        ScheduleError: There is no such scheduler or option.
    """
    values = list(_combinations(found, params))
    choices = read_choices(schedulers) if schedulers else (None,)
    for choice in choices:
        if choice is not None:
            check_choice(choice)
    names = dict.fromkeys(part.strip() for text in platforms for part in text.split(","))
    named: list[str | None] = [*names] or [None]
    on = {platform: platform_to_predict(platform) for platform in named}
    code = {str(choice): code_digest(found.path, choice) for choice in choices}
    swept = tuple(key for key in values[0] if len({json.dumps(each[key]) for each in values}) > 1)
    points = []
    for platform, each, mode, choice in itertools.product(named, values, read_modes(modes), choices):
        there, costs = on[platform]
        words = [there.name, mode, *([] if choice is None else [str(choice)])]
        label = " ".join([*words, *(f"{key}={value_text(each[key])}" for key in swept)])
        key = _key(found.name, each, there, costs, mode, words[2:], code[str(choice)])
        points.append(Point(name, each, platform, there.name, mode, choice, label, key, time_limit_s))
    return Grid(found, swept, tuple({point.key: point for point in points}.values()))


def _combinations(found: Experiment, params: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    """Values of all parameters, for each combination of those given; a parameter of several values has ``;`` between.

    Raises:
        ExperimentError: A parameter does not exist, or a value is of the wrong type, or no finite number.
    """
    given = read_params(params)
    found.values(**dict.fromkeys(set(given) - {p.name for p in found.parameters}, ""))  # names those that are not
    sequences = {p.name for p in found.parameters if p.sequence}
    parts = {
        name: [part.strip() for part in text.split(";" if name in sequences or ";" in text else ",") if part.strip()]
        for name, text in given.items()
    }
    for name, each in parts.items():
        if not each:
            raise ExperimentError(f"parameter {name!r} has no value: as in -p {name}=1,2,4")
    for chosen in itertools.product(*parts.values()):
        values = found.values(**dict(zip(parts, chosen, strict=True)))
        for name, value in values.items():
            _check_finite(name, value)
        yield values


def _check_finite(name: str, value: Any) -> None:
    """Neither tables nor JSON hold other numbers, and none of them equals itself or can be drawn."""
    for item in value if isinstance(value, (tuple, list)) else (value,):
        if isinstance(item, float) and not math.isfinite(item):
            raise ExperimentError(f"parameter {name!r} is {value_text(value)}: finite numbers are needed in a sweep")


def _key(*rests_on: Any) -> str:
    """Hash of all that the figures of a point rest on."""
    plain = [
        each.digest() if isinstance(each, Platform) else each.to_dict() if isinstance(each, Costs) else each
        for each in rests_on
    ]
    return hashlib.sha256(json.dumps(plain, default=str).encode()).hexdigest()[:24]

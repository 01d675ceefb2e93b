"""The way whose result is predicted to be there first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from graphsched.collectives.operations import specification
from graphsched.collectives.requests import check_devices
from graphsched.costs import Costs
from graphsched.errors import CostError, PlatformError, ScheduleError, WorkloadError
from graphsched.platform import Platform
from graphsched.schedulers import schedule
from graphsched.simulator import Model, predict
from graphsched.workload import TensorSpec, Value, Workload

Way = tuple[str, int | None]
"""An algorithm and its number of blocks; None: it has none."""

Build = Callable[[Workload, list[Value]], Any]
"""Adds the collective for these values; what it makes."""

REFUSED = (ScheduleError, PlatformError, CostError)
SCHEDULER = "one_stream"


@dataclass(frozen=True)
class Choice:
    """What was found.

    Attributes:
        algorithm: The name of the fastest; of equally fast ones the first.
        blocks: Its number of blocks; None: it has none.
        seconds: Predicted seconds of all that were tried, by name and number of blocks (``ring, 8 blocks``).
        refused: Why others make no plan on this platform.
    """

    algorithm: str
    blocks: int | None
    seconds: Mapping[str, float]
    refused: Mapping[str, str]


def checked_platform(platform: Platform | None, devices: Sequence[str], blocks: int | None = None) -> Platform:
    """The platform for ``auto``, which has these devices.

    Raises:
        WorkloadError: There is none, it lacks a device, or a number of blocks was given.
    """
    if platform is None:
        raise WorkloadError("algorithm 'auto' simulates all others: give platform= to do it on")
    if blocks is not None:
        raise WorkloadError("algorithm 'auto' chooses the number of blocks too: leave blocks= out")
    check_devices(devices, platform)
    return platform


def fastest(
    specs: Sequence[TensorSpec],
    devices: Sequence[str],
    ways: Mapping[Way, Build],
    platform: Platform,
    costs: Costs | None,
    mode: str,
) -> Choice:
    """Simulate every one of `ways` alone, with a value of each of `specs` on each of `devices`.

    Each is scheduled with one compute lane a device, in the order in which its tasks are added. Costs that are not
    there are estimated.

    Raises:
        ScheduleError, PlatformError, CostError: None makes a plan: what stood in the way of the first.

    Not modelled: what else runs at the time; values that are there at different times.
    """
    seconds: dict[str, float] = {}
    refused: dict[str, Exception] = {}
    found: dict[str, Way] = {}
    for way, build in ways.items():
        label = way[0] if way[1] is None else f"{way[0]}, {way[1]} block{'s' if way[1] > 1 else ''}"
        try:
            seconds[label] = _seconds(specs, devices, build, platform, costs, mode)
            found[label] = way
        except REFUSED as error:
            refused[label] = error
    if not found:
        raise next(iter(refused.values()))
    best = min(found, key=lambda label: seconds[label])
    return Choice(*found[best], seconds, {label: str(error) for label, error in refused.items()})


def faster(
    collective: Callable[..., Any],
    algorithms: Sequence[str],
    values: Sequence[Value],
    devices: Sequence[str],
    platform: Platform | None,
    costs: Costs | None,
    mode: str,
) -> Choice:
    """The fastest of the `algorithms` of a collective that has no blocks."""
    ways: dict[Way, Build] = {(name, None): partial(collective, algorithm=name) for name in algorithms}
    specs = [specification(value) for value in values]
    return fastest(specs, devices, ways, checked_platform(platform, devices), costs, mode)


def _seconds(
    specs: Sequence[TensorSpec],
    devices: Sequence[str],
    build: Build,
    platform: Platform,
    costs: Costs | None,
    mode: str,
) -> float:
    work = Workload("alone")
    given = enumerate(zip(specs, devices, strict=True))
    made = build(work, [work.input(f"x{k}", spec, device=device) for k, (spec, device) in given])
    work.keep(*([made] if isinstance(made, Value) else made))
    plan = schedule(work, platform, costs, scheduler=SCHEDULER, mode=mode)
    return predict(plan, model=Model(timing=False, chance=False)).makespan_s  # none is chosen by luck

"""Every scheduler on every kind of workload: which one is the best where, by how much, and is it so when measured?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import graphsched as gs
from experiments._shared import check_known, check_sizes, counted
from experiments._unbound import CPU, INCEPTION, RANDOM, WORKLOADS, Sizes, unbound
from graphsched.errors import ScheduleError
from graphsched.schedulers import schedulers as all_schedulers
from graphsched.schedulers.asking.options import options_of
from graphsched.schedulers.registry import find_scheduler

ON_GPUS = Sizes(batch=256, shrink=1, size=2048, width=8, steps=8)
ON_WORKERS = Sizes(batch=4, shrink=4, size=64, width=4, steps=4)
FOR_WORKERS = ("LeNet", INCEPTION, "stencil", RANDOM)
SEVERAL_LANES = 4


@gs.experiment(source="GoogLeNet, Transformer, Task Bench; d2l.ai 12.5, 12.6")
def schedulers(
    platform: gs.Platform,
    networks: tuple[str, ...] = (),
    schedulers: tuple[str, ...] = (),
    devices: tuple[int, ...] = (1, 2, 4),
    with_cpu: tuple[int, ...] = (1,),
    batch: int = 0,
    size: int = 0,
    simulations: int = 10,
    iterations: int = 200,
    solver_s: float = 0.5,
) -> Iterator[gs.Case]:
    """Let every scheduler plan every kind of workload, on one device and several, and rank what comes of it.

    Training steps of LeNet, ResNet-18 and a transformer, with a replica of the parameters and `batch` images for each
    device; a cell of GoogLeNet; the patterns of Task Bench and a random layered graph, of `size`² matrices. Every task
    may run on any of the `devices`, so that it is the scheduler that finds, or does not find, that a replica belongs
    on a device. Beside `with_cpu` accelerators the CPU takes part: tasks without products or convolutions, of up to
    64 MiB, may run there; workloads without such tasks are left out.

    None given, `networks` are all of these, on a host without GPUs a few; `schedulers` are all that are registered.
    With ``batch=0`` and ``size=0`` they are as large as what the shipped platforms have costs of; on a host without
    GPUs small, and the CPU, whose threads the workers are, takes no part. On one device schedulers that choose lanes
    get four (one would leave them nothing but the order), on several as many as is their default. `simulations` limits
    ``streams`` (and ``auto``, which asks it), `iterations` ``search``, `solver_s` ``optimal`` (by the clock: where it
    proves nothing, another call may find another plan). What a scheduler refuses is told, and hides no other.

    Source: networks as in the experiments `partitioning`, `resnet18_data_parallel` and `branches`, graphs as in
    `task_bench` and `random_graphs`.
    """
    on_gpus = platform.accelerators()[0].startswith("cuda")
    sizes = _sizes(ON_GPUS if on_gpus else ON_WORKERS, batch, size)
    names = networks or (WORKLOADS if on_gpus else FOR_WORKERS)
    asked = schedulers or all_schedulers()
    check_known("workload", names, WORKLOADS)
    check_known("scheduler", asked, all_schedulers())
    check_sizes(devices=devices, with_cpu=with_cpu, solver_s=solver_s)
    budget = Budget(simulations, iterations, solver_s)
    for name in names:
        for place in _places(platform, devices, with_cpu if on_gpus else ()):
            work = unbound(name, place.accelerators, sizes, with_cpu=place.with_cpu)
            if place.with_cpu and not any(CPU in task.devices for task in work.tasks):
                continue
            for scheduler in asked:
                yield gs.Case(
                    f"{name}, {scheduler}, {place.words}",
                    work,
                    scheduler=scheduler,
                    options=_options(scheduler, platform, place, budget),
                    group=f"{name}, {place.words}",
                    optional=True,
                )


@dataclass(frozen=True)
class Budget:
    """What schedulers that look for long may spend: see `schedulers`."""

    simulations: int
    iterations: int
    solver_s: float


@dataclass(frozen=True)
class Place:
    """Devices that a workload may use."""

    accelerators: tuple[str, ...]
    with_cpu: bool = False

    @property
    def words(self) -> str:
        """For labels.

        Example:
            >>> Place(("cuda:0",), with_cpu=True).words
            'CPU and 1 GPU'
        """
        return f"{'CPU and ' if self.with_cpu else ''}{counted(self.accelerators)}"


def _places(platform: gs.Platform, devices: Sequence[int], with_cpu: Sequence[int]) -> Iterator[Place]:
    here = tuple(platform.accelerators())
    for numbers, beside in ((devices, False), (with_cpu, True)):
        yield from (Place(here[:number], beside) for number in numbers if number <= len(here))


def _sizes(default: Sizes, batch: int, size: int) -> Sizes:
    check_sizes(batch=batch or 1, size=size or 1)
    return replace(default, batch=batch or default.batch, size=size or default.size)


def _known(scheduler: str) -> Collection[str]:
    """The options of a scheduler; none where it cannot be loaded, which is told where it is asked."""
    try:
        return options_of(find_scheduler(scheduler))
    except ScheduleError:
        return ()


def _options(scheduler: str, platform: gs.Platform, place: Place, budget: Budget) -> dict[str, Any]:
    known = _known(scheduler)
    found: dict[str, Any] = {}
    if "lanes" in known and len(place.accelerators) == 1 and not place.with_cpu:
        found["lanes"] = min(SEVERAL_LANES, platform.device(place.accelerators[0]).lanes)
    if "simulations" in known:
        found["simulations"] = budget.simulations
    if scheduler == "search":
        found["iterations"] = budget.iterations
    if scheduler == "optimal":
        found["seconds"] = budget.solver_s
    return found

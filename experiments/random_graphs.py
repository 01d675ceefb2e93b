"""Random layered graphs of mixed kernels and copies, on accelerators and beside the CPU."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import graphsched as gs
from experiments._mixtures import mixture
from experiments._schedules import schedules
from experiments._shared import check_sizes, counted
from experiments.complex_graph import difference


@gs.experiment(source="d2l.ai 12.3, exercise 5")
def random_graphs(
    platform: gs.Platform,
    size: int = 2048,
    layers: int = 8,
    width: int = 8,
    seeds: tuple[int, ...] = (1, 2, 3),
    cpu_seeds: tuple[int, ...] = (4, 5),
    devices: tuple[int, ...] = (1, 2, 4),
    checks: bool = True,
) -> Iterator[gs.Case]:
    """Schedule random layered graphs of mixed kernels and copies, some beside the CPU.

    Products in single and half precision, means, softmax, layer norm, sums, and copies to the host and back,
    one graph a seed; in those of `cpu_seeds` light tasks may run on the CPU. With `checks` the figure
    ``max_abs_difference`` compares what a plan on accelerators returns with the same functions called one
    after the other: 0 is expected.

    Source: d2l.ai 12.3, exercise 5, asks for graphs with complex dependencies.
    """
    check_sizes(size=size, layers=layers, width=width, devices=devices)
    here = platform.accelerators()
    for seed in (*seeds, *cpu_seeds):
        mixed = seed in cpu_seeds
        for number in [n for n in devices if n <= len(here)]:
            used = here[:number]
            work = mixture(used, size, layers, width, seed=seed, cpu=mixed)
            where = f"{'CPU and ' if mixed else ''}{counted(used)}"
            for way in schedules(platform, used, waits=True):
                check = None
                if checks and not mixed:
                    check = functools.partial(difference, work, platform, way.scheduler, **way.options)
                label = f"random {seed}, {way.words}, {where}"
                yield gs.Case(label, work, scheduler=way.scheduler, options=way.options, metrics=check)

"""Task Bench: grids of tasks with the dependence patterns of parallel programs."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import torch

import graphsched as gs
from experiments._patterns import PATTERNS
from experiments._schedules import schedules
from experiments._shared import check_known, check_sizes, counted, random_matrix
from experiments.complex_graph import difference


@gs.experiment(source="Task Bench (Slaughter et al., SC 2020)")
def task_bench(
    platform: gs.Platform,
    size: int = 2048,
    width: int = 8,
    steps: int = 8,
    patterns: tuple[str, ...] = tuple(PATTERNS),
    devices: tuple[int, ...] = (1, 2, 4),
    checks: bool = True,
) -> Iterator[gs.Case]:
    """Schedule the patterns of Task Bench: stencil, sweep, FFT, tree and random.

    A grid of `steps` × `width` products of `size`² matrices; each reads what up to three points of the step
    before made. With `checks` the figure ``max_abs_difference`` compares what a plan returns with the
    same functions called one after the other: 0 is expected.

    Source: E. Slaughter, W. Wu, Y. Fu, et al.: Task Bench: a parameterized benchmark for evaluating
    parallel runtime performance. SC 2020. Its figures are of clusters of CPUs, and not comparable.
    """
    here = platform.accelerators()
    check_known("pattern", patterns, PATTERNS)
    check_sizes(size=size, width=width, steps=steps, devices=devices)
    for pattern in patterns:
        for number in devices:
            if number > len(here):
                continue
            used = here[:number]
            work = grid(pattern, used, size, width, steps)
            for way in schedules(platform, used):
                check = functools.partial(difference, work, platform, way.scheduler, **way.options) if checks else None
                label = f"{pattern}, {way.words}, {counted(used)}"
                yield gs.Case(label, work, scheduler=way.scheduler, options=way.options, metrics=check)


def grid(pattern: str, devices: Sequence[str], size: int, width: int, steps: int) -> gs.Workload:
    """A grid of products that may run on any of `devices`.

    ::

        sweep      t0/p0 ─ t1/p0 ─ t2/p0        tree    t0/p0 ─ t1/p0 ─┬─ t2/p0
                         ╲       ╲                            ╲        ╰─ t2/p1
                          t1/p1 ─ t2/p1                        t1/p1 ─┬─ t2/p2
                                ╲                                     ╰─ t2/p3
                                 t2/p2
    """
    work = gs.Workload("task_bench")
    x = work.input("x", random_matrix(size, size), device=devices[0])
    weight = work.input("w", random_matrix(size, size), device=devices[0])
    point = functools.partial(_point, work, weight, tuple(devices))
    before: list[gs.Value] = []
    for step in range(steps):
        columns = range(PATTERNS[pattern].points(step, width))
        reads = [[before[k] for k in PATTERNS[pattern].before(step, i, width)] or [x] for i in columns]
        before = [point(values, f"t{step}/p{i}") for i, values in enumerate(reads)]
    return work


def _point(
    work: gs.Workload, weight: gs.Value, devices: tuple[str, ...], values: Sequence[gs.Value], name: str
) -> gs.Value:
    """A product of the first value with `weight`, plus the mean of the others: as large as what is read."""
    first, *others = values
    if not others:
        value: gs.Value = work.task(torch.mm, first, weight, name=name, device=devices)
        return value
    other = others[0]
    if len(others) == 2:
        other = work.task(torch.lerp, *others, 0.5, name=f"{name}/mean", device=devices)
    return work.task(torch.addmm, other, first, weight, beta=0.5, alpha=0.5, name=name, device=devices)  # type: ignore[no-any-return]

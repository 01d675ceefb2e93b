"""Row 5a: are the independent products of `run` executed in parallel on one device?"""

from __future__ import annotations

from collections.abc import Iterator

import graphsched as gs
from experiments._shared import add_run, check_sizes, counted, lanes_that_fit, plain_run, random_matrix


@gs.experiment(source="d2l.ai 12.3, exercise 1")
def independent_ops(
    platform: gs.Platform,
    sizes: tuple[int, ...] = (4000, 256),
    products: int = 50,
    lanes: tuple[int, ...] = (1, 2, 4, 8),
) -> Iterator[gs.Case]:
    """Run the independent products of `run` on one device, in one lane and in several.

    A lane runs its products in order, so the text's `run` never executes two of them at once. With
    several lanes they may overlap; that helps only where one product leaves a part of the device idle.

    Source: d2l.ai 12.3, exercise 1.
    """
    check_sizes(sizes=sizes, products=products, lanes=lanes)
    device = platform.accelerators(1)[0]
    for size in sizes:
        where = f"{size} × {size}, {counted([device])}"
        work = _workload(device, size, products)
        yield gs.Case(f"plain PyTorch, {where}", baseline=plain_run(platform, device, size, products))
        for number in lanes_that_fit(platform, device, lanes):
            label = f"{number} lane{'s' if number > 1 else ''}, {where}"
            yield gs.Case(label, work, scheduler="round_robin", options={"lanes": number})


def _workload(device: str, size: int, products: int) -> gs.Workload:
    work = gs.Workload("independent_ops")
    add_run(work, work.input("x", random_matrix(size, size), device=device), products, device)
    return work

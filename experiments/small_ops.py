"""Row 5b: from which operation size down does concurrency help on one device?"""

from __future__ import annotations

from collections.abc import Iterator

import graphsched as gs
from experiments._shared import add_run, called, check_sizes, lanes_that_fit, random_matrix

MULTIPLE = 8  # of products a case, so that each of up to 8 lanes gets as many


@gs.experiment(source="d2l.ai 12.3, exercise 2")
def small_ops(
    platform: gs.Platform,
    sizes: tuple[int, ...] = (32, 128, 256, 512, 1024, 2048, 4096),
    products: int = 512,
    flops: float = 2e12,
    lanes: tuple[int, ...] = (1, 2, 4, 8),
    device: str = "",
) -> Iterator[gs.Case]:
    """Find the operation size below which several lanes are faster than one.

    Independent products of `sizes` in several numbers of `lanes` of one device: the first accelerator, or
    `device` (``cpu``). Each case makes `products` of them, fewer where they would take more than
    `flops` operations; always a multiple of 8. Very small products are bound by the
    Python thread that issues them, large ones fill the device alone: lanes help in between.

    Source: d2l.ai 12.3, exercise 2.
    """
    check_sizes(sizes=sizes, products=products, flops=flops, lanes=lanes)
    device = device or platform.accelerators(1)[0]
    for size in sizes:
        count = products_per_case(size, products, flops)
        work = gs.Workload("small_ops")
        add_run(work, work.input("x", random_matrix(size, size), device=device), count, device)
        for number in lanes_that_fit(platform, device, lanes):
            label = f"{count} products {size} × {size}, {number} lane{'s' if number > 1 else ''}, {called(device)}"
            yield gs.Case(label, work, scheduler="round_robin", options={"lanes": number})


def products_per_case(size: int, products: int, flops: float) -> int:
    """How many products a case makes: a multiple of `MULTIPLE`, within the budget of operations.

    Example:
        >>> products_per_case(32, 512, 2e12), products_per_case(2048, 512, 2e12), products_per_case(4096, 512, 2e12)
        (512, 112, 8)
    """
    affordable = min(products, int(flops / (2 * size**3)))
    return max(affordable // MULTIPLE, 1) * MULTIPLE

"""Row 1: the same work on two GPUs, one after the other and at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import graphsched as gs
from experiments._shared import add_run, called, check_sizes, counted, random_matrix

ALONE_S = {0: 0.512, 1: 0.492}
BOTH_S = 0.507


@gs.experiment(source="d2l.ai 12.3.1")
def parallel_compute(platform: gs.Platform, size: int = 4000, products: int = 50) -> Iterator[gs.Case]:
    """Run independent products on two devices, one after the other and at once.

    `products` products of a `size` × `size` matrix on each device. Python only issues them, so
    without a wait between the devices both compute at the same time.

    Source: d2l.ai 12.3.1; it prints 0.512 s and 0.492 s alone, 0.507 s for both at once.
    """
    check_sizes(size=size, products=products)
    devices = platform.accelerators()
    for number, device in enumerate(devices[:2]):
        work = _workload([device], size, products)
        yield gs.Case(f"alone, {called(device)}", work, scheduler="one_stream", reported_s=ALONE_S[number])
    if len(devices) < 2:
        return
    work = _workload(devices[:2], size, products, wait_between=True)
    after = f"one after the other, {counted(devices[:2])}"
    yield gs.Case(after, work, scheduler="one_stream", reported_s=sum(ALONE_S.values()))
    work = _workload(devices[:2], size, products)
    yield gs.Case(f"both at once, {counted(devices[:2])}", work, scheduler="one_stream", reported_s=BOTH_S)
    if len(devices) >= 4:
        work = _workload(devices[:4], size, products)
        yield gs.Case(f"all at once, {counted(devices[:4])}", work, scheduler="one_stream")


def _workload(devices: Sequence[str], size: int, products: int, *, wait_between: bool = False) -> gs.Workload:
    work = gs.Workload("parallel_compute")
    for number, device in enumerate(devices):
        if wait_between and number:
            work.barrier(f"synchronize{number}")
        x = work.input(f"x{number}", random_matrix(size, size), device=device)
        add_run(work, x, products, device)
    return work

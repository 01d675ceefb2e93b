"""Row 3 and exercise (c): the CPU and a GPU at once, with and without copies between them."""

from __future__ import annotations

from collections.abc import Iterator

import torch

import graphsched as gs
from experiments._shared import add_run, called, check_sizes, counted, random_matrix, short


@gs.experiment(source="d2l.ai 12.3")
def cpu_gpu(platform: gs.Platform, size: int = 4000, products: int = 50, cpu_products: int = 5) -> Iterator[gs.Case]:
    """Compute on the CPU and an accelerator, alone, together, and with copies between them.

    Each makes products of its own matrix: `products` on the accelerator, `cpu_products` on the CPU,
    which is slower. With copies, each CPU product reads a result of the accelerator, and the
    accelerator reads the CPU's results; work of other products goes on meanwhile.

    Source: d2l.ai 12.3, which prints no figures for this.
    """
    check_sizes(size=size, products=products, cpu_products=cpu_products)
    device = platform.accelerators(1)[0]
    both = f"CPU and {counted([device])}"
    yield gs.Case(f"alone, CPU, {cpu_products} products", _run({"cpu": cpu_products}, size), scheduler="one_stream")
    label = f"alone, {called(device)}, {products} products"
    yield gs.Case(label, _run({device: products}, size), scheduler="one_stream")
    work = _run({device: products, "cpu": cpu_products}, size)
    yield gs.Case(f"at once, {both}", work, scheduler="one_stream")
    work = _with_copies(device, size, max(1, products // cpu_products), cpu_products)
    yield gs.Case(f"at once with copies between, {both}", work, scheduler="one_stream")


def _run(products: dict[str, int], size: int) -> gs.Workload:
    work = gs.Workload("cpu_gpu")
    for device, count in products.items():
        x = work.input(f"{short(device)}/x", random_matrix(size, size), device=device)
        add_run(work, x, count, device)
    return work


def _with_copies(device: str, size: int, per_stage: int, stages: int) -> gs.Workload:
    """Stage by stage: the CPU reads what the accelerator made one stage before, and that what the CPU made two before.

    ::

        accelerator   g0      g1      g2      g3
                        ╲    ╱   ╲   ╱ ╲    (g2 reads c0, g3 reads c1)
        CPU           c0  ╲╱   c1  ╳   c2   (c1 reads g0, c2 reads g1)
    """
    work = gs.Workload("cpu_gpu")
    x = work.input(f"{short(device)}/x", random_matrix(size, size), device=device)
    mine = work.input("cpu/x", random_matrix(size, size))
    ahead: list[gs.Value] = []
    made: list[gs.Value] = []
    for stage in range(stages):
        read = made[stage - 2] if stage >= 2 else x
        ahead.append(work.task(torch.mm, x, read, name=f"{short(device)}/mm{stage * per_stage}", device=device))
        add_run(work, x, per_stage - 1, device, first=stage * per_stage + 1)
        read = ahead[stage - 1] if stage else mine
        made.append(work.task(torch.mm, mine, read, name=f"cpu/mm{stage}", device="cpu"))
    return work

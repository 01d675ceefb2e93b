"""Row 2: copies to the CPU, after the computation and during it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import graphsched as gs
from experiments._shared import add_run, check_sizes, counted, random_matrix, short

RUN_S = 0.512
COPY_S = 2.376
OVERLAPPED_S = 1.668


@gs.experiment(source="d2l.ai 12.3.2")
def overlap(platform: gs.Platform, size: int = 4000, products: int = 50) -> Iterator[gs.Case]:
    """Copy results to the CPU, after all are there and while the next is computed.

    The text waits, then copies into new pageable memory; or it passes ``non_blocking=True``, which
    means pinned memory on the stream that computes, so that the copies come after the products all the
    same. On a lane of its own each copy runs while the next product is computed.

    Source: d2l.ai 12.3.2; it prints 0.512 s for the products, 2.376 s for the copies and 1.668 s
    overlapped; another host 0.536, 2.112 and 1.540 s.
    """
    check_sizes(size=size, products=products)
    device = platform.accelerators(1)[0]
    where = counted([device])
    case = functools.partial(gs.Case, scheduler="one_stream")
    same_stream = {"copies": "compute"}

    work = _products(device, size, products)[0]
    yield case(f"products alone, {where}", work, reported_s=RUN_S)
    work = _copies(device, size, products, fresh=True)
    yield case(f"copies alone, new pageable memory, {where}", work, reported_s=COPY_S)
    work = _copies(device, size, products, pinned=True)
    yield case(f"copies alone, pinned memory, {where}", work)
    work = _after_a_wait(device, size, products)
    yield case(f"copies after a wait, new pageable memory, {where}", work, reported_s=RUN_S + COPY_S)
    work = _after_all(device, size, products)
    label = f"non_blocking=True, pinned memory, same stream, {where}"
    yield case(label, work, options=same_stream, reported_s=OVERLAPPED_S)
    work = _overlapped(device, size, products)
    yield case(f"overlapped, pinned memory, own lane, {where}", work, scheduler="heft", reported_s=OVERLAPPED_S)


def _products(device: str, size: int, products: int) -> tuple[gs.Workload, list[gs.Value]]:
    work = gs.Workload("overlap")
    x = work.input("x", random_matrix(size, size), device=device)
    return work, add_run(work, x, products, device)


def _copies(device: str, size: int, products: int, **memory: Any) -> gs.Workload:
    work = gs.Workload("overlap")
    there = [work.input(f"y{i}", random_matrix(size, size), device=device) for i in range(products)]
    return _copied(work, there, device, **memory)


def _after_a_wait(device: str, size: int, products: int) -> gs.Workload:
    work, made = _products(device, size, products)
    work.barrier("synchronize")
    return _copied(work, made, device, fresh=True)


def _after_all(device: str, size: int, products: int) -> gs.Workload:
    work, made = _products(device, size, products)
    return _copied(work, made, device, pinned=True)


def _overlapped(device: str, size: int, products: int) -> gs.Workload:
    work = gs.Workload("overlap")
    x = work.input("x", random_matrix(size, size), device=device)
    for i in range(products):
        (y,) = add_run(work, x, 1, device, first=i)
        _copied(work, [y], device, first=i, pinned=True)
    return work


def _copied(work: gs.Workload, values: list[gs.Value], device: str, *, first: int = 0, **memory: Any) -> gs.Workload:
    for i, value in enumerate(values, first):
        work.copy(value, to="cpu", name=f"{short(device)}/copy{i}", **memory)
    return work

"""Row 10: n operations with a wait each, and with one wait at the end."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import torch

import graphsched as gs
from experiments._front_end import Loop, measure_stages, queue_nbytes
from experiments._shared import check_sizes, counted

MINIBATCH = 100


@gs.experiment(source="d2l.ai 12.2")
def async_frontend(
    platform: gs.Platform, n: tuple[int, ...] = (1, 10, 100, 1000, 10_000), elements: int = 2
) -> Iterator[gs.Case]:
    """Issue n tiny operations with a wait after each, and with one wait at the end.

    Python (t1 an operation) issues, the device (t2) computes, the result's return takes t3. The text
    says: n (t1 + t2 + t3) with a wait each, about t1 + n t2 + t3 without. It takes t1 < t2 for
    granted; with tiny operations t1 is the longer one, so ``slower_stage_formula_s`` puts the longer of
    both in the place of t2. t1, t2 and t3 are measured by themselves.

    A queue that is never waited for costs memory: ``queue_nbytes`` is what issuing the operations of
    the plain loops adds at most, each with a result of 256 KiB that a slower reader still needs
    (CPU: what the queue itself adds). So wait once a minibatch.

    Source: d2l.ai 12.2, which prints the formulas and takes n up to 10 000.
    """
    check_sizes(n=n, elements=elements)
    device = platform.accelerators(1)[0]
    for count in n:
        where = f"n={count}, {counted([device])}"
        work = chain(device, count, elements)
        each = functools.partial(formulas, device, elements, count, waits=count)
        once = functools.partial(formulas, device, elements, count, waits=1)
        yield gs.Case(f"a wait each, {where}", work, scheduler="sequential", metrics=each)
        yield gs.Case(f"one wait at the end, {where}", work, scheduler="one_stream", metrics=once)
        yield _plain("a wait each", where, Loop(device, elements, count, wait_every=1))
        if count > MINIBATCH:
            yield _plain("a wait each minibatch", where, Loop(device, elements, count, wait_every=MINIBATCH))
        if count > 1:
            yield _plain("one wait at the end", where, Loop(device, elements, count, wait_every=count))


def chain(device: str, count: int, elements: int) -> gs.Workload:
    """`count` additions in a row."""
    work = gs.Workload("async_frontend")
    value = work.input("x", torch.zeros(elements), device=device)
    for i in range(count):
        value = work.task(torch.add, value, 1.0, name=f"add{i}", device=device)
    return work


def formulas(device: str, elements: int, count: int, *, waits: int) -> dict[str, float]:
    """t1, t2 and t3 as measured, and the time that the text's formula makes of them for `count` operations."""
    t1, t2, t3 = measure_stages(device, elements)
    measured = {"t1_s": t1, "t2_s": t2, "t3_s": t3}
    if waits == count:
        return measured | {"formula_s": count * (t1 + t2 + t3)}
    slower = t1 + t2 + (count - 1) * max(t1, t2) + t3
    return measured | {"formula_s": t1 + count * t2 + t3, "slower_stage_formula_s": slower}


def _plain(waits: str, where: str, loop: Loop) -> gs.Case:
    def memory() -> dict[str, float]:
        return {"queue_nbytes": queue_nbytes(loop.device, loop.count, loop.wait_every)}

    return gs.Case(f"plain PyTorch, {waits}, {where}", baseline=loop, metrics=memory)

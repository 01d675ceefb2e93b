"""Values on k workers, what collectives make of them, and the bytes that plans move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch

import graphsched as gs
from graphsched.workload import TensorSpec, Value
from tests.executors.programs import Plain, machine

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
]
FREE = ("gather", "cpu", "server", "sharded", "ring", "rings", "tree", "halving", "library")
"""Algorithms of all_reduce that need no groups."""


def workers(k: int) -> list[str]:
    return [f"worker:{i}" for i in range(k)]


def whole_numbers(k: int, shape: Sequence[int], dtype: torch.dtype, seed: int = 0) -> list[torch.Tensor]:
    """Small whole numbers: their sums are exact in every type."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, 8, tuple(shape), generator=generator).to(dtype) for _ in range(k)]


def floats(k: int, n: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Numbers of which sums in another order have other bits."""
    generator = torch.Generator().manual_seed(k)
    return [torch.randn(n, generator=generator, dtype=dtype) * 10.0**i for i in range(k)]


def on_workers(tensors: Sequence[torch.Tensor | TensorSpec]) -> tuple[gs.Workload, list[Value]]:
    """An input x0, x1, … on each worker."""
    work = gs.Workload("collective")
    return work, [work.input(f"x{k}", tensor, device=f"worker:{k}") for k, tensor in enumerate(tensors)]


def plainly(work: gs.Workload, values: Sequence[Value]) -> list[torch.Tensor]:
    """The values by a loop over the tasks, without a plan."""
    work.keep(*values)
    results = Plain(work).run()
    return [results[value.name] for value in values]


def really(work: gs.Workload, values: Sequence[Value], k: int, scheduler: str = "one_stream") -> list[torch.Tensor]:
    """The values by a run on k workers."""
    work.keep(*values)
    plan = gs.schedule(work, machine(*workers(k)), scheduler=scheduler)
    plan.check()
    with gs.Program(plan) as program:
        results = program.run()
    return [results[value.name] for value in values]


def moved(work: gs.Workload, values: Sequence[Value], k: int) -> tuple[Counter[str], Counter[str]]:
    """Bytes that each device sends and receives in a plan."""
    work.keep(*values)
    plan = gs.schedule(work, machine(*workers(k)), scheduler="one_stream")
    sent, received = Counter[str](), Counter[str]()
    for copy in plan.copies.values():
        assert copy.source != copy.target
        sent[copy.source] += copy.read.value.nbytes
        received[copy.target] += copy.read.value.nbytes
    return sent, received


def all_equal(found: Sequence[torch.Tensor]) -> bool:
    """Whether all have the same bits."""
    return all(torch.equal(one, found[0]) for one in found)

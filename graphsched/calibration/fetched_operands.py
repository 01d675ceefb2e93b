"""Operands of an operation on a CPU lane as a copy engine leaves them.

Beside a GPU most of what such a task reads has just come from there, and lies in no core's cache. Operands that the
cores have read themselves a moment before are read a fifth faster; after some milliseconds of sleep, in which cores
lose their caches, a fifth slower (docs/readings.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from graphsched.calibration.serial_run import clone

FETCHES = 3
LARGEST_BYTES = 2**30


class Fetched(NamedTuple):
    """Tensors in pinned memory that a GPU can write again.

    Attributes:
        tensors: The tensors.
        fetch: Has the GPU write them, with what they held at first, and waits for it.
        fetch_s: How long that takes.
    """

    tensors: list[Any]
    fetch: Callable[[], None]
    fetch_s: float


def fetched(tensors: Sequence[Any], sets: int) -> list[Fetched]:
    """So many clones of `tensors` of the CPU, each of which the first GPU can write again.

    It leaves alone what has gaps between its elements, which no engine copies at once, and what is larger than 1 GB,
    which no cache holds anyway.
    """
    import torch

    new_stream: Any = torch.cuda.Stream
    stream = new_stream()
    held = [clone(tensor).cuda() if tensor.nbytes <= LARGEST_BYTES else None for tensor in tensors]
    return [_fetched(tensors, held, stream) for _ in range(sets)]


def _fetched(tensors: Sequence[Any], held: Sequence[Any], stream: Any) -> Fetched:
    import torch

    clones, copies = [], []
    for tensor, there in zip(map(clone, tensors), held, strict=True):
        whole = there is not None and there.stride() == tensor.stride()
        clones.append(tensor.pin_memory() if whole else tensor)
        if whole:
            copies.append((clones[-1], there))

    def fetch() -> None:
        with torch.cuda.stream(stream), torch.no_grad():
            for here, there in copies:
                here.copy_(there, non_blocking=True)
        stream.synchronize()

    return Fetched(clones, fetch, min([_seconds(fetch) for _ in range(FETCHES)]))


def _seconds(call: Callable[[], None]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began

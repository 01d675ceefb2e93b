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


def fetched(tensors: Sequence[Any]) -> Fetched:
    """Clones of `tensors` of the CPU that the first GPU can write again.

    It leaves alone those with gaps between their elements: no engine copies them at once.
    """
    import torch

    new_stream: Any = torch.cuda.Stream
    clones, copies, stream = [], [], new_stream()
    for tensor in map(clone, tensors):
        held = tensor.cuda()
        if held.stride() == tensor.stride():
            tensor = tensor.pin_memory()
            copies.append((tensor, held))
        clones.append(tensor)

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

"""Waking GPUs: one that has rested runs faster for a while than one that works, which no loop of a user sees.

On H100s kernels of a megabyte in a CUDA graph took 1.43 µs each until the GPU had worked for a moment without a pause,
and 1.67 from then on, with all memory in use 1.47 and 1.87, a stamp 0.8 and 1.1. Replays one by one do not end that
state, nor does a spin, an event, a copy or a pause of a second (figures: docs/graph-mode.md). What is measured in one
state is not what runs in the other, so both begin behind some work.

Not modelled: why that is so; how long a GPU must rest to be fast again.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphsched.executors.program import Program

ELEMENTS, CALLS = 2**18, 300


def awake(program: Program) -> Program:
    """`program`, its GPUs woken: they have rested while it was made."""
    try:
        wake(program.gpus)
    except BaseException:
        program.close()
        raise
    return program


def wake(devices: Iterable[int]) -> None:
    """Let each of these GPUs work for a moment, a few hundred small kernels, and wait for them.

    Args:
        devices: Their numbers; one without room for 2 MB is left as it is.
    """
    import torch

    for device in devices:
        with suppress(torch.OutOfMemoryError):
            values: Any = torch.zeros(ELEMENTS, device=f"cuda:{device}")
            for _ in range(CALLS):
                torch.relu(values)
            torch.cuda.synchronize(device)

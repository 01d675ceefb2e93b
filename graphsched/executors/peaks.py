"""What a plan takes of GPUs' memory for real.

Not modelled: memory of CUDA itself and of libraries that do not ask torch for it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from graphsched.executors import capture
from graphsched.executors.lanes import device_index, is_cuda
from graphsched.executors.memory import devices_of
from graphsched.executors.program import Program
from graphsched.executors.workspaces import give_back, torchs_own
from graphsched.plan import Plan


@dataclass(frozen=True, slots=True)
class MeasuredPeak:
    """What a program took of a GPU's memory.

    Attributes:
        nbytes: The most in use at once, by `torch.cuda.max_memory_allocated`, without what was in use before.
        library_bytes: What libraries took in a first run and keep (workspaces of cuBLAS); not among `nbytes`.
    """

    nbytes: int
    library_bytes: int


def measured_peaks(
    plan: Plan, *, mode: str | None = None, inputs: Mapping[str, Any] | None = None
) -> dict[str, MeasuredPeak]:
    """The peak of each GPU from the making of a program of `plan` to the end of its run, as in `Plan.peak_memory`.

    That of a second program: with the first one libraries take what they keep. Torch's cache is emptied before each.
    States and torch's random numbers are as before afterwards.

    Raises:
        TaskFailedError: A task raised.
        OutOfMemoryError: The plan does not fit.
    """
    import torch

    gpus = {device: device_index(device) for device in devices_of(plan) if is_cuda(device)}
    if not gpus:
        return {}
    with _numbers_kept(list(gpus.values())), torchs_own():
        give_back()
        before = _allocated(gpus)
        _run(plan, mode, inputs)
        resting = _allocated(gpus)
        for index in gpus.values():
            torch.cuda.reset_peak_memory_stats(index)
        _run(plan, mode, inputs)
        highest = {device: torch.cuda.max_memory_allocated(index) for device, index in gpus.items()}
    return {d: MeasuredPeak(highest[d] - resting[d], resting[d] - before[d]) for d in gpus}


def _run(plan: Plan, mode: str | None, inputs: Mapping[str, Any] | None) -> None:
    with Program(plan, mode=mode) as program:
        program.run(**inputs or {})


def _allocated(gpus: Mapping[str, int]) -> dict[str, int]:
    import torch

    gc.collect()
    capture.settle(list(gpus.values()))
    torch.cuda.empty_cache()
    return {device: torch.cuda.memory_allocated(index) for device, index in gpus.items()}


@contextmanager
def _numbers_kept(devices: list[int]) -> Iterator[None]:
    numbers = capture.random_states(devices)
    try:
        yield
    finally:
        capture.set_random_states(numbers)

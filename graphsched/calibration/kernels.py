"""Kernels of operations as torch's profiler saw them: grid, block, registers, shared memory, time.

Not modelled: copies and fills on the device, which take time and place no blocks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from graphsched.costs import Kernel, Multiprocessors

WARP = 32
REGISTERS_STEP = 8  # of a thread
RESERVED_SHARED_BYTES = 1024  # of each block, by the driver
REGISTERS = 65536  # of a multiprocessor, on every GPU since 2014
DEVICE_WORK = ("kernel", "gpu_memset", "gpu_memcpy")

BLOCKS = {(7, 5): 16, (8, 6): 16, (8, 7): 16, (8, 9): 24, (12, 0): 24}
"""Places for blocks on a multiprocessor, by compute capability (CUDA C++ Programming Guide, table 'Technical
Specifications per Compute Capability'); 32 on those not named."""


@dataclass(frozen=True)
class Launched:
    """What a call of an operation launched: how many things, and which kernels they were."""

    launches: int = 1
    kernels: tuple[Kernel, ...] = ()


def kernel_of(
    grid: Sequence[int], block: Sequence[int], registers: int, shared_bytes: int, share: float = 1.0
) -> Kernel:
    """The kernel of a launch, with registers and shared memory as they are allocated.

    Args:
        registers: Of a thread.
        shared_bytes: Of a block, as asked for.

    Example:
        >>> kernel_of([8, 8, 4], [128, 1, 1], 121, 12672)
        Kernel(blocks=256, registers=16384, threads=128, shared_bytes=13696, share=1.0)
    """
    warps = math.ceil(math.prod(block) / WARP)
    each = math.ceil(registers / REGISTERS_STEP) * REGISTERS_STEP
    return Kernel(math.prod(grid), each * warps * WARP, warps * WARP, shared_bytes + RESERVED_SHARED_BYTES, share)


def launched_between(trace: Mapping[str, Any], separator: str) -> list[Launched]:
    """What was launched between the first and second, third and fourth, … kernel whose name holds `separator`.

    Args:
        trace: As exported by torch's profiler, in Chrome's format.

    Example:
        >>> spin = {"cat": "kernel", "name": "spin", "dur": 1}
        >>> sizes = {"grid": [2, 1, 1], "block": [32, 1, 1], "registers per thread": 8, "shared memory": 0}
        >>> events = [spin | {"ts": 1}, {"cat": "kernel", "name": "mm", "dur": 3, "ts": 2, "args": sizes}]
        >>> launched_between({"traceEvents": [*events, spin | {"ts": 5}]}, "spin")[0].launches
        1
    """
    events = [e for e in trace.get("traceEvents", ()) if e.get("cat") in DEVICE_WORK]
    events.sort(key=lambda event: float(event["ts"]))
    places = [i for i, event in enumerate(events) if separator in event["name"]]
    pairs = zip(places[::2], places[1::2], strict=False)
    return [_launched(events[first + 1 : last]) for first, last in pairs]


def _launched(events: Sequence[Mapping[str, Any]]) -> Launched:
    kernels = [event for event in events if event["cat"] == "kernel"]
    found = tuple(_kernel(event) for event in kernels)
    total = sum(kernel.share for kernel in found)
    if not total:
        return Launched(max(1, len(events)))
    return Launched(max(1, len(events)), tuple(replace(kernel, share=kernel.share / total) for kernel in found))


def _kernel(event: Mapping[str, Any]) -> Kernel:
    sizes = event["args"]
    return kernel_of(
        sizes["grid"], sizes["block"], sizes["registers per thread"], sizes["shared memory"], float(event["dur"])
    )


def multiprocessors(device: int) -> Multiprocessors:
    """What a CUDA device places blocks on."""
    import torch

    found: Any = torch.cuda.get_device_properties(device)
    return Multiprocessors(
        count=found.multi_processor_count,
        registers=getattr(found, "regs_per_multiprocessor", REGISTERS),  # torch 2.6 may not tell
        threads=found.max_threads_per_multi_processor,
        shared_bytes=found.shared_memory_per_multiprocessor,
        blocks=BLOCKS.get((found.major, found.minor), 32),
    )

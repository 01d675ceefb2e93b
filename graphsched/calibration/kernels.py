"""Kernels of operations as a multiprocessor sees them: blocks, threads, registers, shared memory.

Not modelled: copies and fills on the device, which take time and place no blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphsched.costs import Kernel, Multiprocessors

WARP = 32
REGISTERS_STEP = 8  # of a thread
RESERVED_SHARED_BYTES = 1024  # of each block, by the driver
REGISTERS = 65536  # of a multiprocessor, on every GPU since 2014

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
        Kernel(blocks=256, registers=16384, threads=128, shared_bytes=13696, share=1.0, code='', relief=0.5)
    """
    warps = math.ceil(math.prod(block) / WARP)
    each = math.ceil(registers / REGISTERS_STEP) * REGISTERS_STEP
    return Kernel(math.prod(grid), each * warps * WARP, warps * WARP, shared_bytes + RESERVED_SHARED_BYTES, share)


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

"""Peak rates of devices: a large fp32 product of random matrices, and the host's own memory copies."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from graphsched.calibration.cpu_links import torch_threads
from graphsched.calibration.cuda_clock import Spinner, new_stream, queued_s

CUDA_SIZE = 4096
CPU_SIZE = 512
FEW_CORES = 4


def product_flop_per_s(size: int, seconds: float) -> float:
    """Operations a second of a product of two square matrices.

    Example:
        >>> product_flop_per_s(1000, 1.0)
        2000000000.0
    """
    return 2 * size**3 / seconds


def cuda_flop_per_s(spinner: Spinner, repeats: int = 5) -> float:
    """fp32 arithmetic of a CUDA device with torch's present precision settings, operations/s."""
    product, stream = _product(CUDA_SIZE, f"cuda:{spinner.device}"), new_stream(spinner.device)
    stream.synchronize()
    samples = [queued_s(spinner, (stream,), product, 4) for _ in range(repeats + 2)][2:]
    return product_flop_per_s(CUDA_SIZE, median(samples))


def cpu_flop_per_s(threads: int, repeats: int = 5) -> float:
    """fp32 arithmetic of one CPU lane of `threads` threads, operations/s."""
    size = CPU_SIZE if threads == 1 else 4 * CPU_SIZE
    product = _product(size, "cpu")
    with torch_threads(threads):
        samples = [_seconds(product) for _ in range(repeats + 2)][2:]
    return product_flop_per_s(size, median(samples))


def cpu_threads(cores: int, rate: Callable[[int], float] = cpu_flop_per_s) -> tuple[int, float]:
    """Threads for one CPU lane beside GPUs, on `cores` hardware threads, and their fp32 arithmetic, operations/s.

    All but one, or half where that is as fast to within a tenth: hardware threads that share a core add little. One
    is left to the thread that dispatches, for an operation ends with the slowest of its threads: one that had to share
    its core made tasks longer by most of what dispatching took meanwhile (docs/readings.md).

    Example:
        >>> cpu_threads(8, rate={7: 100.0, 4: 95.0}.get), cpu_threads(8, rate={7: 100.0, 4: 60.0}.get)
        ((4, 95.0), (7, 100.0))
        >>> cpu_threads(2, rate={1: 30.0}.get)
        (1, 30.0)
    """
    most = max(1, cores - 1)
    if cores < FEW_CORES:
        return most, rate(most)
    whole, half = rate(most), rate(cores // 2)
    return (cores // 2, half) if half >= 0.9 * whole else (most, whole)


def _product(size: int, device: str) -> Callable[[], Any]:
    import torch

    random = torch.Generator(device).manual_seed(0)
    a, b = (torch.rand(size, size, generator=random, device=device) for _ in range(2))
    out = torch.empty_like(a)
    if device != "cpu":
        torch.cuda.synchronize(device)
    return lambda: torch.mm(a, b, out=out)


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start

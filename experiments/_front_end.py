"""The asynchronous front end by itself: its stages, and the memory of its queue."""

from __future__ import annotations

import functools
import statistics
import threading
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch

from experiments._shared import torch_device

BATCH = 500  # fewer than a CUDA launch queue holds
REPEATS = 20
QUEUED = 4000  # most operations whose queue is measured
RESULT_NBYTES = 256 * 1024
SPIN_CYCLES = 20_000_000  # about 10 ms: longer than Python takes for a batch
SHORT_SPIN_CYCLES = 200_000  # about 0.1 ms

cuda: Any = torch.cuda  # parts of it have no type hints

Stages = tuple[float, float, float]


@dataclass(frozen=True)
class Loop:
    """`count` additions in a row in plain PyTorch, with a wait after every `wait_every`."""

    device: str
    elements: int
    count: int
    wait_every: int

    def __call__(self) -> torch.Tensor:
        value = zeros(self.device, self.elements)
        wait = _wait_for(self.device)
        for i in range(1, self.count + 1):
            value = torch.add(value, 1.0)
            if i % self.wait_every == 0:
                wait()
        return value


@functools.cache
def zeros(device: str, elements: int) -> torch.Tensor:
    """One tensor of zeros per device and size."""
    return torch.zeros(elements, device=torch_device(device))


@functools.cache
def measure_stages(device: str, elements: int) -> Stages:
    """Seconds of an addition's front end (t1), of its device (t2), and of the way back (t3); medians."""
    measure = _cuda_stages if device.startswith("cuda") else _thread_stages
    samples = [measure(device, elements) for _ in range(REPEATS + 1)][1:]
    t1, t2, t3 = (statistics.median(column) for column in zip(*samples, strict=True))
    return t1, t2, t3


def queue_nbytes(device: str, count: int, wait_every: int) -> int:
    """Most bytes that `count` operations (`QUEUED` at most) hold while they wait in the queue.

    On CUDA the results of 256 KiB each, which a slow reader on a second stream still needs; CUDA's own
    queue is finite and stops Python after about a thousand. On a CPU worker, Python's queue has no
    end; its entries are counted, not what they compute.
    """
    count, wait_every = min(count, QUEUED), min(wait_every, QUEUED)
    return (_cuda_queue if device.startswith("cuda") else _thread_queue)(device, count, wait_every)


def _wait_for(device: str) -> Callable[[], None]:
    if device.startswith("cuda"):
        return functools.partial(torch.cuda.synchronize, device)
    return lambda: None  # on the CPU, PyTorch returns when it is done


def _cuda_stages(device: str, elements: int) -> Stages:
    with torch.cuda.device(device):
        t1, t2 = _cuda_batch(zeros(device, elements))
        return t1, t2, _cuda_return()


def _cuda_batch(value: torch.Tensor) -> tuple[float, float]:
    """t1 and t2 of a batch that is queued as a whole before its first operation runs."""
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    cuda._sleep(SPIN_CYCLES)
    start.record()
    began = time.perf_counter()
    for _ in range(BATCH):
        value = torch.add(value, 1.0)
    issued = time.perf_counter() - began
    end.record()
    torch.cuda.synchronize()
    return issued / BATCH, start.elapsed_time(end) / 1e3 / BATCH


def _cuda_return() -> float:
    """Time from the end of issuing a kernel of known length to the thread's return, beyond that length."""
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    cuda._sleep(SHORT_SPIN_CYCLES)
    start.record()
    cuda._sleep(SHORT_SPIN_CYCLES)
    end.record()
    torch.cuda.synchronize()
    cuda._sleep(SHORT_SPIN_CYCLES)
    issued = time.perf_counter()
    torch.cuda.synchronize()
    known = time.perf_counter()
    seconds: float = start.elapsed_time(end) / 1e3
    return max(known - issued - seconds, 0.0)


def _thread_stages(device: str, elements: int) -> Stages:
    """The same with a worker thread as the device."""
    value = zeros(device, elements)
    gate = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(gate.wait)
        began = time.perf_counter()
        for _ in range(BATCH):
            pool.submit(torch.add, value, 1.0)
        t1 = (time.perf_counter() - began) / BATCH
        gate.set()
        t2 = pool.submit(_additions, value).result() / BATCH
        known = pool.submit(_additions, value)
        issued = time.perf_counter()
        seconds = known.result()
        return t1, t2, max(time.perf_counter() - issued - seconds, 0.0)


def _additions(value: torch.Tensor) -> float:
    began = time.perf_counter()
    for _ in range(BATCH):
        torch.add(value, 1.0)
    return time.perf_counter() - began


def _cuda_queue(device: str, count: int, wait_every: int) -> int:
    with torch.cuda.device(device):
        x = torch.zeros(RESULT_NBYTES // 4, device=device)
        reader = cuda.Stream()
        _queue_results(x, reader, count, wait_every)  # the allocator has its memory from here on
        x = x.clone()  # an allocation finds that the readers are done, and takes their memory back
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_stats()["active_bytes.all.current"]
        _queue_results(x, reader, count, wait_every)
        return int(torch.cuda.memory_stats()["active_bytes.all.peak"] - before)


def _queue_results(x: torch.Tensor, reader: torch.cuda.Stream, count: int, wait_every: int) -> None:
    for i in range(1, count + 1):
        _read_slowly(torch.add(x, 1.0), reader)
        if i % wait_every == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()


def _read_slowly(result: torch.Tensor, reader: torch.cuda.Stream) -> None:
    """Keep `result` in use on `reader` for longer than Python takes to issue the next."""
    reader.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(reader):
        cuda._sleep(SHORT_SPIN_CYCLES)
    result.record_stream(reader)


def _thread_queue(device: str, count: int, wait_every: int) -> int:
    value = zeros(device, 2)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(torch.add, value, 1.0).result()
        tracemalloc.start()
        try:
            for done in range(0, count, wait_every):
                _behind_a_gate(pool, value, min(wait_every, count - done))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


def _behind_a_gate(pool: ThreadPoolExecutor, value: torch.Tensor, count: int) -> None:
    """Submit `count` operations to a worker that is not ready yet, then wait for all."""
    gate = threading.Event()
    pool.submit(gate.wait)
    last: Future[torch.Tensor] | None = None
    for _ in range(count):
        last = pool.submit(torch.add, value, 1.0)
    gate.set()
    if last is not None:
        last.result()

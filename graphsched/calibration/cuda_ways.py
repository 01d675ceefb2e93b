"""Ways that bytes go without blocking the host, timed on the device: pinned memory, GPU pairs, inside a GPU."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any

from graphsched.calibration.cuda_clock import Spinner, new_stream, on_streams, queued_s
from graphsched.calibration.fitting import Points, measure_points, transfer_sizes
from graphsched.executors.peer_copies import allow_access, driver_copy
from graphsched.platform import Link

PATTERN_BYTES = 4 * 2**20
LEAST_HOST_BYTES = 2**29  # several times what a host's caches hold


class Bench:
    """Buffers, streams and spin kernels of all GPUs, made once for all transfers that are timed.

    Attributes:
        gpus: Number of CUDA devices.
        largest: Size of each buffer, bytes; that of pinned host memory is at least `LEAST_HOST_BYTES`.
    """

    def __init__(self, gpus: int, largest: int) -> None:
        import torch

        self.gpus, self.largest = gpus, largest
        self.spinners = [Spinner(i) for i in range(gpus)]
        self.streams = [[new_stream(i) for _ in range(gpus + 3)] for i in range(gpus)]  # the last for gates
        self.first = [self._bytes(device=f"cuda:{i}").random_(0, 256) for i in range(gpus)]
        self.second = [self._bytes(device=f"cuda:{i}").random_(0, 256) for i in range(gpus)]
        self.pinned = torch.empty(max(largest, LEAST_HOST_BYTES), dtype=torch.uint8, pin_memory=True)
        for start in range(0, self.pinned.numel(), largest):
            part = self.pinned[start : start + largest]
            part.copy_(self.first[0].random_(0, 256)[: part.numel()])
        self.pageable = self._bytes()
        random = torch.Generator().manual_seed(0)
        self.pattern = torch.randint(0, 256, (min(PATTERN_BYTES, largest),), dtype=torch.uint8, generator=random)

    def _bytes(self, **where: Any) -> Any:
        import torch

        return torch.empty(self.largest, dtype=torch.uint8, **where).fill_(7)

    def settle(self) -> None:
        """Wait for all devices."""
        import torch

        for i in range(self.gpus):
            torch.cuda.synchronize(i)

    def close(self) -> None:
        """Give the memory back."""
        import torch

        self.settle()
        del self.first, self.second, self.pinned, self.pageable
        torch.cuda.empty_cache()
        empty_host_cache = getattr(torch._C, "_accelerator_emptyHostCache", None)
        if empty_host_cache is not None:
            empty_host_cache()


@dataclass(frozen=True)
class Way:
    """A way that bytes can go without blocking the host: tensors, and the streams to be current (last: it carries)."""

    source: Any
    target: Any
    streams: tuple[Any, ...]

    def copy(self, nbytes: int) -> Callable[[], Any]:
        """A call that issues one copy."""
        source, target = self.source[:nbytes], self.target[:nbytes]
        ends = {str(source.device), str(target.device)}
        if len(ends) == 1 or "cpu" in ends:
            return lambda: target.copy_(source, non_blocking=True)
        stream = self.streams[-1].cuda_stream
        return functools.partial(driver_copy(), target.data_ptr(), source.data_ptr(), nbytes, stream)


def host_way(bench: Bench, gpu: int, *, to_gpu: bool, part: slice = slice(None)) -> Way:
    """Pinned host memory, which may be larger, to or from a GPU's buffer."""
    host, device = bench.pinned[part], bench.first[gpu] if to_gpu else bench.second[gpu]
    stream = bench.streams[gpu][0 if to_gpu else 1]
    return Way(host, device, (stream,)) if to_gpu else Way(device, host, (stream,))


def peer_way(bench: Bench, source: int, target: int, part: slice = slice(None)) -> Way:
    """One GPU to another, as the executors copy: on a stream of the source."""
    allow_access(f"cuda:{source}", f"cuda:{target}")
    return Way(bench.first[source][part], bench.second[target][part], (bench.streams[source][2 + target],))


def local_way(bench: Bench, gpu: int) -> Way:
    """Within the memory of one GPU."""
    return Way(bench.first[gpu], bench.second[gpu], (bench.streams[gpu][0],))


def batch_for(nbytes: int) -> int:
    """Copies queued back to back in one sample.

    Example:
        >>> batch_for(4096), batch_for(2**26), batch_for(2**30)
        (8, 4, 1)
    """
    return 8 if nbytes < 2**22 else 4 if nbytes <= 2**26 else 1


def arrives(bench: Bench, way: Way) -> bool:
    """Whether a random pattern goes this way unchanged."""
    import torch

    n = bench.pattern.numel()
    way.source[:n].copy_(bench.pattern)
    way.target[:n].fill_(0)
    bench.settle()
    with ExitStack() as stack:
        on_streams(stack, way.streams)
        way.copy(n)()
    bench.settle()
    return bool(torch.equal(way.target[:n].cpu(), bench.pattern))


def way_of_link(bench: Bench, link: Link) -> Way:
    """The way of a pinned, peer or local link."""
    ends = link.source, link.target
    gpus = [int(name.partition(":")[2]) for name in ends if name.startswith("cuda")]
    if link.memory == "pinned":
        return host_way(bench, gpus[0], to_gpu=link.source == "cpu")
    return local_way(bench, gpus[0]) if gpus[0] == gpus[1] else peer_way(bench, gpus[0], gpus[1])


def queued_points(bench: Bench, way: Way, largest: int, *, rising: bool = True) -> Points:
    """Points of a way, timed on the device; `rising`: see `measure_points`."""
    sizes = transfer_sizes(min(largest, bench.largest))
    return measure_points(lambda n: _sample_s(bench, way, n), sizes, rising=rising)


def way_s(bench: Bench, way: Way, nbytes: int, repeats: int = 9) -> float:
    """Seconds of one transfer, median, after a first one."""
    return median([_sample_s(bench, way, nbytes) for _ in range(repeats + 1)][1:])


def _sample_s(bench: Bench, way: Way, nbytes: int) -> float:
    return queued_s(bench.spinners[way.streams[-1].device.index], way.streams, way.copy(nbytes), batch_for(nbytes))


def warm_all(bench: Bench) -> None:
    """Use every way once: a first use of a GPU pair takes milliseconds."""
    for i in range(bench.gpus):
        for way in (host_way(bench, i, to_gpu=True), host_way(bench, i, to_gpu=False)):
            arrives(bench, way)
        for j in range(bench.gpus):
            if i != j:
                arrives(bench, peer_way(bench, i, j))

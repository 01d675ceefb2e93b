"""Links of a host with CUDA devices: host memory of three kinds, GPU pairs, copies inside a device.

Not modelled: host memory of several NUMA nodes; all buffers lie where the system puts them.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from graphsched.calibration.cpu_links import touch_memory
from graphsched.calibration.cuda_clock import (
    Spinner,
    new_stream,
    on_streams,
    poll_s,
    queued_s,
)
from graphsched.calibration.fitting import (
    Points,
    check_arrived,
    fresh_repeats,
    link_of,
    measure_points,
    median,
    transfer_sizes,
)
from graphsched.executors.peer_copies import allow_access, driver_copy
from graphsched.platform import Link

PATTERN_BYTES = 4 * 2**20
LARGEST_FRESH_BYTES = 2**26
LEAST_HOST_BYTES = 2**29  # several times what a host's caches hold
Report = Callable[[str], None]


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


def queued_points(bench: Bench, way: Way, largest: int) -> Points:
    """Points of a way, timed on the device."""
    return measure_points(lambda n: _sample_s(bench, way, n), transfer_sizes(min(largest, bench.largest)))


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


# -- links ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """A link and how much its largest transfer varied (interquartile range over median)."""

    link: Link
    spread: float


def host_links(bench: Bench, gpu: int, largest: int, calls_s: Sequence[float]) -> Iterator[Measured]:
    """Pinned, pageable and fresh links of one GPU, in both directions.

    `calls_s` is the host time of a blocking copy's call, to the GPU and from it, which is no part of the transfer.

    Raises:
        PlatformError: Data arrived changed.
    """
    device = f"cuda:{gpu}"
    for to_gpu, overhead_s in zip((True, False), calls_s, strict=True):
        source, target = ("cpu", device) if to_gpu else (device, "cpu")
        way = host_way(bench, gpu, to_gpu=to_gpu)
        check_arrived(arrives(bench, way), source, target)
        crosses = host_crossings(gpu, to_gpu=to_gpu)
        points = queued_points(bench, way, largest)
        yield Measured(link_of(source, target, "pinned", points, crosses), points.spreads[-1])
        warm, fresh = (_blocking_in, _fresh_in) if to_gpu else (_blocking_out, _fresh_out)
        points = measure_points(warm(bench, gpu), transfer_sizes(largest), overhead_s=overhead_s)
        yield Measured(link_of(source, target, "pageable", points, crosses, blocking=True), points.spreads[-1])
        sizes = transfer_sizes(min(largest, LARGEST_FRESH_BYTES))
        touch_memory(sizes[-1] * (fresh_repeats(sizes[-1]) + 1))
        points = measure_points(fresh(bench, gpu), sizes, repeats=fresh_repeats, overhead_s=overhead_s)
        yield Measured(link_of(source, target, "fresh", points, crosses, blocking=True), points.spreads[-1])


def host_crossings(gpu: int, *, to_gpu: bool) -> tuple[str, ...]:
    """Shared capacities that a copy between the host and a GPU crosses."""
    way = "h2d" if to_gpu else "d2h"
    return (f"cuda:{gpu}/{way}", f"host/{way}")


def _blocking_in(bench: Bench, gpu: int) -> Callable[[int], float]:
    part = next_parts(bench.pageable)
    return lambda n: _moved_s(part(n), bench.first[gpu].device)


def _blocking_out(bench: Bench, gpu: int) -> Callable[[int], float]:
    device, part = bench.second[gpu], next_parts(bench.pageable)
    return lambda n: _copy_s(part(n), device[:n])


def next_parts(buffer: Any) -> Callable[[int], Any]:
    """Gives so many elements of `buffer`, each time the next ones: a plan copies what lies in no cache.

    Example:
        >>> import torch
        >>> part = next_parts(torch.arange(5))
        >>> part(2).tolist(), part(2).tolist(), part(2).tolist()
        ([0, 1], [2, 3], [0, 1])
    """
    place = 0

    def part(count: int) -> Any:
        nonlocal place
        place = place if place + count <= buffer.numel() else 0
        place += count
        return buffer[place - count : place]

    return part


def _fresh_in(bench: Bench, gpu: int) -> Callable[[int], float]:
    import torch

    def sample(nbytes: int) -> float:
        return _moved_s(torch.empty(nbytes, dtype=torch.uint8).fill_(3), bench.first[gpu].device)

    return sample


def _fresh_out(bench: Bench, gpu: int) -> Callable[[int], float]:
    return lambda n: _moved_s(bench.second[gpu][:n], "cpu")


def _moved_s(source: Any, device: Any) -> float:
    """Seconds of a copy that blocks into memory that is made for it, as the executors make it, on the host's clock."""
    start = time.perf_counter()
    made = source.to(device, copy=True)
    seconds = time.perf_counter() - start
    del made
    return seconds


def _copy_s(target: Any, source: Any) -> float:
    """Seconds of a copy that blocks, on the host's clock."""
    start = time.perf_counter()
    target.copy_(source)
    return time.perf_counter() - start


def local_link(bench: Bench, gpu: int, largest: int) -> Measured:
    """Copies inside the memory of one GPU."""
    way = local_way(bench, gpu)
    check_arrived(arrives(bench, way), f"cuda:{gpu}", f"cuda:{gpu}")
    points = queued_points(bench, way, largest)
    return Measured(link_of(f"cuda:{gpu}", f"cuda:{gpu}", "local", points), points.spreads[-1])


def pair_link(bench: Bench, source: int, target: int, largest: int, report: Report) -> Measured:
    """From one GPU to another: directly where that is possible and data arrives whole, else through the host."""
    import torch

    way = peer_way(bench, source, target)
    names = f"cuda:{source}", f"cuda:{target}"
    if torch.cuda.can_device_access_peer(source, target):
        if arrives(bench, way):
            points = queued_points(bench, way, largest)
            crosses = (f"{names[0]}/out", f"{names[1]}/in")
            return Measured(link_of(*names, "peer", points, crosses), points.spreads[-1])
        report(f"{names[0]} to {names[1]}: peer access loses data, copies will go through the host")
    sample = _staged(bench, source, target)
    points = measure_points(sample, transfer_sizes(largest))
    n = bench.pattern.numel()
    bench.first[source][:n].copy_(bench.pattern)
    sample(n)
    check_arrived(bool(torch.equal(bench.second[target][:n].cpu(), bench.pattern)), *names)
    through = host_crossings(source, to_gpu=False) + host_crossings(target, to_gpu=True)
    return Measured(link_of(*names, "staged", points, through), points.spreads[-1])


def _staged(bench: Bench, source: int, target: int) -> Callable[[int], float]:
    out, into = bench.streams[source][1], bench.streams[target][0]
    pinned = bench.pinned

    def sample(nbytes: int) -> float:
        import torch

        start = time.perf_counter()
        with torch.cuda.stream(out):
            pinned[:nbytes].copy_(bench.first[source][:nbytes], non_blocking=True)
        into.wait_stream(out)
        with torch.cuda.stream(into):
            bench.second[target][:nbytes].copy_(pinned[:nbytes], non_blocking=True)
        return poll_s(into.query) - start

    return sample

"""Links of a host with CUDA devices: host memory of three kinds, GPU pairs, copies inside a device.

Not modelled: host memory of several NUMA nodes; all buffers lie where the system puts them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from graphsched.calibration.cpu_links import next_parts, touch_memory
from graphsched.calibration.cuda_clock import poll_s
from graphsched.calibration.cuda_ways import Bench, arrives, host_way, local_way, peer_way, queued_points, way_of_link
from graphsched.calibration.fitting import check_arrived, fresh_repeats, link_of, measure_points, transfer_sizes
from graphsched.platform import Link

LARGEST_FRESH_BYTES = 2**26
ALIKE = 0.98  # of the fastest link like it: one below is timed again
AGAIN = 3
Report = Callable[[str], None]


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


def timed_again(found: Sequence[Measured], again: Callable[[Link], Measured]) -> list[Measured]:
    """`found`, where pinned links that are slower than another of their direction have been timed again.

    On a host of two H200s copies of all sizes to one of them were 8 % slower while links were measured than in the
    runs that followed: others use its buses, too. Up to `AGAIN` times; of a link the fastest reading counts, so that
    one that does differ, as on another socket, stays as slow as it is.
    """
    kept = list(found)
    for to_gpu in (True, False):
        for _ in range(AGAIN):
            alike = [i for i, m in enumerate(kept) if m.link.memory == "pinned" and (m.link.source == "cpu") == to_gpu]
            least = ALIKE * max([_rate(kept[i]) for i in alike], default=0.0)
            for i in alike:
                if _rate(kept[i]) < least:
                    kept[i] = max(kept[i], again(kept[i].link), key=_rate)
    return kept


def _rate(measured: Measured) -> float:
    return measured.link.bandwidth_bytes_per_s


def pinned_again(bench: Bench, largest: int) -> Callable[[Link], Measured]:
    """Times a pinned link of a GPU again."""

    def again(link: Link) -> Measured:
        points = queued_points(bench, way_of_link(bench, link), largest)
        return Measured(link_of(link.source, link.target, link.memory, points, link.crosses), points.spreads[-1])

    return again


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
    points = queued_points(bench, way, largest, rising=False)  # what a cache holds is faster
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

"""Memory copies of the host: between the stand-ins for devices where there are no GPUs, and within the CPU.

Copies are of numbers of 32 bits: torch shares numbers out among threads, not bytes.

Not modelled: caches; a buffer that was just written may be copied faster than these figures say.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any

from graphsched.calibration.fitting import (
    Points,
    check_arrived,
    fresh_repeats,
    link_of,
    measure_by_turns,
    measure_points,
    repeats_for,
    transfer_sizes,
)
from graphsched.costs import REST_S
from graphsched.platform import Link
from graphsched.platform.parts import HOST_MEMORY, LinkMemory

WRITTEN = 4  # results in turn
OFTEN = 2  # times as many samples of copies into pinned memory as of others
ITEM_BYTES = 4


def copy_points(largest: int, threads: int) -> tuple[Points, Points]:
    """Points of copies within host memory by `threads` threads: into warm memory, and into fresh.

    Raises:
        PlatformError: Data arrived changed.
    """
    with torch_threads(threads):
        warm = measure_points(_warm(largest), transfer_sizes(largest))
        touch_memory(largest * (fresh_repeats(largest) + 1))
        fresh = measure_points(_fresh(largest), transfer_sizes(largest), repeats=fresh_repeats)
    return warm, fresh


def shared_memory(largest: int) -> dict[str, float]:
    """The capacity that all copies within host memory cross, in bytes/s: two threads at once."""
    with torch_threads(1):
        return {HOST_MEMORY: together_bytes_per_s(2, min(largest, 2**24))}


def cpu_links(warm: Points, fresh: Points, pinned: Link) -> list[Link]:
    """Copies within the CPU's memory on a host with GPUs."""
    by_memory: dict[LinkMemory, Points] = {"local": warm, "fresh": fresh}
    return [*(link_of("cpu", "cpu", memory, points) for memory, points in by_memory.items()), pinned]


def pinned_link(pinned: Any, largest: int, threads: int) -> Link:
    """Copies of what `threads` threads have just made into pinned memory that no cache holds.

    They make it of other memory, for behind a fill such a copy takes less (`calibration.written_copies`), and several
    have rested before, as they do before a task (`calibration.cpu_operations`). How fast these get through memory
    changes within a second: copies take turns by size and count in rows, and beside runs one size is timed again.

    Args:
        pinned: Bytes of pinned memory, more than caches hold.
        largest: The largest copy.
        threads: Of the lane.
    """
    import torch

    place: Any = {"dtype": torch.float32, "device": "cpu"}
    results = deque([torch.ones(largest // ITEM_BYTES, **place) for _ in range(WRITTEN)])
    part = next_parts(numbers(pinned))

    def sample(nbytes: int) -> float:
        if threads > 1:
            time.sleep(REST_S)
        count = nbytes // ITEM_BYTES
        results.rotate()
        made, first, second = (results[i][:count] for i in range(3))
        return timed_s(part(count), torch.lerp(first, second, 0.5, out=made), 1)

    with torch_threads(threads):
        points = measure_by_turns(sample, transfer_sizes(largest), repeats=lambda nbytes: OFTEN * repeats_for(nbytes))
    return link_of("cpu", "cpu", "pinned", points)


def worker_links(devices: Sequence[str], warm: Points, fresh: Points) -> list[Link]:
    """Links between all `devices`, which share host memory: each is the same copy."""
    return [link for source in devices for target in devices for link in _pair(source, target, warm, fresh)]


def _pair(source: str, target: str, warm: Points, fresh: Points) -> list[Link]:
    crosses = (HOST_MEMORY,)
    if source == target:
        return [link_of(source, target, "local", warm, crosses), link_of(source, target, "fresh", fresh, crosses)]
    if "cpu" not in (source, target):
        return [link_of(source, target, "peer", warm, crosses)]
    return [
        link_of(source, target, "pinned", warm, crosses),
        link_of(source, target, "pageable", warm, crosses),
        link_of(source, target, "fresh", fresh, crosses),
    ]


@contextlib.contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Let torch compute and copy with this many threads meanwhile."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _warm(largest: int) -> Callable[[int], float]:
    import torch

    random = torch.Generator().manual_seed(0)
    source = torch.randint(0, 256, (largest,), dtype=torch.uint8, generator=random)
    target = torch.zeros_like(source).fill_(1)
    target.copy_(source)
    check_arrived(bool(torch.equal(source, target)), "cpu", "cpu")
    written, read = numbers(target), numbers(source)

    def sample(nbytes: int) -> float:
        count = nbytes // ITEM_BYTES
        return timed_s(written[:count], read[:count], 16 if nbytes < 2**16 else 1)

    return sample


def numbers(buffer: Any) -> Any:
    """The bytes of `buffer` as numbers of 32 bits, but for what is left over."""
    import torch

    return buffer[: buffer.numel() // ITEM_BYTES * ITEM_BYTES].view(torch.float32)


def touch_memory(nbytes: int) -> None:
    """Use and give back this much memory: on a virtual machine its first use ever is slower than any later one."""
    import torch

    torch.empty(nbytes, dtype=torch.uint8).fill_(1)


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


def timed_s(target: Any, source: Any, batch: int) -> float:
    """Seconds of one of `batch` copies in a row."""
    start = time.perf_counter()
    for _ in range(batch):
        target.copy_(source)
    return (time.perf_counter() - start) / batch


def _fresh(largest: int) -> Callable[[int], float]:
    import torch

    source = torch.ones(largest // ITEM_BYTES, dtype=torch.float32, device="cpu")

    def sample(nbytes: int) -> float:
        part = source[: nbytes // ITEM_BYTES]
        start = time.perf_counter()
        made = part.to("cpu", copy=True)
        seconds = time.perf_counter() - start
        del made
        return seconds

    return sample


def together_bytes_per_s(threads: int, nbytes: int, copies: int = 4, repeats: int = 5) -> float:
    """Sum of the rates of `threads` copying at the same time, median of `repeats`."""
    return median([_together_once(threads, nbytes, copies) for _ in range(repeats + 1)][1:])


def _together_once(threads: int, nbytes: int, copies: int) -> float:
    import torch

    rates: list[float] = []
    gate = threading.Barrier(threads)

    def work() -> None:
        source = torch.empty(nbytes, dtype=torch.uint8).fill_(3)
        target = torch.empty(nbytes, dtype=torch.uint8).fill_(4)
        gate.wait()
        rates.append(nbytes / timed_s(target, source, copies))

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(rates)

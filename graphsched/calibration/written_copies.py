"""What copies to a GPU take longer of what the threads of a CPU lane have just written, while these rest.

What a core has written lies changed in its own cache, and a core that sleeps is slow to hand it out: the engine waits
for it. Copies of what a lane has just copied into pinned memory are held against copies of pinned memory that no cache
holds, in turn, on the GPU's clock; so are those that begin later, for caches let go of it by and by. What is written
are numbers of 32 bits (`calibration.cpu_links`): small results are one thread's.

On a host of an H200 with 16 cores 16.8 MB take 0.7 ms where they take 0.34 from memory, 64 MB 1.3 and 1.2
(docs/readings.md).

How slow goes with the host and changes within seconds to minutes: in the schedules of one recording such copies of
16.8 MB took 0.08 to 0.42 ms longer, within 0.02 to 0.1 of each other in each of them. So beside a plan's runs the same
is measured again (`WrittenYardstick`), and with it how long the way into pinned memory takes, which changes, too, and
goes with no other yardstick: on one host it took 1.8 sweeps when the platform was measured and 0.8 beside runs.

Not modelled: copies of a part of what was written; that larger results fade in another time.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np

from graphsched.calibration.cpu_links import ITEM_BYTES, WRITTEN, next_parts, numbers, timed_s, torch_threads
from graphsched.calibration.cuda_clock import elapsed_s
from graphsched.calibration.cuda_ways import Bench, Way, host_way
from graphsched.calibration.fitting import repeats_for
from graphsched.calibration.lane_sweep import Sweep
from graphsched.calibration.sampling import in_a_row_s
from graphsched.calibration.written_beside import LaneAndCopies, figures
from graphsched.executors.clocks import new_event
from graphsched.executors.lanes import stream_pool
from graphsched.executors.own_team import end_own_team
from graphsched.platform import Link
from graphsched.platform.links import SHORTEST_S, WRITTEN_BYTES

PAUSES_S = (0.0, 3e-4, 1e-3, 2e-3)
ROW = 5  # copies in a row of the yardstick
TURNS = 4  # of rows with each pause
PLACES = 16  # in pinned memory that rows go round
LEAST = 0.02  # of the most: less is noise
LARGEST_BYTES = 2**26  # several times what the cores' own caches hold: larger copies take as much longer


def with_written(bench: Bench, links: list[Link], threads: int) -> list[Link]:
    """`links`, those from pinned memory to a GPU with `Link.written_s`, for CPU lanes of so many threads."""
    end_own_team()
    with ThreadPoolExecutor(1) as lane:
        return [
            _with_written(bench, link, _back(link, links), lane, threads) if _from_host(link) else link
            for link in links
        ]


def _from_host(link: Link) -> bool:
    return link.source == "cpu" and link.memory == "pinned" and link.target.startswith("cuda:")


def _back(link: Link, links: Sequence[Link]) -> Link:
    """The link the other way, or `link` where there is none."""
    way = link.target, link.source, link.memory
    return next((other for other in links if (other.source, other.target, other.memory) == way), link)


def _with_written(bench: Bench, link: Link, back: Link, lane: ThreadPoolExecutor, threads: int) -> Link:
    gpu = int(link.target.partition(":")[2])
    way = host_way(bench, gpu, to_gpu=True)
    copies = WrittenCopies(way, min(LARGEST_BYTES, bench.largest), threads)
    known = [nbytes for nbytes in link.sizes_bytes if nbytes <= copies.largest]
    longer_s = lane.submit(lambda: [copies.longer_s(nbytes)[1] for nbytes in known]).result()
    fading = min(WRITTEN_BYTES, copies.largest)
    later = lane.submit(lambda: copies.later(fading)).result()
    written_s = tuple(longer_s + longer_s[-1:] * (len(link.sizes_bytes) - len(known)))
    beside = figures(LaneAndCopies(bench, gpu, lane, threads), back.duration_s(fading))
    return beside.of(replace(link, written_s=written_s, fades_s=fades_s(later)))


def fades_s(later: Sequence[tuple[float, float]]) -> float:
    """Time in which what copies take longer falls to a part of 1/e, by a line through its logarithm; 0: it does not.

    Args:
        later: After how many seconds copies began, ascending, and how many they took longer.

    Example:
        >>> round(fades_s([(0.0, 8e-4), (1e-3, 4e-4), (2e-3, 2e-4)]) * 1e3, 3), fades_s([(0.0, 1e-4), (1e-3, 2e-4)])
        (1.443, 0.0)
    """
    after_s, longer_s = np.array(later).T
    if not longer_s.any():
        return 0.0
    over = longer_s <= LEAST * longer_s.max()
    count = max(2, int(over.argmax())) if over.any() else len(over)  # from the first of these on it is noise
    longer_s = np.maximum(longer_s, LEAST * longer_s.max())[:count]
    slope = float(np.polyfit(after_s[:count], np.log(longer_s), 1, w=longer_s)[0])
    return -1.0 / slope if slope < 0.0 else 0.0


class Pairs(NamedTuple):
    """Copies of what had not just been written and of what had, seconds on the GPU's clock, and how long before.

    `pinned_s` is what it took to write it: to copy what the lane had made into pinned memory.
    """

    kept_s: list[float]
    written_s: list[float]
    after_s: list[float]
    pinned_s: list[float]

    def longer_s(self) -> tuple[float, float]:
        """After how many seconds, median, copies began that were written; how many they took longer, not below 0."""
        return median(self.after_s), max(0.0, in_a_row_s(self.written_s) - in_a_row_s(self.kept_s))


def joined(rows: Iterable[Pairs]) -> Pairs:
    """Pairs of several rows."""
    return Pairs(*([seconds for part in column for seconds in part] for column in zip(*rows, strict=True)))


class WrittenCopies:
    """Copies to a GPU of what a lane has just written, and of what it has not; to be made in the lane's thread.

    Attributes:
        largest: Bytes of the largest.
    """

    def __init__(self, way: Way, largest: int, threads: int, made: Callable[[int], Any] | None = None) -> None:
        """For copies of up to `largest` bytes.

        Args:
            way: From pinned memory, in which parts of that size take turns.
            largest: Bytes.
            threads: Of the lane.
            made: Makes so many numbers, which are copied into pinned memory then; None: they are filled.
        """
        self.largest = largest
        self._threads, self._target, self._stream = threads, way.target, way.streams[0]
        self._made = made or _filled(largest)
        self._part = next_parts(way.source)

    def longer_s(self, nbytes: int, pause_s: float = 0.0) -> tuple[float, float]:
        """After how many seconds, median, copies of so many bytes began that were written; how many they took longer.

        `pause_s`: that the lane sleeps in between. They take no less than others.
        """
        pairs = self.pairs(nbytes, repeats_for(nbytes), pause_s)
        return pairs.longer_s()

    def later(self, nbytes: int) -> list[tuple[float, float]]:
        """`longer_s` for each of `PAUSES_S`, in rows by turns: how slow it is changes within a second."""
        rows = [[self.pairs(nbytes, ROW, pause_s) for pause_s in PAUSES_S] for _ in range(TURNS)]
        return [joined(row).longer_s() for row in zip(*rows, strict=True)]

    def pairs(self, nbytes: int, count: int, pause_s: float = 0.0) -> Pairs:
        """So many pairs of copies of so many bytes; one before them does not count."""
        kept, written, after, pinned = [], [], [], []
        with torch_threads(self._threads):
            for _ in range(count + 1):
                kept.append(self._copy_s(self._part(nbytes)))
                part = self._part(nbytes)
                pinned.append(timed_s(numbers(part), self._made(nbytes // ITEM_BYTES), 1))
                began = time.perf_counter()
                if pause_s:
                    time.sleep(pause_s)
                after.append(time.perf_counter() - began)
                written.append(self._copy_s(part))
        return Pairs(kept[1:], written[1:], after[1:], pinned[1:])

    def _copy_s(self, part: Any) -> float:
        """Seconds of the copy of `part` on the GPU's clock; both kinds hold the same time of calls."""
        import torch

        start, end = new_event(timing=True), new_event(timing=True)
        with torch.cuda.stream(self._stream):
            start.record(self._stream)
            self._target[: part.numel()].copy_(part, non_blocking=True)
            end.record(self._stream)
        end.synchronize()
        return elapsed_s(start, end)


def _filled(largest: int) -> Callable[[int], Any]:
    """Gives so many numbers of up to `largest` bytes, just filled, each time others."""
    import torch

    place: Any = {"dtype": torch.float32, "device": "cpu"}
    results = itertools.cycle([torch.zeros(largest // ITEM_BYTES, **place) for _ in range(WRITTEN)])
    return lambda count: next(results)[:count].fill_(1)


class WrittenYardstick:
    """How what threads of a CPU lane have just made, `WRITTEN_BYTES` of it, gets to a GPU just now.

    They make it as a task does, of other memory: behind a fill, whose result their caches hold, the copy into pinned
    memory takes a fifth less (docs/readings.md).
    """

    def __init__(self, gpu: int, threads: int, sweep: Sweep) -> None:
        self._copies = WrittenCopies(_way(gpu), WRITTEN_BYTES, threads, lambda count: sweep()[:count])

    def __call__(self) -> tuple[float, float]:
        """Seconds that the engine's copy takes longer, above 0, and of the copy into pinned memory; means of a row.

        To be called in the lane's thread.
        """
        pairs = self._copies.pairs(WRITTEN_BYTES, ROW)
        return max(SHORTEST_S, fmean(pairs.written_s) - fmean(pairs.kept_s)), fmean(pairs.pinned_s)


def _way(gpu: int) -> Way:
    """From pinned memory of several times what the cores' own caches hold."""
    import torch

    pinned = torch.empty(PLACES * WRITTEN_BYTES, dtype=torch.uint8, pin_memory=True).fill_(1)
    target = torch.empty(WRITTEN_BYTES, dtype=torch.uint8, device=f"cuda:{gpu}")
    return Way(pinned, target, (stream_pool(gpu)[0],))

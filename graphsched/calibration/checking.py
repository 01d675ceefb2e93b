"""Whether a platform's figures still hold: a sample of them measured again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from graphsched.calibration.cpu_dispatch import lane_figures
from graphsched.calibration.cpu_links import copy_points
from graphsched.calibration.cuda_dispatch import cuda_dispatch
from graphsched.calibration.cuda_links import Bench, warm_all, way_of_link, way_s
from graphsched.calibration.profiling import check_is_here
from graphsched.platform import Link, Platform

LARGE_BYTES = 2**26
SMALL_BYTES = 4096
LARGE_TOLERANCE = 0.1
SMALL_TOLERANCE = 0.5
MEMORY_TOLERANCE = 0.5
DISPATCH_TOLERANCE = 0.5
FLOOR_S = 1e-6


@dataclass(frozen=True, slots=True)
class Drift:
    """A stored figure beside the same measured now.

    Attributes:
        entry: What it is of.
        stored, now: Seconds.
        ratio: `now` / `stored`.
        drifted: Whether they differ by more than the tolerance (10 % for large transfers between devices,
            half for the rest), and by more than a microsecond.
    """

    entry: str
    stored: float
    now: float
    ratio: float
    drifted: bool


def drift(entry: str, stored: float, now: float, tolerance: float) -> Drift:
    """One row.

    Example:
        >>> drift("copy", 1e-3, 1.2e-3, 0.1).drifted, drift("copy", 1e-3, 1.05e-3, 0.1).drifted
        (True, False)
        >>> drift("record_s", 1e-7, 5e-7, 0.1).drifted  # less than a microsecond
        False
    """
    ratio = now / stored if stored else (1.0 if now == stored else math.inf)
    outside = not 1 / (1 + tolerance) <= ratio <= 1 + tolerance
    return Drift(entry, stored, now, ratio, outside and abs(now - stored) > FLOOR_S)


def check_platform(platform: Platform) -> list[Drift]:
    """Measure a sample of links and the dispatch figures again, in a few seconds.

    Raises:
        PlatformError: The platform is another host's, or copied data arrived changed.
    """
    gpus = [d.name for d in platform.devices if d.kind == "cuda"]
    for name in gpus:
        check_is_here(platform, name)
    rows = list(_cuda_rows(platform, gpus)) if gpus else list(_memory_rows(platform))
    lanes = lane_figures()
    if gpus:
        del lanes["sync_s"]  # there it is the wait for a device
    return rows + _dispatch_rows(platform, lanes)


def _dispatch_rows(platform: Platform, figures: dict[str, float]) -> list[Drift]:
    """Rows for the figures in seconds; a queue's depth is no time."""
    return [
        drift(f"dispatch {name}", getattr(platform.dispatch, name), now, DISPATCH_TOLERANCE)
        for name, now in figures.items()
        if name.endswith("_s")
    ]


def _memory_rows(platform: Platform) -> Iterator[Drift]:
    largest = 2**24
    warm, fresh = copy_points(largest, platform.device("cpu").threads)
    for kind, points in (("local", warm), ("fresh", fresh)):
        link = platform.link("cpu", "cpu", kind)
        yield drift(f"{link}, {largest} bytes", link.duration_s(largest), points.seconds[-1], MEMORY_TOLERANCE)


def _cuda_rows(platform: Platform, gpus: list[str]) -> Iterator[Drift]:
    bench = Bench(1 + max(int(name.partition(":")[2]) for name in gpus), LARGE_BYTES)
    try:
        warm_all(bench)
        for link in platform.links:
            if link.memory in ("pinned", "peer", "local") and (link.source, link.target) != ("cpu", "cpu"):
                yield from _link_rows(bench, link)
        yield from _dispatch_rows(platform, cuda_dispatch(bench.spinners))
    finally:
        bench.close()


def _link_rows(bench: Bench, link: Link) -> Iterator[Drift]:
    way = way_of_link(bench, link)
    for nbytes, tolerance in ((SMALL_BYTES, SMALL_TOLERANCE), (LARGE_BYTES, LARGE_TOLERANCE)):
        now = way_s(bench, way, nbytes)
        yield drift(f"{link}, {nbytes} bytes", link.duration_s(nbytes), now, tolerance)

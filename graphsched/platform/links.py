"""Links made from others: at another rate, staged through the host, new between two devices."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from graphsched.errors import PlatformError
from graphsched.platform.checks import check_number
from graphsched.platform.parts import Link, LinkMemory

if TYPE_CHECKING:
    from graphsched.platform.host import Platform

SHORTEST_S = 1e-9
"""Least time of a transfer or a call that is known, for 0 says unknown."""
PACED_FROM = 2**20  # bytes: what a CPU lane copies into pinned memory that is smaller goes with no yardstick
WRITTEN_BYTES = 2**24  # of the copies by which it is told how a lane's results get to a GPU just now
LEAST_WRITTEN = 0.05  # of a copy's time: what it takes longer that is less says nothing of other sizes

Ends = tuple[str, str]


def usual_memory(platform: Platform, source: str, target: str) -> LinkMemory:
    """Kind of the fastest way between two devices: local, pinned with the host, peer between accelerators."""
    ends = platform.device(source), platform.device(target)
    if source == target:
        return "local"
    return "peer" if all(d.is_accelerator for d in ends) else "pinned"


def rescaled(link: Link, bandwidth_bytes_per_s: float, latency_s: float | None = None) -> Link:
    """`link` with another rate and latency; measured points keep their shape.

    What a point has beyond the latency is stretched as the rate is, so that a link that took twice the time of
    latency + bytes / rate at some size still does. A point below the latency, as small transfers scatter, keeps its
    distance and takes the longer by what its bytes do. What cores are slow to hand out (`written_s`) stays as it is.

    Example:
        >>> link = Link("a", "b", "peer", 1.0, 100.0, sizes_bytes=(100, 1000), seconds=(3.0, 11.0))
        >>> rescaled(link, 200.0).seconds, rescaled(link, 100.0, latency_s=2.0).seconds
        ((2.0, 6.0), (4.0, 12.0))
        >>> scattered = Link("a", "b", "peer", 1.0, 100.0, sizes_bytes=(10, 1000), seconds=(0.75, 11.0))
        >>> rescaled(scattered, 10.0).seconds, rescaled(scattered, 200.0).seconds
        ((1.65, 101.0), (0.75, 6.0))
    """
    new_latency_s = link.latency_s if latency_s is None else check_number(latency_s, f"latency_s of link {link}")
    rate = check_number(bandwidth_bytes_per_s, f"bandwidth_bytes_per_s of link {link}", positive=True)
    stretch = link.bandwidth_bytes_per_s / rate

    def beyond_s(nbytes: int, seconds: float) -> float:
        beyond = seconds - link.latency_s
        if beyond >= 0.0:
            return beyond * stretch
        return beyond + max(0.0, nbytes / rate - nbytes / link.bandwidth_bytes_per_s)

    points = zip(link.sizes_bytes, link.seconds, strict=True)
    seconds = tuple(max(new_latency_s + beyond_s(nbytes, s), SHORTEST_S) for nbytes, s in points)
    return replace(link, latency_s=new_latency_s, bandwidth_bytes_per_s=rate, seconds=seconds)


def pinned_now(link: Link, pinned_s: float) -> Link:
    """`link`, a CPU lane's into pinned memory, where a copy of `WRITTEN_BYTES` takes so long now; 0: as measured.

    Points of less than `PACED_FROM` bytes stay as they are, and no larger transfer takes less than they do; a link
    without points goes as a whole.

    Example:
        >>> sizes = 4096, 2**20, 2**24
        >>> link = Link("cpu", "cpu", "pinned", 1.0, 1e6, sizes_bytes=sizes, seconds=(1.0, 2.0, 20.0))
        >>> [pinned_now(link, now_s).seconds for now_s in (40.0, 5.0, 0.0)]
        [(1.0, 4.0, 40.0), (1.0, 1.0, 5.0), (1.0, 2.0, 20.0)]
    """
    if not pinned_s:
        return link
    pace = pinned_s / link.duration_s(WRITTEN_BYTES)
    if not link.sizes_bytes:
        rate = link.bandwidth_bytes_per_s / pace
        return replace(link, latency_s=link.latency_s * pace, bandwidth_bytes_per_s=rate)
    points = list(zip(link.sizes_bytes, link.seconds, strict=True))
    least_s = max([s for n, s in points if n < PACED_FROM], default=0.0)
    seconds = tuple(max(s * pace, least_s) if n >= PACED_FROM else s for n, s in points)
    return replace(link, bandwidth_bytes_per_s=link.bandwidth_bytes_per_s / pace, seconds=seconds)


def written_now(link: Link, fetch_s: float) -> Link:
    """`link` where a copy of `WRITTEN_BYTES` that were just written takes so much longer now; else as measured.

    Other sizes go with that, in proportion to what was measured; where that is next to nothing, by their bytes.

    Example:
        >>> sizes = 2**20, 2**24
        >>> link = Link("cpu", "cuda:0", "pinned", 0.0, 1e6, (), False, sizes, (1.0, 16.0), written_s=(0.5, 4.0))
        >>> [written_now(link, now_s).written_s for now_s in (8.0, 1.0, 0.0)]
        [(1.0, 8.0), (0.125, 1.0), (0.5, 4.0)]
    """
    if not (link.written_s and fetch_s):
        return link
    size = min(WRITTEN_BYTES, link.sizes_bytes[-1])
    known_s = link.written_longer_s(size)
    if known_s < LEAST_WRITTEN * link.duration_s(size):
        return replace(link, written_s=tuple(fetch_s * min(1.0, n / size) for n in link.sizes_bytes))
    return replace(link, written_s=tuple(longer_s * fetch_s / known_s for longer_s in link.written_s))


def staged_link(platform: Platform, source: str, target: str) -> Link:
    """The way between two accelerators through pinned host memory: all bytes out, a wait, all bytes in.

    Its time is the sum of both copies' and of the wait on another device, its rate what that makes of their
    rates; it takes part of every capacity that they cross.

    Raises:
        PlatformError: One of them has no pinned link with the host.
    """
    out, into = (_pinned(platform, ends) for ends in ((source, "cpu"), ("cpu", target)))
    wait_s = platform.dispatch.other_device_s
    sizes = tuple(n for n in out.sizes_bytes if n in into.sizes_bytes)
    return Link(
        source,
        target,
        "staged",
        out.latency_s + into.latency_s + wait_s,
        1 / (1 / out.bandwidth_bytes_per_s + 1 / into.bandwidth_bytes_per_s),
        tuple(dict.fromkeys(out.crosses + into.crosses)),
        sizes_bytes=sizes,
        seconds=tuple(out.duration_s(n) + into.duration_s(n) + wait_s for n in sizes),
    )


def _pinned(platform: Platform, ends: Ends) -> Link:
    with suppress(PlatformError):
        if (found := platform.link(*ends)).memory == "pinned":
            return found
    raise PlatformError(
        f"platform {platform.name!r} has no pinned link {ends[0]}>{ends[1]} to stage copies over: add one (with_link)"
    )


def new_link(
    platform: Platform, ends: Ends, kind: LinkMemory, bandwidth_bytes_per_s: float | None, latency_s: float | None
) -> Link:
    """A link that was not there; it crosses what measured platforms call the engines and ports of its ends."""
    if bandwidth_bytes_per_s is None or latency_s is None:
        raise PlatformError(
            f"platform {platform.name!r} has no link {ends[0]}>{ends[1]} ({kind}): for a new one give "
            "bandwidth_bytes_per_s and latency_s"
        )
    names: tuple[str, ...] = ()
    if kind == "peer":
        names = (f"{ends[0]}/out", f"{ends[1]}/in")
    elif ends[0] == "cpu" != ends[1]:
        names = (f"{ends[1]}/h2d", "host/h2d", "host/both")
    elif ends[1] == "cpu" != ends[0]:
        names = (f"{ends[0]}/d2h", "host/d2h", "host/both")
    crosses = tuple(name for name in names if name in platform.capacities)
    return Link(*ends, kind, latency_s, bandwidth_bytes_per_s, crosses, blocking=kind in ("pageable", "fresh"))

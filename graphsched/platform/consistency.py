"""Entries of a platform that contradict each other: looked for in files, which people write and change.

Figures that were measured one after the other differ by noise; `reconciled` makes them agree.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from graphsched.errors import PlatformError
from graphsched.platform.capacity import SLACK, rate_alone
from graphsched.platform.derived import following, raised
from graphsched.platform.parts import Link

if TYPE_CHECKING:
    from graphsched.platform.host import Platform

POINTS_SLACK = 0.4  # a curve may be this far from latency + bytes / rate at its largest size


def check_consistent(platform: Platform) -> None:
    """Make sure that the entries of `platform` agree with each other.

    Raises:
        PlatformError: A link is faster than a capacity that it crosses or than its own measured points say,
            or joins a device to itself as if that were two; or there is no ``cpu``.
    """
    if platform.fabric is not None:
        check_consistent(platform.fabric.host)
    elif all(device.name != "cpu" for device in platform.devices):
        raise PlatformError(
            f"devices are {', '.join(d.name for d in platform.devices) or 'none'}: 'cpu', the host that values lie on "
            'at first and that dispatches, is not among them: add {"name": "cpu", "kind": "cpu"}'
        )
    for link in platform.links:
        if link.source == link.target and link.memory in ("peer", "staged"):
            raise PlatformError(f"link {link} joins {link.source} to itself: make its memory 'local' or leave it out")
        _check_capacities(platform, link)
        _check_points(link)


def reconciled(platform: Platform) -> Platform:
    """`platform` with capacities that let each link through while it is alone.

    Example:
        >>> from graphsched.platform import Device, Platform
        >>> link = Link("cpu", "cpu", "local", 0.0, 9e9, ("host/memory",))
        >>> reconciled(Platform("desk", (Device("cpu", "cpu"),), (link,), {"host/memory": 8e9})).capacities
        {'host/memory': 9000000000.0}
    """
    capacities = dict(platform.capacities)
    for link in platform.links:
        capacities = raised(platform, capacities, link)
    return replace(platform, capacities=capacities, tables=following(platform, capacities))


def _check_capacities(platform: Platform, link: Link) -> None:
    for name in link.crosses:
        rate = rate_alone(link.crosses, name, platform.capacities, platform.tables)
        if link.bandwidth_bytes_per_s > rate * (1 + SLACK):
            raise PlatformError(
                f"bandwidth_bytes_per_s of link {link} is {link.bandwidth_bytes_per_s:.6g}, above the {rate:.6g} of "
                f"capacity {name!r}, which it crosses: lower the one or raise the other"
            )


def _check_points(link: Link) -> None:
    """A rate changed by hand without the points would change nothing: times are taken from the points."""
    if not link.sizes_bytes or _is_their_slope(link):
        return
    size, point_s = link.sizes_bytes[-1], link.seconds[-1]
    affine_s = link.latency_s + size / link.bandwidth_bytes_per_s
    if not 1 - POINTS_SLACK <= affine_s / point_s <= 1 / (1 - POINTS_SLACK):
        raise PlatformError(
            f"link {link}: {size} bytes take {affine_s:.4g} s by its latency_s and bandwidth_bytes_per_s, but "
            f"{point_s:.4g} s by its measured points: change both, or leave out sizes_bytes and seconds"
        )


def _is_their_slope(link: Link) -> bool:
    """Whether the rate is that between the two largest sizes, as calibration takes it."""
    if len(link.sizes_bytes) < 2 or link.seconds[-1] <= link.seconds[-2]:
        return False
    rate = (link.sizes_bytes[-1] - link.sizes_bytes[-2]) / (link.seconds[-1] - link.seconds[-2])
    return abs(link.bandwidth_bytes_per_s / rate - 1) <= SLACK

"""Compute lanes: their names, and how many a device may have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeVar

from graphsched.errors import ScheduleError
from graphsched.platform import Device, Platform

Copies = Literal["own", "compute"]
Of = TypeVar("Of")

DEFAULT_LANES = 4


def lane_name(device: Device, number: int) -> str:
    """Name of a device's compute lane `number`.

    Example:
        >>> lane_name(Device("cuda:0", "cuda"), 1), lane_name(Device("cpu", "cpu"), 0)
        ('cuda:0/s1', 'cpu/w0')
    """
    return f"{device.name}/{'w' if device.kind == 'cpu' else 's'}{number}"


def lane_counts(platform: Platform, devices: Iterable[str], lanes: int | None) -> dict[str, int]:
    """Compute lanes of each of `devices`: `lanes`, or as many as it may have up to `DEFAULT_LANES`.

    The cpu beside accelerators gets no more than it may have: `lanes` is meant for those.

    Raises:
        ScheduleError: `lanes` is below 1, or more than a device may have.
    """
    used = [platform.device(name) for name in devices]
    if lanes is not None and lanes < 1:
        raise ScheduleError(f"lanes={lanes}: each device needs 1 lane or more")
    beside = any(d.is_accelerator for d in used)
    for device in used:
        if lanes is not None and lanes > device.lanes and (device.is_accelerator or not beside):
            raise ScheduleError(f"lanes={lanes}: {device.name} may have {device.lanes} compute lanes at most")
    return {d.name: min(lanes or DEFAULT_LANES, d.lanes) for d in used}


def lane_of_copy(
    lanes: Mapping[str, Sequence[Of]], made_on: tuple[str, int] | None, source: str, target: str
) -> Of | None:
    """Of compute lanes by device that which a plan puts a copy on where copies have no lanes of their own, if it does.

    Args:
        lanes: What stands for each lane.
        made_on: Device and number of the lane that the value was made on, if it was made on one.
        source, target: Devices of the copy.

    Example:
        >>> lanes = {"cuda:0": ["s0", "s1"]}
        >>> lane_of_copy(lanes, ("cuda:0", 1), "cuda:0", "cpu"), lane_of_copy(lanes, None, "cpu", "cuda:0")
        ('s1', 's0')
        >>> lane_of_copy(lanes, None, "cpu", "cuda:1") is None
        True
    """
    device = source if source != "cpu" else target
    if device not in lanes:
        return None
    made, lane = made_on or (device, 0)
    return lanes[device][lane if made == device else 0]

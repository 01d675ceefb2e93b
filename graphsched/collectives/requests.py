"""What every collective needs of its arguments; all of it is checked before anything is added to the workload."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from graphsched.collectives.members import Members, location
from graphsched.errors import DuplicateNameError, ForeignValueError, WorkloadError
from graphsched.platform import Platform
from graphsched.workload import Value, Workload, check_name


def checked_devices(
    work: Workload, values: Sequence[Value], *, rows_differ: bool = False, adds: bool = True
) -> tuple[str, ...]:
    """The devices where `values` are, each with one of them.

    Args:
        rows_differ: The values may differ in their first dimension, which they must have.
        adds: They are to be added.

    Raises:
        ForeignValueError: A value is of another workload.
        WorkloadError: There is none, one is no value or its device is open, two are on one device, they differ, or
            one has no rows where they may differ in those.
    """
    if isinstance(values, Value) or not isinstance(values, Sequence) or not values:
        raise WorkloadError(f"values are {values!r}: a list of values is needed, each on a device of its own")
    own = [checked_value(work, value) for value in values]
    devices: dict[str, Value] = {}
    for value in own:
        device = checked_location(work, value)
        if device in devices:
            raise WorkloadError(
                f"values {devices[device].name!r} and {value.name!r} are both on {device!r}: give one of each device, "
                "and add those of one device up first"
            )
        devices[device] = value
    for value in own if rows_differ else ():
        check_rows(value)
    for value in own[1:]:
        check_like(value, own[0], rows_differ=rows_differ)
    if adds:
        check_adds(own[0])
    return tuple(devices)


def checked_value(work: Workload, value: Any) -> Value:
    """`value`, which must be one of `work`, with a shape.

    Raises:
        ForeignValueError: It is of another workload.
        WorkloadError: It is no value, or has no shape.
    """
    if not isinstance(value, Value):
        raise WorkloadError(
            f"a {type(value).__name__} is among the values: make it one with work.input, work.state or work.task"
        )
    if work.values.get(value.name) is not value:
        raise ForeignValueError(
            f"value {value.name!r} belongs to another workload than {work.name!r}: make it with this one's input, "
            "state or task"
        )
    if value.spec is None:
        raise WorkloadError(f"value {value.name!r} has no shape: declare outputs=[TensorSpec(...)] of its task")
    return value


def checked_location(work: Workload, value: Value) -> str:
    """The device of `value`.

    Raises:
        WorkloadError: The scheduler is to decide it.
    """
    device = location(work, value)
    if device is None:
        raise WorkloadError(
            f"the scheduler is to decide where value {value.name!r} is: give its "
            f"{f'task {value.producer!r}' if value.producer else value.kind} one device, as device='cuda:0'"
        )
    return device


def check_like(value: Value, first: Value, *, rows_differ: bool = False) -> None:
    """Make sure that `value` has the shape, type and order of memory of `first`.

    Raises:
        WorkloadError: It has not.
    """
    one, other = value.spec, first.spec
    assert one is not None
    assert other is not None
    both = f"value {value.name!r} is {one}, value {first.name!r} is {other}"
    if one.dtype != other.dtype:
        raise WorkloadError(f"{both}: values of one element type are needed, convert one in a task")
    if rows_differ:
        if one.shape[1:] != other.shape[1:]:
            raise WorkloadError(f"{both}: shapes that differ in the first dimension alone are needed")
    elif one.shape != other.shape:
        raise WorkloadError(f"{both}: values of one shape are needed, reshape one in a task")
    elif one.stride != other.stride:
        raise WorkloadError(f"{both}: values of one order in memory are needed, make both contiguous in tasks")


def check_adds(value: Value) -> None:
    """Make sure that torch adds elements of this type.

    Raises:
        WorkloadError: It does not.
    """
    import torch

    assert value.spec is not None
    element = torch.zeros(1, dtype=torch.uint8).to(getattr(torch, value.spec.dtype))
    try:
        torch.add(element, element)
    except (RuntimeError, NotImplementedError):
        raise WorkloadError(
            f"value {value.name!r} is {value.spec}, which torch cannot add: convert it in a task, as to float32"
        ) from None


def check_rows(value: Value) -> None:
    """Make sure that `value` has rows to be split.

    Raises:
        WorkloadError: It has no dimension.
    """
    if value.spec is not None and not value.spec.shape:
        raise WorkloadError(f"value {value.name!r} is {value.spec}, without rows: reshape it to [1] or more in a task")


def check_known(what: str, given: Any, known: Iterable[str]) -> str:
    """`given`, which must be one of the names `known`.

    Raises:
        WorkloadError: It is none; the nearest are offered.
    """
    names = list(known)
    if given in names:
        return str(given)
    near = get_close_matches(str(given), names, cutoff=0.5)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    raise WorkloadError(f"no {what} {given!r}: {meant}there are {', '.join(names)}")


def check_blocks(blocks: Any) -> int:
    """`blocks`, which must be a number of them.

    Raises:
        WorkloadError: It is no whole number above 0.
    """
    if isinstance(blocks, bool) or not isinstance(blocks, int) or blocks < 1:
        raise WorkloadError(f"blocks is {blocks!r}: a whole number, 1 or more, is needed")
    return blocks


def check_devices(devices: Sequence[str], platform: Platform | None = None) -> None:
    """Make sure that these are different devices, and that `platform` has them.

    Raises:
        WorkloadError: They are not, or it has not.
    """
    if not _names(devices) or len(set(devices)) < len(devices):
        raise WorkloadError(f"devices are {devices!r}: name one device or more, each once")
    if platform is not None:
        if not isinstance(platform, Platform):
            raise WorkloadError(f"platform is {platform!r}: give a Platform, as gs.Platform.load({str(platform)!r})")
        for device in devices:
            check_known("device", device, [d.name for d in platform.devices])


def _names(given: Any) -> bool:
    """Whether it is a list of one name or more."""
    listed = isinstance(given, Sequence) and not isinstance(given, str) and bool(given)
    return listed and all(isinstance(name, str) for name in given)


def checked_groups(
    groups: Sequence[Sequence[str]] | None, devices: Sequence[str], platform: Platform | None
) -> list[list[str]]:
    """Groups of all `devices`, each in one: those given, or those of one host of `platform`, in order.

    Raises:
        WorkloadError: Neither is given, or a device is in no group, in two, or none of those that take part.
    """
    if groups is None:
        if platform is None:
            raise WorkloadError(
                "algorithm 'hierarchical' needs groups: give groups=[[...], ...], or platform= with hosts"
            )
        by_host: dict[str, list[str]] = {}
        for device in devices:
            by_host.setdefault(platform.device(device).host, []).append(device)
        return list(by_host.values())
    if isinstance(groups, str) or not isinstance(groups, Sequence) or not all(map(_names, groups)):
        raise WorkloadError(f"groups are {groups!r}: lists of one device or more are needed")
    named = [device for group in groups for device in group]
    for device in named:
        check_known("device among the values", device, devices)
    wrong = [device for device in devices if named.count(device) != 1]
    if wrong:
        times = named.count(wrong[0])
        raise WorkloadError(f"device {wrong[0]!r} is in {times or 'none'} of the groups: it must be in one")
    return [list(group) for group in groups]


def named_members(work: Workload, devices: Sequence[str], name: str | None, collective: str, algorithm: str) -> Members:
    """Members whose tasks are called ``NAME.ALGORITHM/…``; NAME is that of the collective, numbered, if none is given.

    Raises:
        DuplicateNameError: Tasks have the given name already, or it is not allowed.
    """
    stem = check_name(collective if name is None else name)
    end = f".{algorithm}/"
    tasks = (other for other in (*work.graph, *work.values) if end in other and other.startswith(stem))
    taken = {other[:at] for other in tasks for at in _places(end, other)}
    if name is not None and name in taken:
        raise DuplicateNameError(f"name {name!r} is taken in this workload: give another name=")
    found, number = stem, 0
    while found in taken:
        number += 1
        found = f"{stem}{number}"
    return Members(work, f"{found}{end}"[:-1], tuple(devices))


def _places(part: str, text: str) -> Iterator[int]:
    """Where `part` begins in `text`, each time."""
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)

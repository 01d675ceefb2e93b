"""The devices that take part in a collective, and the tasks and copies that are added for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphsched.workload import Operation, Value, Workload

KINDS = ("cuda", "worker")
"""Constraints that name no one device."""


@dataclass(frozen=True)
class Members:
    """Who takes part.

    Attributes:
        work: What tasks are added to.
        name: Before the tasks' names.
        devices: In order, each once; member k is on ``devices[k]``.
    """

    work: Workload
    name: str
    devices: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.devices)

    def run(self, what: str, device: str, operation: Operation, **more: Any) -> Any:
        """A task on `device`; values of other devices among its arguments are copied there by the plan."""
        assert operation.function is not None
        return self.work.task(operation.function, *operation.args, name=f"{self.name}/{what}", device=device, **more)

    def send(self, what: str, value: Value, device: str, after: Sequence[Value] = ()) -> Value:
        """`value` on `device`: a copy of its own, from which others may be made; itself where it is there already.

        The copy comes after those that make the values `after`, see `Workload.copy`.
        """
        if location(self.work, value) == device:
            return value
        return self.work.copy(value, to=device, pinned=True, after=after, name=f"{self.name}/{what}")

    def part(self, what: str, devices: Sequence[str]) -> Members:
        """Some of them, for a collective inside this one."""
        return replace(self, name=f"{self.name}/{what}", devices=tuple(devices))

    def rotated(self, first: str) -> Members:
        """The same from `first` on and round."""
        k = self.devices.index(first)
        return replace(self, devices=self.devices[k:] + self.devices[:k])


@dataclass(frozen=True)
class Moving:
    """Blocks that members sum in hops, and then send to each other until all have all.

    Attributes:
        members: In order.
        held: What each has of the sums, by number of the block.
    """

    members: Members
    held: list[dict[int, Value]] = field(default_factory=list)

    def reduce(self, own: Sequence[Sequence[Value]]) -> Iterator[None]:
        """Sum the blocks `own` of each member, a hop at a time."""
        raise NotImplementedError

    def gather(self) -> Iterator[None]:
        """Send the sums on, a hop at a time."""
        raise NotImplementedError

    def both(self, own: Sequence[Sequence[Value]]) -> Iterator[None]:
        """`reduce`, then `gather`."""
        yield from self.reduce(own)
        yield from self.gather()

    def blocks_of(self, device: str) -> list[Value]:
        """What a device holds, in the order of blocks."""
        held = self.held[self.members.devices.index(device)]
        return [held[b] for b in sorted(held)]


def location(work: Workload, value: Value) -> str | None:
    """The device where `value` is to be, whatever the scheduler does; None where it decides."""
    if value.device is not None or value.producer is None:
        return value.device
    devices = work[value.producer].devices
    return devices[0] if len(devices) == 1 and devices[0] not in KINDS else None


def finish(hops: Iterator[object]) -> None:
    """Take all hops."""
    for _ in hops:
        pass

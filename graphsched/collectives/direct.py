"""Everybody sends to those who need it, in one hop: one place that sums all, or a share of the sum on every device.

Each element is summed in one place, in the order of members 0 to k-1, and copied from there: all devices get the same
bits. With `n` bytes a value:

- `central` (``gather``, ``cpu``, ``server``): the place of the sum receives (k-1) n bytes (``cpu``: k n) and sends as
  many, the others send n and receive n; 2 hops. Source: d2l.ai 12.5, ``allreduce``; Li et al., Scaling Distributed
  Machine Learning with the Parameter Server, OSDI 2014.
- `sharded`: every device sends and receives 2 (k-1)/k n bytes; 2 hops, k-1 copies out of every device in each. Source:
  Rabenseifner, Optimization of Collective Reduction Operations, ICCS 2004; d2l.ai 12.7.1.

Not modelled: sums made by the network or by the copy itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from graphsched.collectives.blocks import block_sizes, cut, everywhere, join
from graphsched.collectives.members import Members, Moving, finish
from graphsched.collectives.operations import specification, summed
from graphsched.workload import Value

IN_TURN_FROM_BYTES = 1024 * 1024
"""Copies of less take no longer on an NVLink (300 GB/s: 3 µs) than one waits for another."""


def central(members: Members, values: Sequence[Value], place: str, blocks: int) -> list[Value]:
    """Sums on `place`, block by block, so that one block travels back while the next is summed."""
    spec = specification(values[0])
    return everywhere(members, central_sums(members, values, place, blocks), spec)


def central_sums(members: Members, values: Sequence[Value], place: str, blocks: int) -> list[Value]:
    """The sum of each block, on `place`."""
    own = cut(members, values, block_sizes(specification(values[0]), blocks))
    columns = zip(*own, strict=True)
    return [members.run(f"add/{b}", place, summed(column)) for b, column in enumerate(columns)]


@dataclass(frozen=True)
class Shares(Moving):
    """A share of the sum on every device: member j sums part j of all values, then everybody gets all sums.

    Copies go in rounds, see `exchange`. Where there are not enough elements for all, the first members have a share
    each.
    """

    def reduce(self, own: Sequence[Sequence[Value]]) -> Iterator[None]:
        """Sum the parts `own` of each member: copies, then sums."""
        devices = self.members.devices
        columns = [list(column) for column in zip(*own, strict=True)]
        given = {(i, j): value for j, column in enumerate(columns) for i, value in enumerate(column)}
        for (i, j), value in exchange(self.members, given, "share/{1}.{0}").items():
            columns[j][i] = value
        yield
        self.held[:] = [{} for _ in devices]
        for j, column in enumerate(columns):
            self.held[j][j] = self.members.run(f"add/{j}", devices[j], summed(column))

    def gather(self) -> Iterator[None]:
        """Send all sums to everybody."""
        k = range(len(self.members))
        given = {(i, j): own[i] for i, own in enumerate(self.held) if i in own for j in k}
        for (i, j), value in exchange(self.members, given, "pass/{0}.{1}").items():
            self.held[j][i] = value
        yield


def sharded(members: Members, values: Sequence[Value]) -> list[Value]:
    """`Shares` of all values, put together on every device."""
    spec = specification(values[0])
    moving = Shares(members)
    finish(moving.both(cut(members, values, block_sizes(spec, len(members)))))
    return [join(members, f"sum/{k}", d, moving.blocks_of(d), spec) for k, d in enumerate(members.devices)]


def shares(members: Members, own: Sequence[Sequence[Value]]) -> list[Value]:
    """Sum j of block j of all members, on device j."""
    moving = Shares(members)
    finish(moving.reduce(own))
    return [held[j] for j, held in enumerate(moving.held) if j in held]


def exchange(members: Members, given: Mapping[tuple[int, int], Value], what: str) -> dict[tuple[int, int], Value]:
    """Send ``given[i, j]``, which is on device i, to device j: what is there then.

    Copies are named ``what.format(i, j)``.
    What a member sends goes to the next one first, then to the one after that, and so on: as one copy at a time leaves
    each GPU, one arrives at a time. So that schedulers and engines keep this order, a large copy from a GPU comes after
    the one before, and waits for it inside a host.
    """
    found: dict[tuple[int, int], Value] = {}
    last: dict[int, Value] = {}
    for i, j in rounds(len(members)):
        if (i, j) in given:
            value = given[i, j]
            after = [last[i]] if i in last and _waits(members.devices[i], value) else []
            last[i] = members.send(what.format(i, j), value, members.devices[j], after)
            found[i, j] = last[i]
    return found


def _waits(device: str, value: Value) -> bool:
    return device.rpartition("/")[2].startswith("cuda:") and value.nbytes >= IN_TURN_FROM_BYTES


def rounds(k: int) -> Iterator[tuple[int, int]]:
    """Who sends to whom in each of k-1 rounds, in which everybody sends once and receives once.

    Example:
        >>> list(rounds(3))
        [(0, 1), (1, 2), (2, 0), (0, 2), (1, 0), (2, 1)]
    """
    return ((i, (i + shift) % k) for shift in range(1, k) for i in range(k))

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

from collections.abc import Sequence

from graphsched.collectives.blocks import block_sizes, cut, everywhere
from graphsched.collectives.members import Members
from graphsched.collectives.operations import specification, summed
from graphsched.workload import Value


def central(members: Members, values: Sequence[Value], place: str, blocks: int) -> list[Value]:
    """Sums on `place`, block by block, so that one block travels back while the next is summed."""
    spec = specification(values[0])
    return everywhere(members, central_sums(members, values, place, blocks), spec)


def central_sums(members: Members, values: Sequence[Value], place: str, blocks: int) -> list[Value]:
    """The sum of each block, on `place`."""
    own = cut(members, values, block_sizes(specification(values[0]), blocks))
    columns = zip(*own, strict=True)
    return [members.run(f"add/{b}", place, summed(column)) for b, column in enumerate(columns)]


def sharded(members: Members, values: Sequence[Value]) -> list[Value]:
    """Member j sums part j of all values, then everybody gets all sums."""
    spec = specification(values[0])
    own = cut(members, values, block_sizes(spec, len(members)))
    return everywhere(members, shares(members, own), spec)


def shares(members: Members, own: Sequence[Sequence[Value]]) -> list[Value]:
    """Sum j of block j of all members, on device j."""
    columns = list(zip(*own, strict=True))
    owners = members.devices[: len(columns)]
    return [members.run(f"add/{j}", d, summed(c)) for j, (d, c) in enumerate(zip(owners, columns, strict=True))]

"""Blocks that go round a ring of devices: first to be summed, then to be known everywhere.

Block b ends its first round, summed, on device b mod k. It starts one further, so its elements are summed in the order
b+1, b+2, …, b+k (all mod k) of the ring; every device gets copies of that one sum, and with them the same bits. With n
bytes a value, and a number of blocks that k divides, every device sends 2 (k-1)/k n bytes to the next and receives as
many from the one before, in 2 (k-1) hops. More blocks than devices: one is summed while the next is on its way. Fewer:
some devices have nothing to send for a while; one block is a chain there and a chain back.

Two rings in opposite directions (`rings`) take half of the elements each: every device sends (k-1)/k n bytes to each
of its two neighbours.

Source: Patarasuk and Yuan, Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations, 2009; d2l.ai 12.7.2;
two rings: Jia et al. 2018, NCCL.

Not modelled: which devices are neighbours in the hardware; the ring goes in the order of the values given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from graphsched.collectives.blocks import block_sizes, cut, join, part_sizes
from graphsched.collectives.members import Members, Moving, finish
from graphsched.collectives.operations import called, specification
from graphsched.workload import ITEM_BYTES, Value


@dataclass(frozen=True)
class Ring(Moving):
    """Blocks on one ring.

    Attributes:
        name: Of its tasks: the direction.
    """

    name: str = "up"

    def reduce(self, own: Sequence[Sequence[Value]]) -> Iterator[None]:
        """Sum the blocks `own` of each member, a hop at a time: block b to device b mod k."""
        k = len(self.members)
        blocks = range(len(own[0]))
        self.held[:] = [{} for _ in range(k)]
        moving = [own[(b + 1) % k][b] for b in blocks]
        for hop in range(1, k):
            for b in blocks:
                d = (b + 1 + hop) % k
                what = f"{self.name}/add/{b}.{hop}"
                moving[b] = self.members.run(what, self.members.devices[d], called("add", moving[b], own[d][b]))
            yield
        for b in blocks:
            self.held[b % k][b] = moving[b]

    def gather(self) -> Iterator[None]:
        """Pass every block on, a hop at a time, until all devices hold all."""
        k = len(self.members)
        starts = [(b, d) for d, own in enumerate(self.held) for b in own]
        for hop in range(1, k):
            for b, start in sorted(starts):
                d = (start + hop) % k
                before = self.held[d - 1][b]
                self.held[d][b] = self.members.send(f"{self.name}/pass/{b}.{hop}", before, self.members.devices[d])
            yield


def ring(members: Members, values: Sequence[Value], blocks: int) -> list[Value]:
    """One ring, in the order of the members."""
    spec = specification(values[0])
    own = cut(members, values, block_sizes(spec, blocks))
    up = Ring(members)
    finish(up.both(own))
    return [join(members, f"sum/{k}", d, up.blocks_of(d), spec) for k, d in enumerate(members.devices)]


def rings(members: Members, values: Sequence[Value], blocks: int) -> list[Value]:
    """Two rings, of `blocks` blocks each: the first half of the elements goes up, the second down."""
    spec = specification(values[0])
    halves = block_sizes(spec, 2)
    if len(halves) == 1:
        return ring(members, values, blocks)
    first, second = (part_sizes(half, blocks, ITEM_BYTES[spec.dtype]) for half in halves)
    own = cut(members, values, [*first, *second])
    up, down = Ring(members), Ring(replace(members, devices=members.devices[::-1]), name="down")
    upward, downward = [row[: len(first)] for row in own], [row[len(first) :] for row in reversed(own)]
    finish(zip(up.both(upward), down.both(downward), strict=True))
    pieces = [[*up.blocks_of(d), *down.blocks_of(d)] for d in members.devices]
    return [join(members, f"sum/{k}", d, pieces[k], spec) for k, d in enumerate(members.devices)]

"""A chain of devices: block after block is passed on, so that all links are busy once the first block is through.

Nobody sends or receives more than the n bytes of a value. A block takes k-1 hops; B blocks take the
time of k-2+B hops of one.

Source: Sanders, Speck and Träff, Two-tree Algorithms for Full Bandwidth Broadcast, Reduction and Scan, 2009, section 1
(linear pipeline).

Not modelled: which devices are neighbours in the hardware.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphsched.collectives.blocks import block_sizes, cut
from graphsched.collectives.members import Members
from graphsched.collectives.operations import called, specification
from graphsched.workload import Value


def chain_sums(members: Members, values: Sequence[Value], place: str, blocks: int) -> list[Value]:
    """The sum of each block on the first device, `place`: from the second one round to it, added in this order."""
    own = cut(members, values, block_sizes(specification(values[0]), blocks))
    k = len(members)
    assert members.devices[0] == place
    moving = list(own[1])
    for i in range(2, k + 1):
        for b, block in enumerate(moving):
            operation = called("add", block, own[i % k][b])
            moving[b] = members.run(f"add/{b}.{i % k}", members.devices[i % k], operation)
    return moving


def chain_copies(members: Members, blocks: Sequence[Value]) -> list[list[Value]]:
    """Blocks of the first device on every one."""
    held = [list(blocks)]
    for i, device in enumerate(members.devices[1:], start=1):
        held.append([members.send(f"pass/{b}.{i}", block, device) for b, block in enumerate(held[-1])])
    return held

"""A binary tree of devices: pairs are summed, then pairs of pairs, up to the first device, and the sum goes back down.

In hop h of the way up, device i (a multiple of 2^(h+1)) adds what device i + 2^h has to its own: for four members
(x0 + x1) + (x2 + x3). What members lack beyond a power of two is left out: with three (x0 + x1) + x2. Every device gets
copies of the first one's sum, and with them the same bits. 2 ⌈log2 k⌉ hops; with n bytes a value the first device
receives ⌈log2 k⌉ n bytes and sends as many, no other more; all of them together send 2 (k-1) n.

Source: Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH, 2005 (binomial
tree).

Not modelled: two trees that each use what the other leaves idle (Sanders et al. 2009).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphsched.collectives.blocks import block_sizes, cut, join
from graphsched.collectives.members import Members
from graphsched.collectives.operations import called, specification
from graphsched.workload import Value


def tree(members: Members, values: Sequence[Value], blocks: int) -> list[Value]:
    """Sums up the tree and copies down it, block by block."""
    spec = specification(values[0])
    held = tree_copies(members, tree_sums(members, values, members.devices[0], blocks))
    return [join(members, f"sum/{k}", d, held[k], spec) for k, d in enumerate(members.devices)]


def tree_sums(members: Members, values: Sequence[Value], place: str, blocks: int) -> list[Value]:
    """The sum of each block on the first device, `place`."""
    assert members.devices[0] == place
    held = cut(members, values, block_sizes(specification(values[0]), blocks))
    for d in _distances(len(members)):
        for b in range(len(held[0])):
            for i, other in _pairs(len(members), d):
                operation = called("add", held[i][b], held[other][b])
                held[i][b] = members.run(f"add/{b}.{i}.{other}", members.devices[i], operation)
    return held[0]


def tree_copies(members: Members, blocks: Sequence[Value]) -> list[list[Value]]:
    """Blocks of the first device on every one."""
    held: list[list[Value]] = [list(blocks) for _ in members.devices]
    for d in reversed(list(_distances(len(members)))):
        for b in range(len(blocks)):
            for i, other in _pairs(len(members), d):
                held[other][b] = members.send(f"pass/{b}.{i}.{other}", held[i][b], members.devices[other])
    return held


def _distances(k: int) -> Iterator[int]:
    return (1 << h for h in range((k - 1).bit_length()))


def _pairs(k: int, distance: int) -> Iterator[tuple[int, int]]:
    return ((i, i + distance) for i in range(0, k - distance, 2 * distance))

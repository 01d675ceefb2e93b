"""Recursive halving and doubling: partners exchange halves, then quarters, and put them together the same way back.

With p the largest power of two up to k (less where there are too few elements for p parts), member i ≥ p first gives
its value to member i mod p, which adds it to its own, from the nearest to the furthest. In hop h members whose numbers
differ by p / 2^(h+1) exchange halves of what they still sum, and each adds the other's half to its own; so part j is
summed on device j, as a binary tree over members with the furthest first: for four x0 + x2 and x1 + x3 first. Then
partners exchange what they have, nearest first. Each part is summed in one place and copied from there: all devices get
the same bits.

With n bytes a value and k = p every device sends and receives 2 (k-1)/k n bytes in 2 log2 k hops. Others: two hops
more, in which a member i < k - p receives n bytes and sends n beyond the 2 (p-1)/p n of its own.

Source: Rabenseifner 2004; Thakur, Rabenseifner and Gropp 2005, sections 4.1 and 4.5.

Not modelled: schemes for other numbers without these two hops.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphsched.collectives.blocks import block_sizes, cut_one, join
from graphsched.collectives.members import Members
from graphsched.collectives.operations import called, flat, shaped, specification, summed
from graphsched.workload import Operation, TensorSpec, Value


def halving(members: Members, values: Sequence[Value]) -> list[Value]:
    """Halving and doubling among the first p members, which stand for the others."""
    spec = specification(values[0])
    p = 1 << (len(members).bit_length() - 1)
    while len(block_sizes(spec, p)) < p:
        p //= 2
    if p == 1:
        total = members.run("add", members.devices[0], summed(values))
        return [members.send(f"sum/{k}", total, device) for k, device in enumerate(members.devices)]
    sums = _doubled(members, _halved(members, values, block_sizes(spec, p)), spec)
    return [join(members, f"sum/{k}", d, [sums[k % p]], spec) for k, d in enumerate(members.devices)]


def _halved(members: Members, values: Sequence[Value], sizes: Sequence[int]) -> list[Value]:
    """Sum j of part j, on device j."""
    p = len(sizes)
    spans = [(0, p)] * p
    halves: list[list[Value]] = [_folded(members, values, i, sizes) for i in range(p)]
    done: list[Value] = []
    distance = p // 2
    while distance:
        spans = [((a + b) // 2, b) if i & distance else (a, (a + b) // 2) for i, (a, b) in enumerate(spans)]
        kept = [halves[i][bool(i & distance)] for i in range(p)]
        given = [halves[i ^ distance][bool(i & distance)] for i in range(p)]
        adds = [called("add", one, other) for one, other in zip(kept, given, strict=True)]
        names = [f"add/{distance}.{i}" for i in range(p)]
        if distance == 1:
            done = [members.run(names[i], members.devices[i], adds[i]) for i in range(p)]
        else:
            halves = [
                list(members.run(names[i], members.devices[i], _in_two(adds[i], sizes, *spans[i]))) for i in range(p)
            ]
        distance //= 2
    return done


def _folded(members: Members, values: Sequence[Value], i: int, sizes: Sequence[int]) -> list[Value]:
    """Two halves of the value of member i, and of those that it stands for."""
    p = len(sizes)
    parts = values[i::p]
    if len(parts) == 1:
        halves = [sum(sizes[: p // 2]), sum(sizes[p // 2 :])]
        return cut_one(members, i, parts[0], halves)
    operation = _in_two(summed([flat(value) for value in parts]), sizes, 0, p)
    return list(members.run(f"fold/{i}", members.devices[i], operation))


def _doubled(members: Members, parts: Sequence[Value], spec: TensorSpec) -> list[Value]:
    """All parts together, on every one of the first p devices."""
    p = len(parts)
    held = list(parts)
    distance = 1
    while distance < p:
        last = 2 * distance == p
        joined = [called("cat", [held[i & ~distance], held[i | distance]]) for i in range(p)]
        names = [f"sum/{i}" if last else f"cat/{distance}.{i}" for i in range(p)]
        whole = [shaped(both, spec) if last else both for both in joined]
        held = [members.run(names[i], members.devices[i], whole[i]) for i in range(p)]
        distance *= 2
    return held


def _in_two(elements: object, sizes: Sequence[int], start: int, end: int) -> Operation:
    """Parts `start` to `end`, flat, cut in the middle."""
    middle = (start + end) // 2
    return called("split", elements, [sum(sizes[start:middle]), sum(sizes[middle:end])])

"""Sums of which each device gets a part, or one device all: `reduce`, `reduce_scatter`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from graphsched.collectives.blocks import join
from graphsched.collectives.chain import chain_sums
from graphsched.collectives.choosing import Build, Way, checked_platform, faster, fastest
from graphsched.collectives.direct import central_sums, shares
from graphsched.collectives.members import Members, finish
from graphsched.collectives.operations import called, specification
from graphsched.collectives.requests import check_blocks, check_known, check_rows, checked_devices, named_members
from graphsched.collectives.ring import Ring
from graphsched.collectives.rows import cut_rows, row_counts
from graphsched.collectives.tree import tree_sums
from graphsched.costs import Costs
from graphsched.platform import Platform
from graphsched.workload import Value, Workload

REDUCE = {"direct": central_sums, "ring": chain_sums, "tree": tree_sums}
WAYS_TO_REDUCE: list[Way] = [(algorithm, blocks) for algorithm in REDUCE for blocks in (1, 4)]
REDUCE_SCATTER = ("direct", "ring")


def reduce(
    work: Workload,
    values: Sequence[Value],
    *,
    to: str | None = None,
    algorithm: str = "direct",
    blocks: int | None = None,
    platform: Platform | None = None,
    costs: Costs | None = None,
    mode: str = "eager",
    name: str | None = None,
) -> Value:
    """The sum of `values`, one on each of k devices, on one of them.

    - ``direct``: all send to it; elements are added in the order of values; it receives (k-1) n bytes in 1 hop.
    - ``ring``: a chain that begins after it and goes round to it, which is added in this order; nobody sends or
      receives more than n bytes, in k-1 hops that blocks pass through one behind the other.
    - ``tree``: see `collectives.tree`, with it as the first; it receives ⌈log2 k⌉ n bytes in as many hops.

    Args:
        work: The workload of the values.
        values: One on each device, of one shape, type and order of memory.
        to: Device of the sum; default the first value's.
        algorithm: One of these, or ``auto``: the fastest on `platform`, as in `all_reduce`.
        blocks: Pieces that travel alone; default 1.
        platform, costs, mode: For ``auto``.
        name: Of its tasks; default ``reduce``.

    Raises:
        WorkloadError: As `all_reduce`.
    """
    devices = checked_devices(work, values)
    check_known("algorithm of reduce", algorithm, (*REDUCE, "auto"))
    place = devices[0] if to is None else check_known("device among the values", to, devices)
    if algorithm == "auto":
        platform = checked_platform(platform, devices, blocks)
        ways: dict[Way, Build] = {
            way: partial(reduce, to=place, algorithm=way[0], blocks=way[1]) for way in WAYS_TO_REDUCE
        }
        chosen = fastest([specification(value) for value in values], devices, ways, platform, costs, mode)
        algorithm, blocks = chosen.algorithm, chosen.blocks
    blocks = check_blocks(1 if blocks is None else blocks)
    members = named_members(work, devices, name, "reduce", algorithm)
    spec, own = specification(values[0]), values[devices.index(place)]
    if len(devices) == 1 or not math.prod(spec.shape):
        made: Value = members.run("sum", place, called("clone", own))
        return made
    first = devices.index(place) if algorithm != "direct" else 0
    members = members.rotated(devices[first])
    rotated = [*values[first:], *values[:first]]
    return join(members, "sum", place, REDUCE[algorithm](members, rotated, place, blocks), spec)


def reduce_scatter(
    work: Workload,
    values: Sequence[Value],
    *,
    algorithm: str = "direct",
    platform: Platform | None = None,
    costs: Costs | None = None,
    mode: str = "eager",
    name: str | None = None,
) -> list[Value]:
    """Rows of the sum of `values`: device j gets part j of k, the first parts a row longer where they do not divide.

    Every device sends and receives (k-1)/k n bytes.

    - ``direct``: in 1 hop; elements are added in the order of values.
    - ``ring``: in k-1 hops, to the next device only; part j is added in the order j+1, j+2, …, j+k (mod k).

    Args:
        work: The workload of the values.
        values: One on each device, of one shape ``[rows, ...]``, type and order of memory.
        algorithm: One of these, or ``auto``: the fastest on `platform`, as in `all_reduce`.
        platform, costs, mode: For ``auto``.
        name: Of its tasks; default ``reduce_scatter``.

    Returns:
        One value a device, of shape ``[rows of its part, ...]``; without rows where there are fewer than devices.

    Raises:
        WorkloadError: As `all_reduce`, or values have no dimension.
    """
    devices = checked_devices(work, values)
    check_known("algorithm of reduce_scatter", algorithm, (*REDUCE_SCATTER, "auto"))
    check_rows(values[0])
    if algorithm == "auto":
        algorithm = faster(reduce_scatter, REDUCE_SCATTER, values, devices, platform, costs, mode).algorithm
    members = named_members(work, devices, name, "reduce_scatter", algorithm)
    own = cut_rows(members, values)
    rows = row_counts(specification(values[0]).shape[0], len(devices))
    full = sum(bool(count) and bool(own[0][0].nbytes) for count in rows) if len(devices) > 1 else 0
    sums = _scattered(members, [row[:full] for row in own], algorithm) if full else []
    empty = [members.run(f"empty/{j}", devices[j], called("clone", own[j][j])) for j in range(full, len(devices))]
    return [*sums, *empty]


def _scattered(members: Members, own: Sequence[Sequence[Value]], algorithm: str) -> list[Value]:
    if algorithm == "direct":
        return shares(members, own)
    ring = Ring(members)
    finish(ring.reduce(own))
    return [ring.held[j][j] for j in range(len(own[0]))]

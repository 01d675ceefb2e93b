"""Collectives that only move: `broadcast`, `all_gather`, `all_to_all`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from graphsched.collectives.blocks import block_sizes, cut, join
from graphsched.collectives.chain import chain_copies
from graphsched.collectives.choosing import Build, Way, checked_platform, faster, fastest
from graphsched.collectives.direct import Shares, exchange
from graphsched.collectives.members import Members, finish
from graphsched.collectives.operations import specification
from graphsched.collectives.requests import (
    check_blocks,
    check_devices,
    check_known,
    check_rows,
    checked_devices,
    checked_location,
    checked_value,
    named_members,
)
from graphsched.collectives.ring import Ring
from graphsched.collectives.rows import cut_rows, joined
from graphsched.collectives.tree import tree_copies
from graphsched.costs import Costs
from graphsched.errors import WorkloadError
from graphsched.platform import Platform
from graphsched.workload import Value, Workload

Copies = Callable[[Members, Sequence[Value]], list[list[Value]]]
WAYS = ("direct", "ring")


def broadcast(
    work: Workload,
    value: Value,
    devices: Sequence[str],
    *,
    algorithm: str = "direct",
    blocks: int | None = None,
    platform: Platform | None = None,
    costs: Costs | None = None,
    mode: str = "eager",
    name: str | None = None,
) -> list[Value]:
    """`value` on every one of `devices`.

    - ``direct``: its device sends to all others, (k-1) n bytes in 1 hop.
    - ``ring``: a chain in the order of `devices`, from its own round; everybody but the last sends n bytes, in k-1 hops
      that blocks pass through one behind the other.
    - ``tree``: see `collectives.tree`; its device sends ⌈log2 k⌉ n bytes, in as many hops.

    Args:
        work: The workload of the value.
        value: On one of `devices`, or on another.
        devices: Names, each once.
        algorithm: One of these, or ``auto``: the fastest on `platform`, as in `all_reduce`.
        blocks: Pieces that travel alone, with ``ring`` and ``tree``; default 1.
        platform, costs, mode: For ``auto``.
        name: Of its tasks; default ``broadcast``.

    Returns:
        One value a device, in the order of `devices`; `value` itself on its own.

    Raises:
        ForeignValueError: It is of another workload.
        WorkloadError: It is on no one device, or an algorithm does not exist, or devices are given twice.

    Example:
        >>> import torch
        >>> work = Workload()
        >>> x = work.input("x", torch.rand(6), device="cuda:1")
        >>> [y.device for y in broadcast(work, x, ["cuda:0", "cuda:1", "cuda:2"], algorithm="tree")]
        ['cuda:0', 'cuda:1', 'cuda:2']
    """
    home = checked_location(work, checked_value(work, value))
    check_devices(devices)
    check_known("algorithm of broadcast", algorithm, (*WAYS, "tree", "auto"))
    if algorithm == "auto":
        platform = checked_platform(platform, devices, blocks)
        chosen = fastest([specification(value)], [home], _ways_to_broadcast(devices), platform, costs, mode)
        algorithm, blocks = chosen.algorithm, chosen.blocks
    blocks = check_blocks(1 if blocks is None else blocks)
    if blocks > 1 and algorithm == "direct":
        raise WorkloadError("algorithm 'direct' takes no blocks: ring and tree do, leave them out here")
    everybody = devices if home in devices else [home, *devices]
    members = named_members(work, everybody, name, "broadcast", algorithm).rotated(home)
    if algorithm == "direct":
        found = {d: members.send(f"copy/{k}", value, d) for k, d in enumerate(members.devices)}
    else:
        found = _passed(members, value, chain_copies if algorithm == "ring" else tree_copies, blocks)
    return [found[device] for device in devices]


def _ways_to_broadcast(devices: Sequence[str]) -> dict[Way, Build]:
    ways: list[Way] = [("direct", None), *((algorithm, blocks) for algorithm in ("ring", "tree") for blocks in (1, 4))]

    def build(way: Way, work: Workload, values: list[Value]) -> list[Value]:
        return broadcast(work, values[0], devices, algorithm=way[0], blocks=way[1])

    return {way: partial(build, way) for way in ways}


def _passed(members: Members, value: Value, copies: Copies, blocks: int) -> dict[str, Value]:
    """The value on every device, from hand to hand in blocks."""
    spec = specification(value)
    held = copies(members, cut(members, [value], block_sizes(spec, blocks))[0])
    others = range(1, len(members))
    return {members.devices[0]: value} | {
        members.devices[k]: join(members, f"copy/{k}", members.devices[k], held[k], spec) for k in others
    }


def all_gather(
    work: Workload,
    values: Sequence[Value],
    *,
    algorithm: str = "direct",
    platform: Platform | None = None,
    costs: Costs | None = None,
    mode: str = "eager",
    name: str | None = None,
) -> list[Value]:
    """All of `values`, one behind the other along their first dimension, on each of their devices.

    Every device receives what the others have: (k-1) n bytes, where each has n.

    - ``direct``: each sends to all others, in 1 hop.
    - ``ring``: each passes on to the next device what it got, in k-1 hops.

    Args:
        work: The workload of the values.
        values: One on each device, of shape ``[rows, ...]``; rows may differ.
        algorithm: One of these, or ``auto``: the fastest on `platform`, as in `all_reduce`.
        platform, costs, mode: For ``auto``.
        name: Of its tasks; default ``all_gather``.

    Returns:
        One new value a device, of shape ``[all rows, ...]``.

    Raises:
        WorkloadError: As `all_reduce`, or values have no dimension.
    """
    devices = checked_devices(work, values, rows_differ=True, adds=False)
    check_known("algorithm of all_gather", algorithm, (*WAYS, "auto"))
    if algorithm == "auto":
        algorithm = faster(all_gather, WAYS, values, devices, platform, costs, mode).algorithm
    members = named_members(work, devices, name, "all_gather", algorithm)
    way = Ring if algorithm == "ring" else Shares
    moving = way(members, held=[{k: value} for k, value in enumerate(values)])
    finish(moving.gather())
    return [joined(members, "whole", k, moving.blocks_of(device)) for k, device in enumerate(devices)]


def all_to_all(
    work: Workload,
    values: Sequence[Value],
    *,
    algorithm: str = "direct",
    platform: Platform | None = None,
    costs: Costs | None = None,
    mode: str = "eager",
    name: str | None = None,
) -> list[Value]:
    """Part j of the rows of every value on device j, in the order of values: a transpose of devices and parts.

    Rows are split as `torch.tensor_split` does, the first parts a row longer where k does not divide them.

    - ``direct``: each part goes straight to its device, in 1 hop; every device sends (k-1)/k n bytes.
    - ``ring``: parts go from device to device, up to k-1 hops; every device sends (k-1)/2 n bytes. For devices that are
      joined to their neighbours alone.

    Args:
        work: The workload of the values.
        values: One on each device, of one shape ``[rows, ...]``.
        algorithm: One of these, or ``auto``: the fastest on `platform`, as in `all_reduce`.
        platform, costs, mode: For ``auto``.
        name: Of its tasks; default ``all_to_all``.

    Returns:
        One new value a device, of shape ``[k times the rows of its part, ...]``.

    Raises:
        WorkloadError: As `all_reduce`, or values have no dimension.
    """
    devices = checked_devices(work, values, adds=False)
    check_known("algorithm of all_to_all", algorithm, (*WAYS, "auto"))
    check_rows(values[0])
    if algorithm == "auto":
        algorithm = faster(all_to_all, WAYS, values, devices, platform, costs, mode).algorithm
    members = named_members(work, devices, name, "all_to_all", algorithm)
    k = len(devices)
    parts = cut_rows(members, values)
    if algorithm == "ring":
        for hop in range(1, k):
            for i, j in ((i, (i + far) % k) for i in range(k) for far in range(hop, k)):
                if parts[i][j].nbytes:
                    parts[i][j] = members.send(f"pass/{i}.{j}.{hop}", parts[i][j], devices[(i + hop) % k])
    else:
        given = {(i, j): part for i, row in enumerate(parts) for j, part in enumerate(row) if part.nbytes}
        for (i, j), part in exchange(members, given, "pass/{0}.{1}").items():
            parts[i][j] = part
    return [joined(members, "whole", j, [row[j] for row in parts]) for j in range(k)]

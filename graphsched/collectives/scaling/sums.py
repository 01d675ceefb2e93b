"""What a sum of gradients takes on a platform of many hosts, and how much of that is latency.

=================== ========================================================================= =========================
way                 stages                                                                    how its time is found
=================== ========================================================================= =========================
``ring``            one ring over all GPUs, host after host                                   `rings`: every hop
``tree``            a tree in each host, one over the hosts' first GPUs, and back             plans, all events
``hierarchical``    sums on the first GPU of each host, a ring over these, and back           plans, and `rings`
``rails``           rings in each host until each GPU has its rows of the sum, a ring for     plans, and `rings`
                    each row over the hosts, rings in each host until all have all rows
``sharded``         every GPU is the server of its share                                      `exchange`: classes
=================== ========================================================================= =========================

Stages follow one another without overlap, as their plans have it: GPUs of all hosts do the same at the same time. In
one host, and for stages inside one, plans are simulated as they are. ``ring`` and ``sharded`` are algorithms of
`all_reduce`, ``hierarchical`` is it with ``between="ring"``; ``rails`` is made of `reduce_scatter`, `all_reduce` and
`all_gather`, ``tree`` of `reduce`, `all_reduce` and `broadcast` (where a host has 2, 4, 8, … GPUs that is the tree of
`all_reduce`).

With ``sharded`` the sum of k parts is one kernel that reads them all, as its estimate has it; plans run
k-1 kernels, of some microseconds each.

Not modelled: see `platform.fabric`, and `scaling.full` for the terms of the model that are left out; waits between
hosts that cost other than between two GPUs of one; sums in the network or inside the kernel that sends (NCCL's).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral

from graphsched.collectives.requests import check_known
from graphsched.collectives.scaling.costs import waits_of
from graphsched.collectives.scaling.exchange import sharded_s
from graphsched.collectives.scaling.full import hosts_of, inside_s, simulated_s
from graphsched.collectives.scaling.rings import rings_s
from graphsched.errors import WorkloadError
from graphsched.platform import Platform

WAYS = ("ring", "tree", "hierarchical", "rails", "sharded")
STAGES = {
    "tree": ("tree reduce", "tree broadcast"),
    "hierarchical": ("reduce", "broadcast"),
    "rails": ("reduce_scatter", "all_gather"),
}
"""Ways that begin and end with a stage inside each host, and what these are."""

BLOCK_BYTES = 16
"""Bytes that each GPU's share has where latency alone is asked for."""


@dataclass(frozen=True)
class SumTime:
    """One sum on every GPU.

    Attributes:
        way, gpus, nbytes: Of `WAYS`; how many GPUs; bytes of a value.
        seconds: From values that are there to the sum on every GPU.
        latency_s: Seconds of a sum of next to no bytes (16 a GPU): latencies, waits and launches of kernels.
    """

    way: str
    gpus: int
    nbytes: int
    seconds: float
    latency_s: float


def sum_time(platform: Platform, way: str, gpus: int, nbytes: int, *, issue_s: float = 0.0) -> SumTime:
    """What the sum of values of `nbytes` over the first `gpus` GPUs takes by one of `WAYS`.

    Args:
        platform: Of `platform.topologies`.
        way: See the table of the module.
        gpus: Some of one host, or all of several.
        nbytes: Bytes of a float32 value; at least 16 a GPU.
        issue_s: Least time from one copy that a GPU sends to its next, where it sends to all others at once
            (``sharded`` on several hosts); 0, as `gs.predict` has it without dispatch: none.

    Raises:
        PlatformError: There are fewer GPUs.
        WorkloadError: There is no such way; GPUs are part of a host; bytes are too few; the platform has no fabric.

    Example:
        >>> from graphsched.platform import topologies
        >>> found = sum_time(topologies.rail_optimised(hosts=128), "ring", 1024, 100_000_000)
        >>> 0.5 < found.latency_s / found.seconds < 1.0
        True
    """
    return sum_times(platform, way, gpus, (nbytes,), issue_s=issue_s)[0]


def sum_times(platform: Platform, way: str, gpus: int, sizes: Sequence[int], *, issue_s: float = 0.0) -> list[SumTime]:
    """`sum_time` of values of several sizes, whose latency is the same."""
    check_known("way to sum", way, WAYS)
    if platform.fabric is None:
        raise WorkloadError(f"platform {platform.name!r} is one host: make one of several (gs.topologies), or predict")
    for nbytes in sizes:
        if isinstance(nbytes, bool) or not isinstance(nbytes, Integral):
            raise WorkloadError(f"nbytes is {nbytes!r}: a whole number of bytes is needed")
    members = platform.accelerators(gpus)
    check_gpus(gpus, per_host=len(platform.fabric.host.accelerators()))
    least = BLOCK_BYTES * gpus
    for nbytes in (size for size in sizes if size < least):
        raise WorkloadError(f"{nbytes} bytes over {gpus} GPUs: at least {least} are needed")
    latency_s, *seconds = (_seconds(platform, members, size, way, issue_s) for size in (least, *sizes))
    return [SumTime(way, gpus, size, took_s, latency_s) for size, took_s in zip(sizes, seconds, strict=True)]


def check_gpus(gpus: int, per_host: int) -> None:
    """Make sure that sums over so many GPUs have a time here.

    Raises:
        WorkloadError: They are one, or part of a host beside others.
    """
    if gpus < 2 or (gpus > per_host and gpus % per_host):
        raise WorkloadError(
            f"{gpus} GPUs of hosts of {per_host}: from 2 on, and all of each host where there are several"
        )


def _seconds(platform: Platform, members: tuple[str, ...], nbytes: int, way: str, issue_s: float) -> float:
    hosts = hosts_of(platform, members)
    if way == "tree" and len(hosts) == len(members):
        return simulated_s(platform, members, nbytes, way)
    if way == "hierarchical" and len(hosts) == len(members):
        way = "ring"
    if way in STAGES:
        return _in_stages(platform, hosts, nbytes, way)
    if len(hosts) == 1:
        return simulated_s(_one_host(platform), _one_host(platform).accelerators(len(members)), nbytes, way)
    return rings_s(platform, [members], nbytes) if way == "ring" else sharded_s(platform, members, nbytes, issue_s)


def _in_stages(platform: Platform, hosts: list[list[str]], nbytes: int, way: str) -> float:
    """In each host, between hosts, in each host again."""
    (before, after), waits = STAGES[way], waits_of(platform)
    host = _one_host(platform)
    members = host.accelerators(len(hosts[0]))
    held = nbytes // len(members) if way == "rails" else nbytes  # by a GPU that takes part between hosts
    inside = inside_s(host, members, nbytes, before) + inside_s(host, members, held, after)
    if len(hosts) == 1:
        return inside + waits.after_kernel_s
    if way == "tree":
        firsts = [host[0] for host in hosts]
        between_s = simulated_s(platform, firsts, nbytes, "tree")
        return inside + waits.after_kernel_s + between_s + waits.after_copy_s
    rings = list(zip(*hosts, strict=True)) if way == "rails" else [tuple(host[0] for host in hosts)]
    return inside + rings_s(platform, rings, held) + waits.after_kernel_s


def _one_host(platform: Platform) -> Platform:
    """A host alone, with the costs of tasks."""
    assert platform.fabric is not None
    return replace(platform.fabric.host, costs=platform.costs)

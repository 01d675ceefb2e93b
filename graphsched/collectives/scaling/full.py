"""Sums as whole plans, simulated event by event: what is small, and what the rest is checked against.

Each host dispatches its own part on such a platform, and none is held up by it: dispatch is left out, and with it the
launch queue and timing events. Copies and kernels that slow each other in a GPU's memory are left out too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphsched.collectives.direct import rounds
from graphsched.collectives.moves import all_gather, broadcast
from graphsched.collectives.reductions import reduce, reduce_scatter
from graphsched.collectives.scaling.costs import ITEM_BYTES
from graphsched.collectives.sums import all_reduce
from graphsched.platform import Platform
from graphsched.schedulers import schedule
from graphsched.simulator import Model, predict
from graphsched.workload import TensorSpec, Value, Workload

PAPER = Model(dispatch=False, launch_queue=False, timing=False, traffic=False)
"""The model that sums at scale are predicted with."""

Build = Callable[[Workload, list[Value]], Sequence[Value]]


def simulated_s(platform: Platform, members: Sequence[str], nbytes: int, way: str) -> float:
    """Seconds of a sum as `gs.predict` has it, all transfers simulated; `way` is one of `WAYS`.

    Takes seconds for a ring of 128 GPUs, or for shares on 32.

    Example:
        >>> from graphsched.platform import topologies
        >>> platform = topologies.two_level(hosts=2)
        >>> simulated_s(platform, platform.accelerators(), 10**6, "tree") > 1e-5
        True
    """
    if way in _STAGED:
        return planned_s(platform, members, nbytes, lambda work, values: _STAGED[way](work, values, platform))
    between = "ring" if way == "hierarchical" else None
    return planned_s(
        platform,
        members,
        nbytes,
        lambda work, values: all_reduce(work, values, algorithm=way, between=between, platform=platform),
    )


def planned_s(platform: Platform, members: Sequence[str], nbytes: int, build: Build) -> float:
    """Seconds of what `build` adds for values of `nbytes` on all members."""
    work = Workload("sum")
    spec = TensorSpec((nbytes // ITEM_BYTES,))
    values = [work.input(f"x{k}", spec, device=device) for k, device in enumerate(members)]
    work.keep(*build(work, values))
    return predict(schedule(work, platform, scheduler="one_stream"), model=PAPER).makespan_s


def inside_s(platform: Platform, members: Sequence[str], nbytes: int, stage: str) -> float:
    """Seconds of a stage among the GPUs of one host: a sum on the first, or what comes back; rows of it,
    or all of them; a copy of every value for everybody."""
    stages: dict[str, Build] = {
        "reduce": lambda work, values: [reduce(work, values)],
        "broadcast": lambda work, values: broadcast(work, values[0], members),
        "tree reduce": lambda work, values: [reduce(work, values, algorithm="tree")],
        "tree broadcast": lambda work, values: broadcast(work, values[0], members, algorithm="tree"),
        "reduce_scatter": lambda work, values: reduce_scatter(work, values, algorithm="ring"),
        "all_gather": lambda work, values: all_gather(work, values, algorithm="ring"),
        "exchange": _exchange,
    }
    return planned_s(platform, members, nbytes, stages[stage])


def _exchange(work: Workload, values: Sequence[Value]) -> list[Value]:
    """Each value on every other device, in the rounds of ``sharded``."""
    devices = [str(value.device) for value in values]
    return [work.copy(values[i], to=devices[j], pinned=True) for i, j in rounds(len(values))]


def hosts_of(platform: Platform, members: Sequence[str]) -> list[list[str]]:
    """Members by host."""
    found: dict[str, list[str]] = {}
    for member in members:
        found.setdefault(platform.device(member).host, []).append(member)
    return list(found.values())


def _by_host(values: Sequence[Value], platform: Platform) -> list[list[Value]]:
    of_device = {str(value.device): value for value in values}
    return [[of_device[device] for device in host] for host in hosts_of(platform, list(of_device))]


def _by_trees(work: Workload, values: Sequence[Value], platform: Platform) -> Sequence[Value]:
    """A tree in each host, one over the hosts' first GPUs, and back; one tree where that is the same."""
    hosts = _by_host(values, platform)
    if len(hosts) == 1 or len(hosts) == len(values):
        return all_reduce(work, values, algorithm="tree", platform=platform)
    firsts = [reduce(work, host, algorithm="tree", name=f"in{h}") for h, host in enumerate(hosts)]
    sums = all_reduce(work, firsts, algorithm="tree", name="between")
    back = [
        broadcast(work, total, [str(value.device) for value in host], algorithm="tree", name=f"out{h}")
        for h, (total, host) in enumerate(zip(sums, hosts, strict=True))
    ]
    return [value for host in back for value in host]


def _over_rails(work: Workload, values: Sequence[Value], platform: Platform) -> list[Value]:
    """Rows of a sum in each host by a ring, rings over the hosts for each row, all rows in each host by a ring."""
    rows = [
        reduce_scatter(work, host, algorithm="ring", name=f"in{h}") for h, host in enumerate(_by_host(values, platform))
    ]
    sums = [all_reduce(work, rail, algorithm="ring", name=f"rail{r}") for r, rail in enumerate(zip(*rows, strict=True))]
    gathered = [
        all_gather(work, host, algorithm="ring", name=f"out{h}") for h, host in enumerate(zip(*sums, strict=True))
    ]
    return [value for host in gathered for value in host]


_STAGED: dict[str, Callable[[Workload, Sequence[Value], Platform], Sequence[Value]]] = {
    "rails": _over_rails,
    "tree": _by_trees,
}
"""Ways that are made of stages."""

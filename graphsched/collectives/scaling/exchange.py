"""Everybody sends a part to everybody: the transfers that are alike, on alike hosts, as one.

Where each GPU sees the same network, copies of one class (over links with the same latency, rate and kinds of
capacities) begin, share and end together. So one GPU's copies stand for all, one route a class: it crosses a capacity
as often as the class has copies there, and of a capacity that several GPUs send through the one has its share. The
rates are the simulator's own (`simulator.network`).

GPUs of one host do not see the network for what they send each other; a plan of those copies is simulated.

Not exact: a last leaf or pod with fewer hosts than the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from graphsched.collectives.blocks import part_sizes
from graphsched.collectives.scaling.costs import ITEM_BYTES, sum_s, waits_of
from graphsched.collectives.scaling.full import hosts_of, inside_s
from graphsched.platform import Link, Platform
from graphsched.simulator.fluid import Resource
from graphsched.simulator.network import Network, Route


def sharded_s(platform: Platform, members: Sequence[str], nbytes: int, issue_s: float = 0.0) -> float:
    """Seconds of the sum of values of `nbytes`, of which each member serves its share.

    `issue_s`: least time from one copy that a member sends to its next.

    Example:
        >>> from graphsched.platform import topologies
        >>> platform = topologies.two_level(hosts=16)
        >>> full, half = (topologies.two_level(hosts=16, oversubscription=o) for o in (1, 2))
        >>> slower = [sharded_s(p, p.accelerators(), 10**9) for p in (full, half)]
        >>> 1.5 < slower[1] / slower[0] < 2.0
        True
    """
    k, first, waits = len(members), members[0], waits_of(platform)
    share = part_sizes(nbytes // ITEM_BYTES, k, ITEM_BYTES)[0] * ITEM_BYTES
    last_s = (k - 2) * issue_s + max(platform.link(first, member).duration_s(share) for member in members[1:])
    hop_s = waits.after_kernel_s + max(exchange_s(platform, members, share), last_s) + waits.after_copy_s
    return 2 * hop_s + sum_s(platform, first, share, k)


def exchange_s(platform: Platform, members: Sequence[str], nbytes: int) -> float:
    """Seconds until every member has `nbytes` of every other, all sent at once."""
    near = hosts_of(platform, members)[0]
    inside = inside_s(platform, near, nbytes, "exchange") if len(near) > 1 else 0.0
    classes = _classes(platform, members)
    return max(inside, *_ends_s(platform, classes, _sharers(platform, members), nbytes))


@dataclass(frozen=True)
class _Class:
    """Copies alike.

    Attributes:
        link: One of them.
        crosses: How many of them cross each capacity on the side of the GPU that sends.
    """

    link: Link
    crosses: Counter[str]


def _outgoing(link: Link) -> tuple[str, ...]:
    """The capacities on the side of its source; those of its target are as many."""
    return link.crosses[: len(link.crosses) // 2]


def _classes(platform: Platform, members: Sequence[str]) -> list[_Class]:
    """Copies to other hosts."""
    found: dict[tuple[float, float, tuple[str, ...]], _Class] = {}
    here = platform.device(members[0]).host
    for other in (member for member in members if platform.device(member).host != here):
        link = platform.link(members[0], other)
        key = link.latency_s, link.bandwidth_bytes_per_s, _outgoing(link)
        alike = found.setdefault(key, _Class(link, Counter()))
        alike.crosses.update(_outgoing(link))
    return list(found.values())


def _sharers(platform: Platform, members: Sequence[str]) -> dict[str, int]:
    """How many members send through each capacity that the first one sends through."""
    last_here = [m for m in members if platform.device(m).host == platform.device(members[0]).host][-1]
    through: dict[str, set[str]] = {}
    for target in dict.fromkeys((members[-1], last_here)):
        for member in members:
            if member != target:
                for name in _outgoing(platform.link(member, target)):
                    through.setdefault(name, set()).add(member)
    return {name: len(senders) for name, senders in through.items()}


def _ends_s(platform: Platform, classes: list[_Class], sharers: dict[str, int], nbytes: int) -> list[float]:
    """When the copies of each class are over: the network's own rates and times, from event to event."""
    numbers = {name: k for k, name in enumerate(dict.fromkeys(name for one in classes for name in one.crosses))}
    rates = [platform.capacities[name] / sharers[name] for name in numbers]
    routes = {}
    for i, one in enumerate(classes):
        crosses = tuple(numbers[name] for name, count in one.crosses.items() for _ in range(count))
        routes[i] = Route(one.link.latency_s, float(nbytes), one.link.bandwidth_bytes_per_s, crosses, False, i)
    return _run(routes, rates)


def _run(routes: dict[int, Route], capacities: Sequence[float]) -> list[float]:
    events: list[tuple[float, int, int]] = [(route.latency_s, 0, i) for i, route in routes.items()]
    events.sort()

    def timer(time_s: float, _: Resource, token: int) -> None:
        heappush(events, (time_s, 1, token))

    network, ends_s = Network(routes, capacities, timer), [0.0] * len(routes)
    while events:
        time_s, due, number = heappop(events)
        if not due:
            network.enter(number, time_s)
        else:
            for i in network.due(number, time_s):
                ends_s[i] = time_s
        network.refresh(time_s)
    return ends_s

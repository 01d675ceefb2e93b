"""How transfers under way share capacities: the rate of each.

Not modelled: unfair arbitration beyond the two rules here; a transfer's slow start beyond its latency.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence


def max_min_rates(
    limits: Sequence[float], crosses: Sequence[Sequence[int]], capacities: Mapping[int, float] | Sequence[float]
) -> list[float]:
    """Max-min fair rates of flows: none can have more without taking from one that has no more than it.

    Args:
        limits: Highest rate of each flow, in bytes per second.
        crosses: Capacities that each flow takes part of.
        capacities: Bytes per second by capacity.

    Returns:
        Bytes per second of each flow.

    Source: progressive filling; D. Bertsekas, R. Gallager, Data Networks, 2nd edition, 6.5.2.

    Example:
        >>> max_min_rates([9.0, 9.0, 2.0], [(0,), (0, 1), (0, 1)], [12.0, 5.0])
        [7.0, 3.0, 2.0]
    """
    rates = [0.0] * len(limits)
    open_flows = list(range(len(limits)))
    users: dict[int, int] = {}
    for flow in open_flows:
        for c in crosses[flow]:
            users[c] = users.get(c, 0) + 1
    left = {c: capacities[c] for c in users}
    while open_flows:
        level = min(limits[flow] for flow in open_flows)
        for c, k in users.items():
            if k and left[c] / k < level:
                level = left[c] / k
        full = {c for c, k in users.items() if k and left[c] / k <= level}
        still = []
        for flow in open_flows:
            if limits[flow] > level and full.isdisjoint(crosses[flow]):
                still.append(flow)
                continue
            rates[flow] = level
            for c in crosses[flow]:
                left[c] = max(0.0, left[c] - level)
                users[c] -= 1
        open_flows = still
    return rates


def first_come_rates(
    limits: Sequence[float],
    sources: Sequence[int],
    crosses: Sequence[Sequence[int]],
    capacities: Mapping[int, float] | Sequence[float],
) -> list[float]:
    """Max-min fair rates where each source makes one transfer at a time: its first flow goes, its others wait.

    A source of several flows begins the next transfer while the one before drains, so that its capacity is the limit
    of its first, and no longer that flow's own.

    Args:
        limits: Highest rate of each flow, in bytes per second.
        sources: The capacity that each flow leaves by.
        crosses: The other capacities that each flow takes part of.
        capacities: Bytes per second by capacity.

    Returns:
        Bytes per second of each flow; 0 for one that waits.

    Example:
        Source 0 sends to target 2, then to 3; source 1 to 2 as well, which has 8 for both.

        >>> first_come_rates([9.0] * 3, [0, 0, 1], [(2,), (3,), (2,)], [10.0, 10.0, 8.0, 8.0])
        [4.0, 0.0, 4.0]
    """
    first: dict[int, int] = {}
    for flow, source in enumerate(sources):
        first.setdefault(source, flow)
    flows_of = Counter(sources)
    own = [capacities[source] if flows_of[source] > 1 else limits[flow] for source, flow in first.items()]
    going = max_min_rates(own, [(source, *crosses[flow]) for source, flow in first.items()], capacities)
    rates = dict(zip(first.values(), going, strict=True))
    return [rates.get(flow, 0.0) for flow in range(len(limits))]

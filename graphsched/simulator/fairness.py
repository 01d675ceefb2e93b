"""How transfers under way share capacities: the rate of each.

Not modelled: unfair arbitration beyond the two rules here; a transfer's slow start beyond its latency.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

ROUNDS = 200
CLOSE = 1e-9  # relative; where the rounds may stop


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


def in_turn_rates(
    limits: Sequence[float],
    sources: Sequence[int],
    crosses: Sequence[Sequence[int]],
    capacities: Mapping[int, float] | Sequence[float],
) -> list[float]:
    """Average rates of flows of many transfers whose sources make one transfer of each in turn.

    A source that may have `C·T` bytes under way (`T`: time of a round trip on idle links) sends to its flows
    in turn, so that all of them have one rate. Where they arrive, bytes of all sources wait in one queue,
    which lengthens the round trip by a share `q` that is above 0 only where the capacity is full:
    rate = C / Σ (1 + q) over the flows of the source. A flow to a crowded target so holds back those to others.

    Args:
        limits: Highest rate of each flow, in bytes per second.
        sources: The capacity that each flow leaves by, served in turn.
        crosses: The other capacities that each flow takes part of.
        capacities: Bytes per second by capacity.

    Returns:
        Bytes per second of each flow.

    Source: a closed network of queues in its fluid limit; equal to proportional fairness among sources
    (F. Kelly, A. Maulloo, D. Tan, Rate control for communication networks, 1998).

    Example:
        Source 0 sends to targets 2 and 3, source 1 to 2 only: target 2 is crowded, and target 3 is half idle.

        >>> rates = in_turn_rates([9.0] * 3, [0, 0, 1], [(2,), (3,), (2,)], [1.0] * 4)
        >>> [round(rate, 3) for rate in rates]
        [0.382, 0.382, 0.618]
    """
    queue = dict.fromkeys(sorted({c for flow in crosses for c in flow}), 0.0)
    flows_of: dict[int, list[int]] = {}
    for flow, source in enumerate(sources):
        flows_of.setdefault(source, []).append(flow)
    waits = {s: {c: sum(crosses[f].count(c) for f in flows) for c in queue} for s, flows in flows_of.items()}
    limit = {s: min(limits[f] for f in flows) for s, flows in flows_of.items()}

    def load(c: int, at: float) -> float:
        total = 0.0
        for s, flows in flows_of.items():
            if waits[s][c]:
                others = len(flows) + sum(n * queue[d] for d, n in waits[s].items() if n and d != c)
                total += waits[s][c] * min(limit[s], capacities[s] / (others + waits[s][c] * at))
        return total

    for _ in range(ROUNDS):
        moved = 0.0
        for c, old in queue.items():
            queue[c] = _price(lambda at, c=c: load(c, at), capacities[c])
            moved = max(moved, abs(queue[c] - old) / (1.0 + old))
        if moved < CLOSE:
            break
    rates = {
        s: min(limit[s], capacities[s] / (len(flows) + sum(n * queue[c] for c, n in waits[s].items() if n)))
        for s, flows in flows_of.items()
    }
    return [rates[s] for s in sources]


def _price(load: object, capacity: float) -> float:
    """Smallest queue at which a falling `load` is no more than `capacity`, by bisection."""
    assert callable(load)
    if load(0.0) <= capacity:
        return 0.0
    high = 1.0
    while load(high) > capacity:
        high *= 2.0
    low = 0.0
    while high - low > CLOSE * 1e-3 * (1.0 + high):
        middle = (low + high) / 2
        low, high = (middle, high) if load(middle) > capacity else (low, middle)
    return high

"""Shared capacities of a host with GPUs, fitted to transfers that were measured together.

What is measured: for every GPU both ways at once; copies of some GPUs into the host's memory and out of it,
see `host_loads`; each GPU's port to and from all others, with one the other way, and all to all. Loads between
these are interpolated. All are known beforehand (`patterns.asked_patterns`) and measured in rounds (`survey`).

Not modelled: which GPUs of a number are busy (a switch or a socket that only some of them share);
transfers to other GPUs beside transfers to the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphsched.platform import CapacityTable, Link
from graphsched.simulator.fairness import max_min_rates

NEAR = 0.99  # of a limit: from here on it is what limits
TOLD = 0.9  # of a fair share: a copy that gets less waits for another's end; 0 was seen on all hosts

Flow = tuple[str, str]
Rates = Callable[[Sequence[Flow]], Sequence[float]]
Loads = Mapping[tuple[int, int], float]


@dataclass(frozen=True)
class Capacities:
    """Capacities by name in bytes per second, the tables of those that fall with load, and how well they do.

    Attributes:
        patterns: See `patterns.pattern_rows`.
        peer_engines: See `Device.peer_engines`, of all GPUs.
    """

    rates: dict[str, float] = field(default_factory=dict)
    tables: dict[str, CapacityTable] = field(default_factory=dict)
    patterns: list[dict[str, Any]] = field(default_factory=list)
    peer_engines: int = 1

    def add(self, name: str, table: CapacityTable) -> None:
        """Add a table and its highest rate."""
        self.tables[name], self.rates[name] = table, table.highest


def fit_capacities(gpus: int, links: Sequence[Link], rates: Rates) -> Capacities:
    """Capacities that transfers of `gpus` GPUs share.

    Args:
        gpus: Number of GPUs, ``cuda:0`` and on.
        links: Measured links; a GPU's port is fitted over its ``peer`` links.
        rates: Measures the rate of each of some flows, (source, target), while all are under way.
    """
    alone = rates_alone(links)
    peers = [(k.source, k.target) for k in links if k.memory == "peer"]
    measured = corrected(rates, alone)
    found = Capacities(peer_engines=0 if _side_by_side(peers, measured) else 1)
    for i in range(gpus):
        _fit_engines(found, f"cuda:{i}", alone, measured)
    _fit_host(found, gpus, measured)
    if peers:
        _fit_ports(found, peers, measured)
    return found


def rates_alone(links: Sequence[Link]) -> dict[Flow, float]:
    """Bytes per second of each pinned or peer link while no other is busy."""
    return {(k.source, k.target): k.bandwidth_bytes_per_s for k in links if k.memory in ("pinned", "peer")}


def corrected(rates: Rates, alone: Mapping[Flow, float]) -> Rates:
    """Rates in the measure of the links' own: a flow's in company, times its link's rate over the flow's alone."""
    single: dict[Flow, float] = {}

    def measured(flows: Sequence[Flow]) -> list[float]:
        for flow in flows:
            if flow not in single:
                single[flow] = rates([flow])[0]
        together = rates(flows) if len(flows) > 1 else [single[flows[0]]]
        return [rate * alone[flow] / single[flow] for flow, rate in zip(flows, together, strict=True)]

    return measured


# -- the host's memory ----------------------------------------------------------------------------


def _fit_engines(found: Capacities, gpu: str, alone: Mapping[Flow, float], rates: Rates) -> None:
    """Both copy engines of a GPU: alone, and while the other is busy."""
    into, out = ("cpu", gpu), (gpu, "cpu")
    names = f"{gpu}/h2d", f"{gpu}/d2h"
    both = rates([into, out])
    for flow, name, other, rate in ((into, *names, both[0]), (out, *names[::-1], both[1])):
        found.add(name, CapacityTable((name, other), ((1,), (0, 1)), (alone[flow], min(rate, alone[flow]))))


def host_counts(n: int) -> tuple[int, ...]:
    """Numbers of busy GPUs in a table of the host's memory: all up to 4, then powers of two, and all there are.

    Example:
        >>> host_counts(1), host_counts(4), host_counts(12)
        ((1,), (1, 2, 3, 4), (1, 2, 3, 4, 8, 12))
    """
    return tuple(sorted({n, *range(1, min(n, 4) + 1), *(2**k for k in range(n.bit_length()) if 2**k <= n)}))


def host_loads(n: int) -> list[tuple[int, int]]:
    """Numbers of GPUs (read by, written by) the host that are measured: one way, equal ones, powers of two and all.

    Example:
        >>> host_loads(2)
        [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]
        >>> (3, 0) in host_loads(4), (3, 3) in host_loads(4), (3, 1) in host_loads(4)
        (True, True, False)
    """
    numbers = host_counts(n)
    round_ones = {n, *(k for k in numbers if k.bit_count() == 1)}
    pairs = [(a, b) for a in (0, *numbers) for b in (0, *numbers) if a or b]
    return [(a, b) for a, b in pairs if not a or not b or a == b or {a, b} <= round_ones]


def host_flows(gpus: int, into: int, out: int) -> list[Flow]:
    """Copies to the first `into` GPUs and from the last `out` of `gpus`.

    Example:
        >>> host_flows(4, 1, 2)
        [('cpu', 'cuda:0'), ('cuda:2', 'cpu'), ('cuda:3', 'cpu')]
    """
    flows = [("cpu", f"cuda:{i}") for i in range(into)]
    return flows + [(f"cuda:{i}", "cpu") for i in range(gpus - out, gpus)]


def _fit_host(found: Capacities, gpus: int, rates: Rates) -> None:
    """The host's memory in each direction, by the numbers of GPUs that read and write it."""
    into: dict[tuple[int, int], float] = {}
    out: dict[tuple[int, int], float] = {}
    for a, b in host_loads(gpus):
        flows = host_flows(gpus, a, b)
        got = rates(flows)
        into[a, b], out[b, a] = _total(found, flows, flows[:a], got[:a]), _total(found, flows, flows[a:], got[a:])
    numbers = host_counts(gpus)
    for name, other, total, others in (("host/h2d", "host/d2h", into, out), ("host/d2h", "host/h2d", out, into)):
        table = tuple(between(total, others, numbers, mine, theirs) for mine in numbers for theirs in (0, *numbers))
        found.add(name, CapacityTable((name, other), (numbers, (0, *numbers)), table))


def _total(found: Capacities, flows: Sequence[Flow], one_way: Sequence[Flow], got: Sequence[float]) -> float:
    """What the host's memory gives one way.

    Where engines are the limit, what as many could take one way only, the fastest: others than were measured may ask.
    """
    names = [f"{target}/h2d" if source == "cpu" else f"{source}/d2h" for source, target in one_way]
    both = [found.tables[name].rate((1, flow[::-1] in flows)) for name, flow in zip(names, one_way, strict=True)]
    if all(rate > NEAR * limit for rate, limit in zip(got, both, strict=True)):
        ways = {name.partition("/")[2] for name in names}
        engines = sorted([rate for name, rate in found.rates.items() if name.partition("/")[2] in ways])
        return sum(engines[len(engines) - len(names) :])
    return sum(got)


def between(total: Loads, others: Loads, numbers: Sequence[int], mine: int, theirs: int) -> float:
    """The measured total of a load, else one from its neighbours: of one's own numbers, or of the others'.

    What the others take away goes with how much there is without them, not with how many: three GPUs may be given
    nearly all that four are.

    Args:
        total: Bytes per second one way, by the numbers of GPUs (this way, the other way).
        others: The same for the other way.
        numbers: Of GPUs, measured alone.
        mine, theirs: The load.

    Example:
        >>> alone = {(1, 0): 50.0, (2, 0): 96.0, (3, 0): 100.0}
        >>> between(alone | {(1, 1): 45.0, (3, 1): 85.0}, {}, (1, 2, 3), 2, 1)  # 5 of 50 and 15 of 100: 14.2 of 96
        81.8
    """
    if (mine, theirs) in total:
        return total[mine, theirs]
    lost = {k: total[k, 0] - total[k, theirs] for k in numbers if (k, theirs) in total}
    if min(lost) < mine < max(lost):
        return total[mine, 0] - _at(total[mine, 0], {total[k, 0]: less for k, less in lost.items()})
    got = {(others[k, 0] if k else 0.0): total[mine, k] for k in (0, *numbers) if (mine, k) in total}
    return _at(others[theirs, 0], got)


def _at(x: float, points: Mapping[float, float]) -> float:
    xs = sorted(points)
    return float(np.interp(x, xs, [points[k] for k in xs]))


# -- ports between GPUs ---------------------------------------------------------------------------


def _fit_ports(found: Capacities, peers: Sequence[Flow], rates: Rates) -> None:
    """Each GPU's port out and in, by the numbers of links that are busy in both directions.

    Where a GPU makes one copy at a time, all to all says nothing of ports: some GPUs receive nothing for a while.
    """
    targets = {s: [t for a, t in peers if a == s] for s, _ in peers}
    sources = {t: [s for s, b in peers if b == t] for _, t in peers}
    everyone = [] if found.peer_engines else rates(peers)
    for gpu in sorted(set(targets) & set(sources)):
        outgoing, incoming = [(gpu, t) for t in targets[gpu]], [(s, gpu) for s in sources[gpu]]
        full = [sum(r for f, r in zip(peers, everyone, strict=True) if f[end] == gpu) for end in (0, 1) if everyone]
        _fit_port(found, gpu, outgoing, incoming, full, rates)


def _fit_port(
    found: Capacities,
    gpu: str,
    outgoing: Sequence[Flow],
    incoming: Sequence[Flow],
    full: Sequence[float],
    rates: Rates,
) -> None:
    """A port's two tables; `full` are its sums, out and in, while all send to all; nothing: as while all send to it."""
    names = f"{gpu}/out", f"{gpu}/in"
    fan_out, fan_in = sum(rates(outgoing)), sum(rates(incoming))
    pair = rates([outgoing[0], incoming[0]])
    if len(outgoing) == len(incoming) == 1:
        found.add(names[0], CapacityTable(names, ((1,), (0, 1)), (fan_out, pair[0])))
        found.add(names[1], CapacityTable(names[::-1], ((1,), (0, 1)), (fan_in, pair[1])))
        return
    spread = rates([*outgoing, incoming[0]])  # all out, one in
    gather = rates([*incoming, outgoing[0]])  # all in, one out
    lone = [max(rates([flow])[0] for flow in flows) for flows in (outgoing, incoming)]  # may be more than all together
    most = len(outgoing), len(incoming)
    full = full or (gather[-1], sum(gather[:-1]))
    out = (max(fan_out, lone[0]), pair[0], gather[-1], fan_out, sum(spread[:-1]), full[0])
    into = (max(fan_in, lone[1]), pair[1], spread[-1], fan_in, sum(gather[:-1]), full[1])
    found.add(names[0], _port_table(names, most, out))
    found.add(names[1], _port_table(names[::-1], most[::-1], into))


def _port_table(names: tuple[str, str], most: tuple[int, int], rates: Sequence[float]) -> CapacityTable:
    own = (1, most[0]) if most[0] > 1 else (1,)
    other = (0, 1, most[1]) if most[1] > 1 else (0, 1)
    rows = [rates[:3], rates[3:]][: len(own)]
    return CapacityTable(names, (own, other), tuple(r for row in rows for r in row[: len(other)]))


def _side_by_side(peers: Sequence[Flow], rates: Rates) -> bool:
    """Whether copies from one GPU to two others are under way at the same time; not known where no GPU has two.

    Source a sends to b and c, source d to b as well, so that a's two copies may together have more than one link gives.
    """
    names = sorted({name for flow in peers for name in flow})
    if len(names) < 3:
        return False
    a, b, c, d = (*names[:3], names[3] if len(names) > 3 else names[2])
    flows = [(a, b), (a, c), (d, b)]
    if not set(flows) <= set(peers):
        return False
    alone = [rates([flow])[0] for flow in flows]
    fair = max_min_rates(alone, [(0, 2), (0, 3), (1, 2)], [max(alone)] * 4)
    return min(rates(flows)[:2]) > TOLD * min(fair[:2])

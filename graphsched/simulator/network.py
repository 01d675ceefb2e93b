"""Transfers that share capacities: their rates, found anew only where something changed.

Rates are max-min fair. A capacity with a table has the rate of the present load. What a CPU core that makes a
transfer, kernels in the memories at its ends (`simulator.traffic`), or cores that have just written its bytes
(`simulator.written_copies`) leave of its speed is its own highest rate.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import inf
from typing import NamedTuple

import networkx as nx

from graphsched.platform import CapacityTable
from graphsched.simulator.fairness import max_min_rates
from graphsched.simulator.fluid import Progress, Timer, ended


class Route(NamedTuple):
    """One transfer: seconds that share nothing, bytes, its own highest rate, capacities it takes part of.

    `link` tells links apart, where a table counts those that are busy.
    """

    latency_s: float
    nbytes: float
    limit: float
    crosses: tuple[int, ...]
    on_cores: bool
    link: int = 0

    def alone_s(self, capacities: Sequence[float]) -> float:
        """Seconds with no other transfer about."""
        shares = [capacities[c] / self.crosses.count(c) for c in self.crosses]
        return self.latency_s + self.nbytes / min([self.limit, *shares])


class Table(NamedTuple):
    """How a capacity falls with load: `rates` over the numbers of busy links that cross the capacities `by`."""

    by: tuple[int, ...]
    rates: CapacityTable


class _Flow(NamedTuple):
    """What the rates of alike transfers hang on: a number for it, parts of the network (`_parts`), the rate alone."""

    number: int
    parts: tuple[int, ...]
    alone: float


class _Transfer(Progress):
    """A transfer under way.

    Attributes:
        route, flow: Its own.
        group: Token of the group that it was in last; 0: none.
    """

    __slots__ = ("flow", "group", "route")

    def __init__(self, route: Route, flow: _Flow, now: float) -> None:
        self.left, self.rate, self.since_s, self.end_s = route.nbytes, 0.0, now, inf
        self.route, self.flow, self.group = route, flow, 0


class Network:
    """The transfers under way, in groups that are joined by the capacities they share.

    `cores_share` is the share of its speed that a transfer made by a CPU core has at present, `uses` the shares of
    memory rates that kernels use, by pool, `fetched` the transfers out of caches of cores that rest, see
    `simulator.written_copies`.
    """

    def __init__(
        self,
        routes: Mapping[int, Route],
        capacities: Sequence[float],
        timer: Timer,
        tables: Mapping[int, Table] | None = None,
        slowed: Mapping[int, tuple[tuple[int, float], ...]] | None = None,
    ) -> None:
        """`routes` by action, `capacities` in bytes per second by number, `tables` of those that fall with load.

        `slowed`: by action, what kernels cost a transfer, see `simulator.traffic`.
        """
        self._routes = routes
        self._capacities = capacities
        self._tables = tables or {}
        self._slowed = slowed or {}
        self._part_of = _parts(self._tables, len(capacities))
        self._timer = timer
        self._running: dict[int, _Transfer] = {}
        self._in: list[dict[int, None]] = [{} for _ in capacities]  # transfers by part
        self._groups: dict[int, list[int]] = {}
        self._changed: dict[int, None] = {}
        self._token = 0
        self._flows: dict[tuple[float, tuple[int, ...], int], _Flow] = {}
        self._known: dict[tuple[tuple[int, ...], tuple[float, ...] | None], list[float]] = {}
        self.cores_share = 1.0
        self.uses: Sequence[float] = ()
        self.fetched: Mapping[int, float] = {}
        self._all_fast = self._nothing_slows()

    def capacities(self, group: Sequence[int]) -> Sequence[float]:
        """Bytes per second of every capacity while the transfers of `group` are under way."""
        if not self._tables:
            return self._capacities
        busy: dict[int, set[int]] = {}
        for route in [self._routes[a] for a in group]:
            for c in route.crosses:
                busy.setdefault(c, set()).add(route.link)
        rates = list(self._capacities)
        for c in busy:
            if c in self._tables:
                by, table = self._tables[c]
                rates[c] = table.rate([len(busy.get(other, ())) for other in by])
        return rates

    def enter(self, action: int, now: float) -> None:
        """The bytes of `action` begin to flow."""
        route, inside = self._routes[action], self._in
        _, _, limit, crosses, _, link = route
        flow = self._flows.get((limit, crosses, link if self._tables else 0)) or self._flow(action, route)
        self._running[action] = _Transfer(route, flow, now)
        for part in flow.parts:
            inside[part][action] = None
        self._changed[action] = None

    def _flow(self, action: int, route: Route) -> _Flow:
        """That of a first transfer of its kind; links are told apart for tables alone."""
        parts = tuple(dict.fromkeys([self._part_of[c] for c in route.crosses]))
        (alone,) = max_min_rates([route.limit], [route.crosses], self.capacities([action]))
        flow = _Flow(len(self._flows), parts, alone)
        self._flows[route.limit, route.crosses, route.link if self._tables else 0] = flow
        return flow

    def share_cores(self, share: float) -> None:
        """Transfers made by CPU cores have `share` of their speed from now on."""
        if share != self.cores_share:
            self.cores_share = share
            self._all_fast = self._nothing_slows()
            self._changed.update((a, None) for a, transfer in self._running.items() if transfer.route.on_cores)

    def fetch(self, longer: Mapping[int, float]) -> None:
        """The bytes of these transfers take so many times as long from now on, the others' do not."""
        if longer != self.fetched:
            touched = [a for a in self._running if longer.get(a) != self.fetched.get(a)]
            self.fetched = longer
            self._all_fast = self._nothing_slows()
            self._changed.update(dict.fromkeys(touched))

    def _nothing_slows(self) -> bool:
        """Whether nothing but transfers slows transfers."""
        return self.cores_share == 1.0 and not any(self.uses) and not self.fetched

    @property
    def running(self) -> Collection[int]:
        """Transfers under way."""
        return self._running.keys()

    def share_memory(self, uses: Sequence[float]) -> bool:
        """Kernels use these shares of memory rates, by pool, from now on; whether that changes a transfer."""
        if uses == self.uses:
            return False
        before, self.uses = self.uses or [0.0] * len(uses), uses
        self._all_fast = self._nothing_slows()
        pools = {k for k, use in enumerate(uses) if use != before[k]}
        touched = [a for a in self._running if any(k in pools for k, _ in self._slowed.get(a, ()))]
        self._changed.update(dict.fromkeys(touched))
        return bool(touched)

    def rates(self) -> list[tuple[int, float]]:
        """(action, bytes per second) of the transfers under way, in plan order."""
        return [(action, self._running[action].rate) for action in sorted(self._running)]

    def refresh(self, now: float) -> None:
        """New rates for the groups that changed, and a timer for each."""
        if not self._changed:
            return
        changed, self._changed, before = sorted(self._changed), {}, self._token
        running, inside = self._running, self._in
        for action in changed:
            transfer = running.get(action)
            if transfer is None or transfer.group > before:
                continue  # it has left, or had its rate with another
            for part in transfer.flow.parts:
                if len(inside[part]) > 1:
                    self._share(self._joined(action), now)
                    break
            else:
                self._run_alone(action, transfer, now)

    def _joined(self, action: int) -> list[int]:
        """All whose rates hang on those of `action`, directly or through others, in plan order."""
        group, found, inside, running = [action], {action}, self._in, self._running
        for a in group:  # grows
            for part in running[a].flow.parts:
                if not found.issuperset(inside[part]):
                    group += inside[part].keys() - found
                    found.update(inside[part])
        group.sort()
        return group

    def _run_alone(self, action: int, transfer: _Transfer, now: float) -> None:
        """The rate and the timer of one with which no other shares anything."""
        rate = transfer.flow.alone if self._all_fast else self._rates([action], [transfer])[0]
        transfer.proceed(rate, now)
        if transfer.group:
            self._groups.pop(transfer.group, None)
        transfer.group = self._token = token = self._token + 1
        self._groups[token] = [action]
        if transfer.end_s < inf:
            self._timer(transfer.end_s, self, token)

    def _share(self, group: list[int], now: float) -> None:
        """The rates and the timer of a group."""
        transfers = [self._running[a] for a in group]
        groups, token, first = self._groups, self._token + 1, inf
        for transfer, rate in zip(transfers, self._rates(group, transfers), strict=True):
            transfer.proceed(rate, now)
            if transfer.end_s < first:
                first = transfer.end_s
            groups.pop(transfer.group, None)
            transfer.group = token
        self._token, groups[token] = token, group
        if first < inf:
            self._timer(first, self, token)

    def _rates(self, order: list[int], transfers: list[_Transfer]) -> list[float]:
        """Rates of a group's transfers, given in plan order."""
        flows = tuple([transfer.flow.number for transfer in transfers])
        key = flows, None if self._all_fast else tuple(self._limits(order))
        rates = self._known.get(key)
        if rates is None:
            crosses = [transfer.route.crosses for transfer in transfers]
            rates = max_min_rates(self._limits(order), crosses, self.capacities(order))
            if len(self._known) > 50_000:
                self._known.clear()
            self._known[key] = rates
        return rates

    def _limits(self, actions: list[int]) -> list[float]:
        """The highest rates that transfers may have at present, were there no others."""
        share, uses, routes = self.cores_share, self.uses, [self._routes[a] for a in actions]
        limits = [r.limit * share if r.on_cores else r.limit for r in routes]
        if self.fetched:
            limits = [limit / self.fetched.get(a, 1.0) for a, limit in zip(actions, limits, strict=True)]
        if not any(uses):
            return limits
        longer = [sum([factor * uses[k] for k, factor in self._slowed.get(a, ())]) for a in actions]
        return [limit / (1.0 + more) for limit, more in zip(limits, longer, strict=True)]

    def due(self, token: int, now: float) -> list[int]:
        """Transfers whose last byte arrives at `now`; they have left."""
        group = self._groups.pop(token, None)
        if group is None:
            return []
        running, inside = self._running, self._in
        over = group
        if len(group) > 1:
            over = ended([(a, running[a]) for a in group], now)
            self._changed.update((a, None) for a in group if a not in over)
        for action in over:
            for part in running.pop(action).flow.parts:
                del inside[part][action]
        return over


def tables_of(tables: Mapping[str, CapacityTable], numbers: Mapping[str, int]) -> dict[int, Table]:
    """The tables of the capacities in `numbers`; one that a table names and nobody crosses has the number -1."""
    return {
        numbers[name]: Table(tuple(numbers.get(other, -1) for other in table.by), table)
        for name, table in tables.items()
        if name in numbers
    }


def _parts(tables: Mapping[int, Table], count: int) -> list[int]:
    """Of each of `count` capacities the part of the network: those that tables join, for their rates hang together."""
    joined = nx.Graph()
    joined.add_nodes_from(range(count))
    joined.add_edges_from((c, other) for c, table in tables.items() for other in table.by if other not in (c, -1))
    part_of = [0] * count
    for part, members in enumerate(nx.connected_components(joined)):
        for c in members:
            part_of[c] = part
    return part_of

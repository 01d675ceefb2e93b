"""Transfers that share capacities: their rates, found anew only where something changed.

Rates are max-min fair. A capacity with a table has the rate of the present load. What a CPU core that makes a
transfer, or kernels in the memories at its ends (`simulator.traffic`), leave of its speed is its own highest rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


_Flow = tuple[float, tuple[int, ...], int]


class Table(NamedTuple):
    """How a capacity falls with load: `rates` over the numbers of busy links that cross the capacities `by`."""

    by: tuple[int, ...]
    rates: CapacityTable


class Network:
    """The transfers under way, in groups that are joined by the capacities they share.

    `cores_share` is the share of its speed that a transfer made by a CPU core has at present, `uses` the shares of
    memory rates that kernels use, by pool.
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
        near = _near(self._tables, len(capacities))
        self._near = {crosses: _all_of(near, crosses) for crosses in {route.crosses for route in routes.values()}}
        self._timer = timer
        self._running: dict[int, Progress] = {}
        self._on: list[dict[int, None]] = [{} for _ in capacities]
        self._groups: dict[int, list[int]] = {}
        self._group_of: dict[int, int] = {}
        self._changed: dict[int, None] = {}
        self._token = 0
        self._flows = {a: self._flow(route, route.limit) for a, route in routes.items()}
        self._known: dict[tuple[_Flow, ...], list[float]] = {}
        self.cores_share = 1.0
        self.uses: Sequence[float] = ()

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
        route = self._routes[action]
        self._running[action] = Progress(route.nbytes, now)
        for c in route.crosses:
            self._on[c][action] = None
        self._changed[action] = None

    def share_cores(self, share: float) -> None:
        """Transfers made by CPU cores have `share` of their speed from now on."""
        if share != self.cores_share:
            self.cores_share = share
            self._changed.update((a, None) for a in self._running if self._routes[a].on_cores)

    def share_memory(self, uses: Sequence[float]) -> bool:
        """Kernels use these shares of memory rates, by pool, from now on; whether that changes a transfer."""
        if uses == self.uses:
            return False
        before, self.uses = self.uses or [0.0] * len(uses), uses
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
        changed, self._changed = sorted(self._changed), {}
        done: set[int] = set()
        for action in changed:
            if action not in done and action in self._running:
                group = self._joined(action)
                done.update(group)
                self._set_rates(group, now)

    def _joined(self, action: int) -> list[int]:
        """All whose rates hang on those of `action`, directly or through others, in plan order."""
        group, found, on = [action], {action}, self._on
        for a in group:  # grows
            for c in self._near[self._routes[a].crosses]:
                if not found.issuperset(on[c]):
                    group += on[c].keys() - found
                    found.update(on[c])
        return sorted(group) if len(group) > 1 else group

    def _set_rates(self, group: list[int], now: float) -> None:
        running, group_of, token = self._running, self._group_of, self._token + 1
        first = inf
        for action, rate in zip(group, self._rates(group), strict=True):
            progress = running[action]
            if rate != progress.rate:
                progress.proceed(rate, now)
            if progress.end_s < first:
                first = progress.end_s
            self._groups.pop(group_of.get(action, 0), None)
            group_of[action] = token
        self._token, self._groups[token] = token, group
        if first < inf:
            self._timer(first, self, token)

    def _flow(self, route: Route, limit: float) -> _Flow:
        """What the rate of a transfer hangs on, beside the other flows."""
        return limit, route.crosses, route.link if self._tables else 0  # links are told apart for tables alone

    def _rates(self, order: list[int]) -> list[float]:
        """Rates of a group's transfers, given in plan order."""
        if self.cores_share == 1.0 and not any(self.uses):
            key = tuple([self._flows[a] for a in order]) if len(order) > 1 else (self._flows[order[0]],)
        else:
            limits = self._limits(order)
            key = tuple([self._flow(self._routes[a], limit) for a, limit in zip(order, limits, strict=True)])
        rates = self._known.get(key)
        if rates is None:
            rates = max_min_rates([flow[0] for flow in key], [flow[1] for flow in key], self.capacities(order))
            if len(self._known) > 50_000:
                self._known.clear()
            self._known[key] = rates
        return rates

    def _limits(self, actions: list[int]) -> list[float]:
        """The highest rates that transfers may have at present, were there no others."""
        share, uses, routes = self.cores_share, self.uses, [self._routes[a] for a in actions]
        limits = [r.limit * share if r.on_cores else r.limit for r in routes]
        if not any(uses):
            return limits
        longer = [sum([factor * uses[k] for k, factor in self._slowed.get(a, ())]) for a in actions]
        return [limit / (1.0 + more) for limit, more in zip(limits, longer, strict=True)]

    def due(self, token: int, now: float) -> list[int]:
        """Transfers whose last byte arrives at `now`; they have left."""
        group = self._groups.pop(token, None)
        if group is None:
            return []
        running = self._running
        over = ended([(a, running[a]) for a in group], now) if len(group) > 1 else list(group)
        for action in over:
            del self._running[action], self._group_of[action]
            for c in self._routes[action].crosses:
                self._on[c].pop(action, None)
        for action in group:
            if action not in over:
                self._changed[action] = None
        return over


def tables_of(tables: Mapping[str, CapacityTable], numbers: Mapping[str, int]) -> dict[int, Table]:
    """The tables of the capacities in `numbers`; one that a table names and nobody crosses has the number -1."""
    return {
        numbers[name]: Table(tuple(numbers.get(other, -1) for other in table.by), table)
        for name, table in tables.items()
        if name in numbers
    }


def _near(tables: Mapping[int, Table], count: int) -> list[list[int]]:
    """Of each of `count` capacities itself and those that tables join it to: their rates may change with its use."""
    joined = nx.Graph()
    joined.add_nodes_from(range(count))
    joined.add_edges_from((c, other) for c, table in tables.items() for other in table.by if other not in (c, -1))
    found: list[list[int]] = [[]] * count
    for part in nx.connected_components(joined):
        for c in part:
            found[c] = sorted(part)
    return found


def _all_of(near: Sequence[Sequence[int]], crosses: Sequence[int]) -> tuple[int, ...]:
    """All that is `near` one of `crosses`, each once."""
    return tuple(dict.fromkeys([c for crossed in crosses for c in near[crossed]]))

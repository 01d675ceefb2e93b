"""Transfers that share capacities: max-min fair rates, found anew only where something changed.

Not modelled: capacities that depend on which devices are active (`Network.capacities` is the place);
a transfer's slow start beyond its latency; unfair arbitration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

from graphsched.simulator.fluid import Progress, Timer, ended


class Route(NamedTuple):
    """One transfer: seconds that share nothing, bytes, its own highest rate, capacities it takes part of."""

    latency_s: float
    nbytes: float
    limit: float
    crosses: tuple[int, ...]
    on_cores: bool

    def alone_s(self, capacities: Sequence[float]) -> float:
        """Seconds with no other transfer about."""
        return self.latency_s + self.nbytes / min([self.limit, *(capacities[c] for c in self.crosses)])


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


class Network:
    """The transfers under way, in groups that are joined by the capacities they share.

    `cores_share` is the share of its speed that a transfer made by a CPU core has at present.
    """

    def __init__(self, routes: Mapping[int, Route], capacities: Sequence[float], timer: Timer) -> None:
        """`routes` by action, `capacities` in bytes per second by number."""
        self._routes = routes
        self._capacities = capacities
        self._timer = timer
        self._running: dict[int, Progress] = {}
        self._on: list[dict[int, None]] = [{} for _ in capacities]
        self._groups: dict[int, list[int]] = {}
        self._group_of: dict[int, int] = {}
        self._changed: dict[int, None] = {}
        self._token = 0
        self._known: dict[tuple[tuple[float, tuple[int, ...]], ...], list[float]] = {}
        self.cores_share = 1.0

    def capacities(self, group: Sequence[int]) -> Sequence[float]:  # noqa: ARG002
        """Bytes per second of every capacity while the transfers of `group` are under way."""
        return self._capacities

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

    def refresh(self, now: float) -> None:
        """New rates for the groups that changed, and a timer for each."""
        changed, self._changed = sorted(self._changed), {}
        done: set[int] = set()
        for action in changed:
            if action in self._running and action not in done:
                group = self._joined(action)
                done.update(group)
                self._set_rates(group, now)

    def _joined(self, action: int) -> list[int]:
        """All that share a capacity with `action`, directly or through others, in plan order."""
        found = {action}
        todo = [action]
        capacities: set[int] = set()
        while todo:
            for c in self._routes[todo.pop()].crosses:
                if c not in capacities:
                    capacities.add(c)
                    todo += [a for a in self._on[c] if a not in found]
                    found.update(self._on[c])
        return sorted(found)

    def _set_rates(self, group: list[int], now: float) -> None:
        self._token += 1
        first = inf
        for action, rate in zip(group, self._rates(group), strict=True):
            progress = self._running[action]
            progress.proceed(rate, now)
            if progress.end_s < first:
                first = progress.end_s
            self._groups.pop(self._group_of.get(action, 0), None)
            self._group_of[action] = self._token
        self._groups[self._token] = group
        if first < inf:
            self._timer(first, self, self._token)

    def _rates(self, group: list[int]) -> list[float]:
        routes, share = self._routes, self.cores_share
        key = tuple([(r.limit * share if r.on_cores else r.limit, r.crosses) for r in [routes[a] for a in group]])
        rates = self._known.get(key)
        if rates is None:
            rates = max_min_rates([k[0] for k in key], [k[1] for k in key], self.capacities(group))
            if len(self._known) > 50_000:
                self._known.clear()
            self._known[key] = rates
        return rates

    def due(self, token: int, now: float) -> list[int]:
        """Transfers whose last byte arrives at `now`; they have left."""
        group = self._groups.pop(token, None)
        if group is None:
            return []
        over = ended(((a, self._running[a]) for a in group), now)
        for action in over:
            del self._running[action], self._group_of[action]
            for c in self._routes[action].crosses:
                self._on[c].pop(action, None)
        self._changed.update((a, None) for a in group if a not in over)
        return over

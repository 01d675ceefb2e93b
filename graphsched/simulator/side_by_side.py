"""Chains of operations side by side on one GPU, without plan, lanes or dispatch: what a calibration replays."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from graphsched.costs import Beside, TaskCost
from graphsched.simulator.compute import device_resource
from graphsched.simulator.fluid import Resource


def ends_s(
    kinds: Sequence[TaskCost],
    chains: Sequence[Sequence[int]],
    pairs: Mapping[tuple[int, int], Beside],
    *,
    until: int | None = None,
    late_s: float = 0.0,
) -> list[float]:
    """Seconds from the common start to the end of each chain; those not over when chain `until` is are inf.

    Args:
        kinds: Costs of the operations.
        chains: Of each chain the places in `kinds` of its operations, in order; a chain that comes first
            in the list comes first on the device.
        pairs: What pairs cost each other, by places in `kinds`.
        late_s: When the chains behind the first start; at once where the first is empty.

    Example:
        >>> ends_s([TaskCost(1.0)], [[0, 0], [0]], {})  # no kernels, no curve: the device in equal parts
        [3.0, 2.0]
        >>> ends_s([TaskCost(1.0)], [[0, 0], [0]], {}, late_s=1.0)
        [3.0, 3.0]
    """
    kind_of = [kind for chain in chains for kind in chain]
    chain_of = [c for c, chain in enumerate(chains) for _ in chain]
    left = [len(chain) for chain in chains]
    timers: list[tuple[float, int]] = []
    resource = device_resource(
        kinds,
        dict(enumerate(kind_of)),
        pairs,
        {i: kinds[kind].device_s for i, kind in enumerate(kind_of)},
        lambda time, _, token: heapq.heappush(timers, (time, token)),
    )
    found = [float("inf")] * len(chains)
    firsts = [sum(left[:place]) for place, length in enumerate(left) if length]
    late = firsts[1:] if late_s > 0.0 and left and left[0] else []
    _enter(resource, firsts[: len(firsts) - len(late)], 0.0)
    while timers or late:
        if late and (not timers or late_s <= timers[0][0]):
            _enter(resource, late, late_s)
            late = []
        now, token = heapq.heappop(timers)
        over = resource.due(token, now)
        for action in over:
            _follow(resource, action, chain_of[action], left, found, now)
        if until is not None and found[until] < float("inf"):
            return found
        if over:
            resource.refresh(now)
    return found


def _follow(resource: Resource, action: int, chain: int, left: list[int], found: list[float], now: float) -> None:
    """The next of a chain enters when `action` is over, or the chain is."""
    left[chain] -= 1
    if left[chain]:
        resource.enter(action + 1, now)
    else:
        found[chain] = now


def _enter(resource: Resource, actions: Sequence[int], now: float) -> None:
    for action in actions:
        resource.enter(action, now)
    resource.refresh(now)

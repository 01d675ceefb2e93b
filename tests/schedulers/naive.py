"""The rules of ETF, DLS, min-min and max-min, each step over all ready tasks and devices, for graphs without queues."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import networkx as nx

Pair = tuple[str, str]
Times = dict[Pair, float]


def schedule_naively(rule: str, dag: nx.DiGraph, devices: list[str]) -> dict[str, tuple[str, float]]:
    """Device and start of each task; a byte takes a second between two devices, one lane each, no gap is filled."""
    order = list(nx.topological_sort(dag))
    seconds = {(n, d): _given(dag.nodes[n]["duration_s"], d) for n in order for d in devices}
    placed: dict[str, tuple[str, float]] = {}
    free = dict.fromkeys(devices, 0.0)
    while len(placed) < len(order):
        ready = [n for n in order if n not in placed and all(p in placed for p in dag.pred[n])]
        starts = {(n, d): max(free[d], _ready(dag, n, d, placed, seconds)) for n in ready for d in devices}
        name, device = _RULES[rule](dag, ready, devices, starts, seconds)
        placed[name] = (device, starts[name, device])
        free[device] = starts[name, device] + seconds[name, device]
    return placed


def _given(duration: object, device: str) -> float:
    return (
        float(duration.get(device, duration.get(device.partition(":")[0])))
        if isinstance(duration, dict)
        else float(duration)
    )  # type: ignore[arg-type]


def _ready(dag: nx.DiGraph, name: str, device: str, placed: dict[str, tuple[str, float]], seconds: Times) -> float:
    times = [0.0]
    for before in dag.pred[name]:
        where, start = placed[before]
        sent = 0.0 if where == device else dag.edges[before, name].get("nbytes", 0)
        times.append(start + seconds[before, where] + sent)
    return max(times)


def _levels(dag: nx.DiGraph, devices: list[str], seconds: Times, average: Callable[..., float]) -> dict[str, float]:
    levels: dict[str, float] = {}
    for name in reversed(list(nx.topological_sort(dag))):
        below = max((levels[after] for after in dag.succ[name]), default=0.0)
        levels[name] = average([seconds[name, device] for device in devices]) + below
    return levels


def _etf(dag: nx.DiGraph, ready: list[str], devices: list[str], starts: Times, seconds: Times) -> Pair:
    levels = _levels(dag, devices, seconds, statistics.fmean)
    first = min(starts.values())
    name = max((n for n in ready if any(starts[n, d] == first for d in devices)), key=lambda n: round(levels[n], 9))
    return name, min((d for d in devices if starts[name, d] == first), key=lambda d: seconds[name, d])


def _dls(dag: nx.DiGraph, ready: list[str], devices: list[str], starts: Times, seconds: Times) -> Pair:
    levels = _levels(dag, devices, seconds, statistics.median)
    typical = {n: statistics.median([seconds[n, d] for d in devices]) for n in ready}
    return max(starts, key=lambda pair: levels[pair[0]] - starts[pair] + typical[pair[0]] - seconds[pair])


def _min_min(dag: nx.DiGraph, ready: list[str], devices: list[str], starts: Times, seconds: Times) -> Pair:
    return min(starts, key=lambda pair: starts[pair] + seconds[pair])


def _max_min(dag: nx.DiGraph, ready: list[str], devices: list[str], starts: Times, seconds: Times) -> Pair:
    best = {n: min(devices, key=lambda d: starts[n, d] + seconds[n, d]) for n in ready}
    name = max(ready, key=lambda n: starts[n, best[n]] + seconds[n, best[n]])
    return name, best[name]


_RULES = {"etf": _etf, "dls": _dls, "min_min": _min_min, "max_min": _max_min}

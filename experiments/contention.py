"""Transfers under contention: alone, together, beside each other and beside computation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import graphsched as gs
from experiments._schedules import Schedule, schedules
from experiments._shared import check_known, check_sizes, counted
from experiments._transfers import BESIDE, PATTERNS, SIZES, TREE, at_once, broadcast_tree, of_many_sizes

NAMES = (*PATTERNS, TREE, SIZES, *BESIDE)
AT_ONCE = tuple(Schedule(name, name) for name in ("sequential", "one_stream"))
CHAINS = (*AT_ONCE, Schedule("heft", "heft"))  # the order of issue matters too
LEAST = {TREE: 3, SIZES: 2}


@gs.experiment(source="d2l.ai 12.4")
def contention(
    platform: gs.Platform,
    mbytes: float = 64.0,
    size: int = 2048,
    rounds: int = 2,
    blocks: int = 8,
    seeds: tuple[int, ...] = (1, 2, 3),
    patterns: tuple[str, ...] = NAMES,
    devices: tuple[int, ...] = (1, 2, 4),
) -> Iterator[gs.Case]:
    """Let transfers meet: on one engine, port or link, in patterns, and beside products.

    Patterns of `rounds` × `mbytes` on each way between host and devices, which all may begin at once;
    chains of transfers of different sizes, one a seed; a broadcast tree; then `blocks` matrices of `size`²
    that are streamed through the devices, handed on from one to the next, or exchanged between
    neighbours while others are multiplied.

    Source: d2l.ai 12.4, whose figures are of one transfer at a time.
    """
    here = platform.accelerators()
    check_known("pattern", patterns, NAMES)
    check_sizes(mbytes=mbytes, size=size, rounds=rounds, blocks=blocks, devices=devices)
    for name in patterns:
        for number in [n for n in devices if _least(name) <= n <= len(here)]:
            used = here[:number]
            ways = _ways(name, platform, used)
            for pattern, work in _workloads(name, used, mbytes, size, (rounds, blocks), seeds):
                for way in ways:
                    label = f"{pattern}, {way.words}, {counted(used)}"
                    yield gs.Case(label, work, scheduler=way.scheduler, options=way.options)


def _least(name: str) -> int:
    """Devices that a pattern takes at least."""
    if name in LEAST:
        return LEAST[name]
    return BESIDE[name][0] if name in BESIDE else PATTERNS[name].least


def _ways(name: str, platform: gs.Platform, devices: Sequence[str]) -> Sequence[Schedule]:
    if name in BESIDE:
        return tuple(schedules(platform, devices, waits=True))
    return CHAINS if name in LEAST else AT_ONCE


def _workloads(
    name: str, devices: Sequence[str], mbytes: float, size: int, counts: tuple[int, int], seeds: Sequence[int]
) -> Iterator[tuple[str, gs.Workload]]:
    """What a pattern is called, and its workload; `counts`: rounds of transfers, and blocks beside computation."""
    rounds, blocks = counts
    if name in BESIDE:
        yield name, BESIDE[name][1](devices, size, blocks)
    elif name == SIZES:
        for seed in seeds:
            yield f"{name} {seed}", of_many_sizes(devices, mbytes, seed=seed)
    elif name == TREE:
        yield name, broadcast_tree(devices, mbytes, rounds)
    else:
        yield name, at_once(PATTERNS[name].moves(devices), mbytes, rounds)

"""What it costs CPU lanes to take turns with the interpreter's lock: whoever lets it go wakes one that waits for it.

One lane keeps the lock while another comes back from an operation and needs it, and then begins an operation, which
lets it go: how much longer that operation takes than where nobody waits, and when the other goes on. Likewise of a
lane that sleeps until another says that a task is over.

What a thread loses to lanes that makes calls of GPUs: `calibration.lost_locks`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

HELD = 5  # times as long as the operation takes that the waiting lane comes back from
LARGE, SMALL = 128, 64  # rows of the matrices
COMPUTED = 3  # operations of the lane that comes back, while the other settles
LONGEST_S = 10.0  # of a wait: one with an end is what lanes have in a run
LEAST = 20  # samples: fewer say nothing


@dataclass(frozen=True)
class Products:
    """Two operations of a lane that let the lock go while they compute, of about 40 and 5 µs."""

    large: Any
    small: Any


def lock_figures(repeats: int = 150) -> dict[str, float]:
    """``lock_signal_s`` and ``lock_wake_s``, ``tell_s`` and ``told_s`` in seconds, medians of two lanes on two cores.

    The first two are 0 where the lanes hardly ever met.
    """
    from graphsched.executors.lanes import CpuLane, close_lanes

    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
    places = cores[:2] if len(cores) > 1 else [None, None]
    lanes = {k: CpuLane(f"calibration {k}", 1, place) for k, place in enumerate(places)}
    try:
        samples = [_sample(lanes[0], lanes[1], wait=k % 2 == 0) for k in range(2 * repeats + 20)][20:]
        tellings = [_telling(lanes[0], lanes[1]) for _ in range(repeats + 20)][20:]
    finally:
        close_lanes(lanes)
    tell_s, told_s = (max(0.0, median(column)) for column in zip(*tellings, strict=True))
    return _of_lock(samples) | {"tell_s": tell_s, "told_s": told_s}


def _of_lock(samples: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Figures of samples in turn with a lane that waits and without one."""
    met = [(longer_s, wake_s) for longer_s, wake_s in samples[::2] if wake_s > 0.0]
    if len(met) < LEAST:
        return {"lock_signal_s": 0.0, "lock_wake_s": 0.0}
    alone_s = median([seconds for seconds, _ in samples[1::2]])
    signal_s, wake_s = (median(column) for column in zip(*met, strict=True))
    return {"lock_signal_s": max(0.0, signal_s - alone_s), "lock_wake_s": wake_s}


def _telling(first: Any, second: Any) -> tuple[float, float]:
    """Seconds of telling a lane that sleeps that something is over, and from then until it goes on."""
    clock, said, over = time.perf_counter, threading.Event(), threading.Barrier(3)
    mine, times = _products(), [0.0, 0.0, 0.0]

    def tell() -> None:
        for _ in range(COMPUTED):
            mine.large()
        times[0] = clock()
        said.set()
        times[1] = clock()
        mine.large()
        over.wait()

    def wait() -> None:
        said.wait(LONGEST_S)
        times[2] = clock()
        over.wait()

    second.put(wait)
    first.put(tell)
    over.wait()
    return times[1] - times[0], times[2] - times[1]


def _products() -> Products:
    import torch

    def product(size: int) -> Any:
        x = torch.ones(size, size)
        made = torch.empty_like(x)
        return lambda: torch.mm(x, x, out=made)

    return Products(product(LARGE), product(SMALL))


def _sample(first: Any, second: Any, *, wait: bool) -> tuple[float, float]:
    """Seconds of an operation that lets the lock go, and from then until the other lane goes on if it waits.

    The latter is no more than 0 where that lane had the lock sooner.
    """
    clock, gate, there, over = time.perf_counter, threading.Barrier(2), threading.Event(), threading.Barrier(3)
    mine, others, times = _products(), _products(), [0.0, 0.0, 0.0]

    def hold() -> None:
        gate.wait()
        began = clock()
        mine.small()
        held_s = HELD * (clock() - began)
        while not there.is_set():
            mine.small()
        until = clock() + held_s
        while clock() < until:
            pass
        times[0] = clock()
        mine.large()
        times[1] = clock()
        over.wait()

    def come_back() -> None:
        gate.wait()
        for _ in range(COMPUTED):
            others.large()
        there.set()
        if wait:
            others.small()
            times[2] = clock()
        over.wait()

    second.put(come_back)
    first.put(hold)
    over.wait()
    return times[1] - times[0], times[2] - times[0]

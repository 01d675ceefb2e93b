"""Two operations side by side on a CUDA device: how much longer each takes beside the other.

A chain of calls of one runs on a stream beside a chain of the other that is long enough to outlast it; both are queued
behind a spin kernel, and the other behind one more, so that the chain that is looked at comes first: which of two
streams does that one event releases is not known. Both ways are measured.

Not modelled: inputs that do not stay in the cache; what the same two cost each other in another order.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from graphsched.calibration.contention import PairRun, in_flight, in_flight_of_copies, slowdown_beside
from graphsched.calibration.cuda_clock import Spinner, elapsed_s, new_stream, on_streams
from graphsched.calibration.graph_operations import curve_in_graph
from graphsched.calibration.sampling import MOST_LAUNCHES
from graphsched.costs import Beside, TaskCost
from graphsched.executors.clocks import new_event

CHAIN_S = 3e-4
FEWEST, MOST = 4, 60  # calls of the chain that is looked at
OUTLAST = 1.3
SAMPLES = 3
LATE_SAMPLES = 4  # that may be late, for which the GPU spins longer
CALL_S = 5e-6  # host time of a call beyond its dispatch
LONGER = 1.5  # than it took the thread to issue all
LATE_S = 5e-6  # that the other chain starts later: more than lies between streams that one event releases


@dataclass(frozen=True)
class Operation:
    """An operation to be measured: calls on inputs of its own, one for each of two streams, and its cost."""

    calls: tuple[Callable[[], Any], Callable[[], Any]]
    cost: TaskCost


@dataclass(frozen=True)
class _Reading:
    """Medians: seconds of the first chain alone, and of both side by side."""

    calls: int
    beside_calls: int
    alone_s: float
    end_s: float
    beside_end_s: float


def measure_pair(first: Operation, second: Operation, spinner: Spinner) -> tuple[Beside, Beside] | None:
    """What the second costs the first, and the first the second; None if they cannot be queued in time.

    What a copy of itself costs an operation is in its curve, if it has one.
    """
    if first is second and first.cost.concurrency:
        return (_copies(first.cost),) * 2
    there = _reading(first, second, spinner)
    back = there if first is second else _reading(second, first, spinner)
    if there is None or back is None:
        return None
    costs, runs = (first.cost, second.cost), (_run(there), _run(back))
    factors: tuple[float | None, float | None] = (None, None)
    if all(_is_known(cost) for cost in costs):
        factors = in_flight(costs, runs)
    return Beside(runs[0].slowdown, factors[0], SAMPLES), Beside(runs[1].slowdown, factors[1], SAMPLES)


def _is_known(cost: TaskCost) -> bool:
    return bool(cost.kernels and cost.processors)


def _copies(cost: TaskCost) -> Beside:
    if not _is_known(cost):
        return Beside(cost.slowdown(2), None, SAMPLES)
    found = in_flight_of_copies(cost)
    return Beside(cost.slowdown(2), found[0][1], SAMPLES, found)


def copies_in_graph(operation: Operation, beside: Beside, device: int) -> Beside:
    """`beside`, what copies cost an operation, with what they do in a CUDA graph: as in streams, if that fails."""
    cost = operation.cost.in_graph()
    if _is_known(cost) and (curve := curve_in_graph(operation.calls, device, cost.device_s)):
        return replace(beside, graph_copies=in_flight_of_copies(replace(cost, concurrency=curve)))
    return replace(beside, graph_copies=beside.copies or ((2, beside.contention),))


def _run(reading: _Reading) -> PairRun:
    slowdown = slowdown_beside(reading.alone_s, reading.end_s, reading.beside_end_s, LATE_S)
    return PairRun(reading.calls, reading.beside_calls, slowdown, LATE_S)


def chain_lengths(cost: TaskCost, beside: TaskCost, slowdown: float) -> tuple[int, int]:
    """Calls of the chain that is looked at, and of one that outlasts it if that goes `slowdown` times longer.

    Example:
        >>> chain_lengths(TaskCost(1e-5), TaskCost(1e-4), 2.0), chain_lengths(TaskCost(1e-3), TaskCost(1e-6), 2.0)
        ((30, 9), (4, 400))
    """
    wanted = max(FEWEST, min(MOST, math.ceil(CHAIN_S / max(cost.device_s, 1e-9))))
    calls = max(1, min(wanted, MOST_LAUNCHES // max(cost.launches, 1)))
    lasting_s = OUTLAST * slowdown * calls * cost.device_s
    other = math.ceil(lasting_s / max(beside.device_s, 1e-9)) + 1
    return calls, max(1, min(other, MOST_LAUNCHES // max(beside.launches, 1)))


def _reading(first: Operation, second: Operation, spinner: Spinner) -> _Reading | None:
    """Chains side by side; the second is made longer until it outlasts the first, if it can be queued."""
    slowdown, before = 2.0, 0
    while True:
        calls, beside = chain_lengths(first.cost, second.cost, slowdown)
        ends_s = _ends_s(((first, calls), (second, beside)), spinner)
        if ends_s is None or ends_s[1] >= ends_s[0] or beside == before:
            break
        slowdown, before = 2.0 * slowdown, beside
    alone_s = _ends_s(((first, calls),), spinner)
    if ends_s is None or alone_s is None:
        return None
    return _Reading(calls, beside, alone_s[0], *ends_s)


def _ends_s(chains: Sequence[tuple[Operation, int]], spinner: Spinner) -> list[float] | None:
    """Median seconds from the common start to the end of each chain; None if they cannot be queued in time.

    What a call takes the thread may not be known, or not hold now: where all could not be queued while the GPU spun, it
    spins longer the next time. The first sample in time is a cold one.
    """
    streams = [new_stream(spinner.device) for _ in chains]
    hold_s = 3e-4 + 1.5 * sum(count * (operation.cost.dispatch_s + CALL_S) for operation, count in chains)
    found: list[list[float]] = []
    for _ in range(SAMPLES + 1 + LATE_SAMPLES):
        ends_s, issue_s = _sample_s(chains, streams, spinner, hold_s)
        if issue_s < hold_s:
            found.append(ends_s)
        else:
            hold_s = LONGER * issue_s
        if len(found) > SAMPLES:
            return [median(column) for column in zip(*found[1:], strict=True)]
    return None


def _sample_s(
    chains: Sequence[tuple[Operation, int]], streams: Sequence[Any], spinner: Spinner, hold_s: float
) -> tuple[list[float], float]:
    """From the common start to the end of each chain, and until all was issued; that has to be less than `hold_s`."""
    import torch

    hold, start, ends = new_event(), new_event(timing=True), [new_event(timing=True) for _ in streams]
    with ExitStack() as stack:
        on_streams(stack, streams)
        stack.enter_context(torch.cuda.stream(streams[0]))
        began = time.perf_counter()
        spinner.spin(hold_s)
        start.record(streams[0])
        hold.record(streams[0])
        for stream in streams[1:]:
            stream.wait_event(hold)
            with torch.cuda.stream(stream):
                spinner.spin(LATE_S)
        _issue(chains, streams)
        for stream, end in zip(streams, ends, strict=True):
            end.record(stream)
        issue_s = time.perf_counter() - began
    torch.cuda.synchronize(spinner.device)
    return [elapsed_s(start, end) for end in ends], issue_s


def _issue(chains: Sequence[tuple[Operation, int]], streams: Sequence[Any]) -> None:
    import torch

    for place, (operation, count) in enumerate(chains):
        torch.cuda.set_stream(streams[place])
        for _ in range(count):
            operation.calls[place]()

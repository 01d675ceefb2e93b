"""Rates of transfers that are under way at the same time on CUDA devices."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any

from graphsched.calibration.capacities import Flow
from graphsched.calibration.cuda_clock import CALL_S, elapsed_s, on_streams
from graphsched.calibration.cuda_ways import Bench, Way
from graphsched.calibration.fitting import check_arrived
from graphsched.calibration.rotation import Rotation, rotations
from graphsched.executors.clocks import new_event

COPIES = 12
TURN_S = 1e-5  # by which a flow between GPUs begins behind the one before it from the same GPU; copies take far longer
SAMPLED = 4099  # every so many bytes are compared


class Together:
    """Measures flows together, all with the host or all between GPUs: (source, target) by device names.

    Each flow makes `COPIES` copies in a row in one go; those with the host go on through memory from one go to the
    next, see `rotation`. Of flows from one GPU to others each begins a moment behind the one before: where a GPU makes
    one copy at a time, a flow keeps it until all its copies are made, and which came first would be chance.
    """

    def __init__(self, bench: Bench, repeats: int = 5) -> None:
        self._bench, self._repeats = bench, repeats
        self._made = 0  # copies of each flow

    def __call__(self, flows: Sequence[Flow]) -> list[float]:
        """Bytes per second of each flow from the common start to the end of the first, median after a first go.

        Raises:
            PlatformError: Data arrived changed.
        """
        routes, goes = rotations(self._bench, flows), self._numbers()
        last = [route.last(goes[-1]) for route in routes]
        for way in (way for row in last for way in row):
            way.target[::SAMPLED].zero_()
        self._bench.settle()
        samples = [self._once(flows, routes, numbers) for numbers in goes][1:]
        for flow, row in zip(flows, last, strict=True):
            check_arrived(all(_same(way) for way in row), *flow)
        return [median([sample[k] for sample in samples]) for k in range(len(flows))]

    def _numbers(self) -> list[range]:
        """Numbers of each flow's copies in each go."""
        first = self._made
        self._made += (self._repeats + 1) * COPIES
        return [range(k, k + COPIES) for k in range(first, self._made, COPIES)]

    def _once(self, flows: Sequence[Flow], routes: Sequence[Rotation], numbers: range) -> list[float]:
        """Rates in one go: all wait for one event, and count from it until the first has sent everything."""
        calls = [route.calls(numbers) for route in routes]
        hold_s = 5e-4 + (len(routes) + self._bench.gpus) * COPIES * CALL_S
        while True:
            began = time.perf_counter()
            gates = self._gates({route.gpu for route in routes}, hold_s)
            events = [
                self._queue(route, row, gates[route.gpu], turn)
                for route, row, turn in zip(routes, calls, _turns(flows), strict=True)
            ]
            in_time = time.perf_counter() - began < hold_s
            self._bench.settle()
            if in_time:
                break
            hold_s *= 2.0  # some began before all were queued
        times = [[elapsed_s(gates[route.gpu], e) for e in row] for route, row in zip(routes, events, strict=True)]
        rows = _by_engine(flows, times)
        until = min(row[-1] for row in rows)
        return [
            route.nbytes * _copies_by(until, row) / flows.count(flow) / until
            for route, row, flow in zip(routes, rows, flows, strict=True)
        ]

    def _gates(self, gpus: set[int], hold_s: float) -> dict[int, Any]:
        """A timing event on each GPU, passed by all at the same time, `hold_s` from now."""
        bench, common = self._bench, new_event()
        lead = bench.streams[0][-1]
        with ExitStack() as stack:
            on_streams(stack, [lead])
            bench.spinners[0].spin(hold_s)
            common.record(lead)
        gates = {}
        for gpu in sorted(gpus):
            stream = bench.streams[gpu][-1]
            stream.wait_event(common)
            gates[gpu] = new_event(timing=True)
            gates[gpu].record(stream)
        return gates

    def _queue(self, route: Rotation, calls: Iterable[Callable[[], Any]], gate: Any, turn: int) -> list[Any]:
        """Queue copies, which begin so many turns after `gate`; an event after each."""
        stream, events = route.streams[-1], []
        with ExitStack() as stack:
            on_streams(stack, route.streams)
            stream.wait_event(gate)
            if turn:
                self._bench.spinners[route.gpu].spin(turn * TURN_S)
            for call in calls:
                call()
                events.append(new_event(timing=True))
                events[-1].record(stream)
        return events


def _turns(flows: Sequence[Flow]) -> list[int]:
    """How many flows from the same GPU to others come before each; with the host engines are each flow's own.

    Example:
        >>> _turns([("cuda:0", "cuda:1"), ("cuda:0", "cuda:2"), ("cuda:3", "cuda:1"), ("cuda:0", "cuda:3")])
        [0, 1, 0, 2]
        >>> _turns([("cpu", "cuda:0"), ("cpu", "cuda:1"), ("cuda:0", "cpu"), ("cuda:0", "cpu")])
        [0, 0, 0, 0]
    """
    sources = [source if "cpu" not in (source, target) else "" for source, target in flows]
    return [sources[:k].count(source) if source else 0 for k, source in enumerate(sources)]


def _by_engine(flows: Sequence[Flow], ends: Sequence[Sequence[float]]) -> list[list[float]]:
    """The ends of each flow's copies and of those of the same way: one engine makes them one after the other.

    Example:
        >>> _by_engine([("cpu", "cuda:0"), ("cpu", "cuda:0"), ("cuda:0", "cpu")], [[1.0, 3.0], [2.0, 4.0], [2.5, 5.0]])
        [[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0], [2.5, 5.0]]
    """
    return [
        sorted(end for other, row in zip(flows, ends, strict=True) if other == flow for end in row) for flow in flows
    ]


def _copies_by(until: float, ends: Sequence[float]) -> float:
    """Copies done by a time, the one under way in part; none, if the first is not done: it may still wait its turn.

    Example:
        >>> _copies_by(2.5, [1.0, 2.0, 4.0]), _copies_by(2.5, [3.0, 4.0])
        (2.25, 0.0)
    """
    before = 0.0
    for done, end in enumerate(ends):
        if end > until:
            return done + (until - before) / (end - before) if done else 0.0
        before = end
    return float(len(ends))


def _same(way: Way) -> bool:
    import torch

    return bool(torch.equal(way.source[::SAMPLED].cpu(), way.target[::SAMPLED].cpu()))

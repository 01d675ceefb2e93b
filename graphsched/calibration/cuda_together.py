"""Rates of transfers that are under way at the same time on CUDA devices."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from graphsched.calibration.capacities import Flow
from graphsched.calibration.cuda_clock import CALL_S, elapsed_s, new_stream, on_streams
from graphsched.calibration.cuda_links import Bench, Way, host_way, peer_way
from graphsched.calibration.fitting import check_arrived, median
from graphsched.executors.clocks import new_event

COPIES = 12
HOST_BYTES, PEER_BYTES = 2**25, 2**27
SAMPLED = 4099  # every so many bytes are compared


class Together:
    """Measures flows together: (source, target) by device names, through `Bench`'s buffers.

    Attributes:
        spreads: Interquartile range over median of the sum of rates, by what was measured.
    """

    def __init__(self, bench: Bench, repeats: int = 5) -> None:
        self._bench, self._repeats = bench, repeats
        self.spreads: dict[str, float] = {}

    def __call__(self, flows: Sequence[Flow]) -> list[float]:
        """Bytes per second of each flow from the common start to the end of the first, median of the repeats.

        Raises:
            PlatformError: Data arrived changed.
        """
        ways = self._ways(flows)
        for way in ways:
            way.target.zero_()
        self._bench.settle()
        samples = [self._once(flows, ways) for _ in range(self._repeats + 1)][1:]
        for flow, way in zip(flows, ways, strict=True):
            check_arrived(_same(way), *flow)
        self.spreads[_label(flows)] = _spread([sum(sample) for sample in samples])
        return [median([sample[k] for sample in samples]) for k in range(len(flows))]

    def _ways(self, flows: Sequence[Flow]) -> list[Way]:
        """A way for each flow, with a part of the buffers of its own."""
        bench = self._bench
        host = min(HOST_BYTES, bench.largest // (2 * bench.gpus))
        peer = min(PEER_BYTES, bench.largest // bench.gpus)
        ways = []
        for k, (source, target) in enumerate(flows):
            if "cpu" in (source, target):
                gpu = _number(target if source == "cpu" else source)
                part = slice(k * host, (k + 1) * host)
                way = host_way(bench, gpu, to_gpu=source == "cpu", part=part)
                streams = way.streams if (source, target) not in flows[:k] else (new_stream(gpu),)
                place = _place(flows, k, host) if source == "cpu" else slice(host)  # in the target's buffer
                ways.append(Way(way.source[:host], way.target[place], streams))
            else:
                a, b = _number(source), _number(target)
                way = peer_way(bench, a, b, slice(b * peer, (b + 1) * peer))
                into = bench.second[b][a * peer : (a + 1) * peer]
                ways.append(Way(way.source, into, way.streams))
        return ways

    def _once(self, flows: Sequence[Flow], ways: Sequence[Way]) -> list[float]:
        """Rates in one go: all wait for one event, and count from it until the first has sent everything."""
        bench, began = self._bench, time.perf_counter()
        hold_s = 5e-4 + (len(ways) + bench.gpus) * COPIES * CALL_S
        gates = self._gates({way.streams[-1].device.index for way in ways}, hold_s)
        events = [_queue(way, gates[way.streams[-1].device.index]) for way in ways]
        late = time.perf_counter() - began > hold_s
        bench.settle()
        if late:  # some began before all were queued
            return self._once(flows, ways)
        times = [
            [elapsed_s(gates[way.streams[-1].device.index], end) for end in row]
            for way, row in zip(ways, events, strict=True)
        ]
        rows = _by_engine(flows, times)
        until = min(row[-1] for row in rows)
        return [
            way.source.numel() * _copies_by(until, row) / flows.count(flow) / until
            for way, row, flow in zip(ways, rows, flows, strict=True)
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


def _place(flows: Sequence[Flow], k: int, nbytes: int) -> slice:
    """Where flow `k` arrives on its GPU: a second one of the same ends has a part of its own."""
    number = flows[:k].count(flows[k])
    return slice(number * nbytes, (number + 1) * nbytes)


def _queue(way: Way, gate: Any) -> list[Any]:
    """Queue the copies of a way, which begin after `gate`; an event after each."""
    nbytes, stream = way.source.numel(), way.streams[-1]
    events = [new_event(timing=True) for _ in range(COPIES)]
    with ExitStack() as stack:
        on_streams(stack, way.streams)
        stream.wait_event(gate)
        for event in events:
            way.copy(nbytes)()
            event.record(stream)
    return events


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
    """Copies done by a time, the one under way in part.

    Example:
        >>> _copies_by(2.5, [1.0, 2.0, 4.0])
        2.25
    """
    before = 0.0
    for done, end in enumerate(ends):
        if end > until:
            return done + (until - before) / (end - before)
        before = end
    return float(len(ends))


def _same(way: Way) -> bool:
    import torch

    return bool(torch.equal(way.source[::SAMPLED].cpu(), way.target[::SAMPLED].cpu()))


def _spread(values: Sequence[float]) -> float:
    import numpy as np

    low, middle, high = np.percentile(values, (25, 50, 75))
    return float((high - low) / middle)


def _label(flows: Sequence[Flow]) -> str:
    if len(flows) > 4:
        sources, targets = (", ".join(sorted(set(ends))) for ends in zip(*flows, strict=True))
        return f"{len(flows)} transfers from {sources} to {targets}"
    return " + ".join(f"{source}>{target}" for source, target in flows)


def _number(name: str) -> int:
    return int(name.partition(":")[2])

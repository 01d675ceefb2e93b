"""What copies and kernels that fill a GPU's memory bandwidth cost each other: additions beside transfers.

A kernel of memory share m (the bytes that it moves alone, as a share of the memory's rate) takes 1 + m · (in · a +
out · b) times as long beside transfers that bring a, and take b, of the memory's rate: ``in`` and ``out`` are fitted
by least squares to additions of large tensors beside copies from the host, to it and both, and the same with a peer.
One copy at a time beside the same additions says what these cost it: into the GPU and out of it, with the host and
with a peer, each by itself, for they differ much (on an H200 2.5, 3.7, 2.2 and 19 %).

Not modelled: other kernels than additions (on an H200 a softmax over 64 MB lost 2.2 % beside copies from the host,
where an addition lost 2.6, but 1.2 % beside copies to a peer, where that lost 5.7); copies both ways at once, which
kernels may slow more than one; GPUs of one model that differ.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from graphsched.calibration.capacities import Flow
from graphsched.calibration.cuda_clock import CALL_S, elapsed_s, new_stream, on_streams
from graphsched.calibration.cuda_ways import Bench, Way, host_way, peer_way, way_s
from graphsched.executors.clocks import new_event

ADDED_BYTES, COPIED_BYTES = 2**27, 2**24
CALLS = 24  # additions in a row
OUTLAST = 1.5
SAMPLES = 5
HOST = "cpu"


@dataclass(frozen=True)
class Reading:
    """A kernel beside transfers.

    Attributes:
        longer: Its time beside them over its time alone, less 1.
        share: Its memory share.
        into, out: Rates of the transfers into its GPU and out of it, as shares of the memory's rate.
        flows: The transfers, (source, target).
        slower: How much longer each takes than alone, as a fraction; empty for more than one.
    """

    longer: float
    share: float
    into: float
    out: float
    flows: tuple[Flow, ...] = ()
    slower: tuple[float, ...] = ()


@dataclass(frozen=True)
class Sample:
    """Seconds of the chain of additions, bytes per second of each flow meanwhile, and of each alone."""

    seconds: float
    rates: tuple[float, ...]
    alone: tuple[float, ...] = ()


Beside = Callable[[Sequence[Flow]], Sample]
"""Times the chain beside flows, (source, target) by device names; alone for none."""


def readings(
    device: str, others: Sequence[str], moved_bytes: float, bytes_per_s: float, beside: Beside
) -> list[Reading]:
    """Readings of one device beside copies from and to each of the `others`.

    Args:
        device, others: Names.
        moved_bytes: What the chain reads and writes.
        bytes_per_s: The memory's rate.
        beside: Measures.
    """
    alone_s = beside(()).seconds
    share = min(1.0, moved_bytes / alone_s / bytes_per_s)
    found = []
    for flows in traffic_flows(device, others):
        sample = beside(flows)
        into, out = (
            sum(rate for flow, rate in zip(flows, sample.rates, strict=True) if flow[end] == device) for end in (1, 0)
        )
        longer = sample.seconds / alone_s - 1.0
        slower = tuple(a / b - 1.0 for a, b in zip(sample.alone, sample.rates, strict=False)) if len(flows) == 1 else ()
        found.append(Reading(longer, share, into / bytes_per_s, out / bytes_per_s, tuple(flows), slower))
    return found


def traffic_flows(device: str, others: Sequence[str]) -> list[tuple[Flow, ...]]:
    """What is copied beside the kernel: into its device, out of it and both, with each of the others.

    Example:
        >>> traffic_flows("cuda:0", ["cpu"])
        [(('cpu', 'cuda:0'),), (('cuda:0', 'cpu'),), (('cpu', 'cuda:0'), ('cuda:0', 'cpu'))]
    """
    found: list[tuple[Flow, ...]] = []
    for other in others:
        into, out = (other, device), (device, other)
        found += [(into,), (out,), (into, out)]
    return found


def fit_traffic(found: Sequence[Reading]) -> tuple[float, float]:
    """Factors of copies into a GPU and out of it: least squares over the readings, none below 0.

    Example:
        >>> found = [Reading(0.02, 1.0, 0.01, 0.0), Reading(0.005, 0.5, 0.0, 0.01), Reading(0.03, 1.0, 0.01, 0.01)]
        >>> into, out = fit_traffic(found)
        >>> round(into, 6), round(out, 6)
        (2.0, 1.0)
    """
    terms = np.array([(r.share * r.into, r.share * r.out) for r in found])
    longer = np.array([r.longer for r in found])
    both = np.linalg.lstsq(terms, longer, rcond=None)[0]
    if (both >= 0.0).all():
        return float(both[0]), float(both[1])
    singles = [max(0.0, _slope(terms[:, k], longer)) for k in (0, 1)]
    candidates = [np.array([singles[0], 0.0]), np.array([0.0, singles[1]])]
    best = min(candidates, key=lambda factors: float(((terms @ factors - longer) ** 2).sum()))
    return float(best[0]), float(best[1])


def _slope(term: Any, longer: Any) -> float:
    squares = float(term @ term)
    return float(term @ longer) / squares if squares else 0.0


def fit_slowed(device: str, found: Sequence[Reading]) -> tuple[float, float, float, float]:
    """How much longer a copy takes beside a kernel of memory share 1 on `device`, as a fraction; not below 0.

    Returns:
        Of copies into it and out of it between the host and a GPU, then between it and a peer; 0 where there is no
        reading of one by itself.

    Example:
        >>> flows = [("cpu", "cuda:0"), ("cuda:0", "cpu"), ("cuda:0", "cuda:1")]
        >>> longer = [0.025, -0.01, 0.1]
        >>> fit_slowed("cuda:0", [Reading(0, 0.5, 0, 0, (f,), (x,)) for f, x in zip(flows, longer, strict=True)])
        (0.05, 0.0, 0.0, 0.2)
    """
    singles = [reading for reading in found if reading.slower and reading.share > 0.0]
    slowed = {
        (HOST in flow, flow[0] == device): max(0.0, reading.slower[0] / reading.share)
        for reading in singles
        for flow in reading.flows
    }
    into, out = slowed.get((True, False), 0.0), slowed.get((True, True), 0.0)
    return into, out, slowed.get((False, False), 0.0), slowed.get((False, True), 0.0)


def traffic_readings(bench: Bench, gpu: int, peer: int | None, bytes_per_s: float) -> list[Reading]:
    """Readings of one GPU, measured; `peer` is one that it has peer access to, both ways."""
    additions = Additions(bench, gpu)
    others = [HOST, *([] if peer is None else [f"cuda:{peer}"])]
    return readings(f"cuda:{gpu}", others, additions.moved_bytes, bytes_per_s, additions)


# -- on the device --------------------------------------------------------------------------------


class Additions:
    """A chain of additions on one GPU, timed beside copies.

    Attributes:
        moved_bytes: What the chain reads and writes.
    """

    def __init__(self, bench: Bench, gpu: int) -> None:
        import torch

        self._bench, self._gpu = bench, gpu
        count = min(ADDED_BYTES, bench.largest) // 4
        self._terms = [torch.rand(count, device=bench.first[gpu].device) for _ in range(2)]
        self._sum = torch.empty_like(self._terms[0])
        self._stream = new_stream(gpu)
        self._alone_s = 0.0
        self.moved_bytes = float(CALLS * 3 * 4 * count)

    def __call__(self, flows: Sequence[Flow]) -> Sample:
        """Medians of the samples, after a first one."""
        ways = [self._way(flow) for flow in flows]
        each_s = [way_s(self._bench, way, way.source.numel(), repeats=3) for way in ways]
        counts = [max(4, math.ceil(OUTLAST * self._alone_s / copy_s)) for copy_s in each_s]  # outlast the chain
        samples = [self._once(ways, counts) for _ in range(SAMPLES + 1)][1:]
        seconds = median([sample.seconds for sample in samples])
        if not flows:
            self._alone_s = seconds
        rates = tuple(median([s.rates[k] for s in samples]) for k in range(len(flows)))
        return Sample(seconds, rates, tuple(way.source.numel() / s for way, s in zip(ways, each_s, strict=True)))

    def _way(self, flow: Flow) -> Way:
        """A way for `flow`, with a part of the host's buffer of its own for each direction."""
        bench, nbytes = self._bench, min(COPIED_BYTES, self._bench.largest // 2)
        if HOST in flow:
            to_gpu = flow[0] == HOST
            way = host_way(bench, self._gpu, to_gpu=to_gpu, part=slice(0, nbytes) if to_gpu else slice(nbytes, None))
        else:
            source, target = (int(name.partition(":")[2]) for name in flow)
            way = peer_way(bench, source, target)
        return Way(way.source[:nbytes], way.target[:nbytes], way.streams)

    def _once(self, ways: Sequence[Way], counts: Sequence[int]) -> Sample:
        hold_s = 5e-4 + (CALLS + 2 * sum(counts)) * CALL_S
        while True:
            began = time.perf_counter()
            gate = new_event()
            start, end = self._queue_additions(gate, hold_s)
            marks = [queue_copies(way, count, gate) for way, count in zip(ways, counts, strict=True)]
            in_time = time.perf_counter() - began < hold_s
            self._bench.settle()
            if in_time:
                break
            hold_s *= 2.0  # some began before all were queued
        seconds = elapsed_s(start, end)
        return Sample(seconds, tuple(copy_rate(way, row, seconds) for way, row in zip(ways, marks, strict=True)))

    def _queue_additions(self, gate: Any, hold_s: float) -> tuple[Any, Any]:
        """Queue the chain behind a spin kernel and `gate`; timing events before and after it."""
        import torch

        start, end = new_event(timing=True), new_event(timing=True)
        with ExitStack() as stack:
            on_streams(stack, [self._stream])
            self._bench.spinners[self._gpu].spin(hold_s)
            gate.record(self._stream)
            start.record(self._stream)
            for _ in range(CALLS):
                torch.add(*self._terms, out=self._sum)
            end.record(self._stream)
        return start, end


def queue_copies(way: Way, count: int, gate: Any = None) -> list[Any]:
    """Queue `count` copies, behind `gate` if there is one; a timing event before them and after each."""
    stream, marks = way.streams[-1], [new_event(timing=True) for _ in range(count + 1)]
    with ExitStack() as stack:
        on_streams(stack, way.streams)
        if gate is not None:
            stream.wait_event(gate)
        marks[0].record(stream)
        for mark in marks[1:]:
            way.copy(way.source.numel())()
            mark.record(stream)
    return marks


def copy_rate(way: Way, marks: Sequence[Any], until_s: float) -> float:
    """Bytes per second of a way from its first copy's start, for `until_s`; the copy under way counts in part."""
    ends = [0.0, *(elapsed_s(marks[0], mark) for mark in marks[1:])]
    copies = float(np.interp(until_s, ends, range(len(ends))))
    return float(way.source.numel() * copies / until_s)

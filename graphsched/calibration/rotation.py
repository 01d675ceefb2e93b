"""Parts of memory that the copies of transfers go through in turn, so that no cache holds what they move.

A host's last-level cache serves copies of one and the same buffer faster than its memory would; the transfers of a
plan move different tensors. So the transfers with the host share all of the pinned buffer, however many they are.

Not modelled: caches of GPUs beside transfers between them, whose copies are of one part each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from graphsched.calibration.capacities import Flow
from graphsched.calibration.cuda_clock import new_stream
from graphsched.calibration.cuda_ways import Bench, Way, host_way, peer_way

HOST_BYTES, PEER_BYTES = 2**25, 2**27  # of one copy
ALIGNED_BYTES = 4096


@dataclass(frozen=True)
class Rotation:
    """What the copies of one flow take in turn: copy n takes source n and target n, each modulo their number.

    Attributes:
        sources, targets: Parts of one size.
        streams: To be current; the last carries the copies.
    """

    sources: tuple[Any, ...]
    targets: tuple[Any, ...]
    streams: tuple[Any, ...]

    @property
    def nbytes(self) -> int:
        """Size of a copy."""
        return int(self.sources[0].numel())

    @property
    def gpu(self) -> int:
        """Number of the CUDA device whose stream carries the copies."""
        return int(self.streams[-1].device.index)

    def way(self, number: int) -> Way:
        """That of copy `number`."""
        source, target = self.sources[number % len(self.sources)], self.targets[number % len(self.targets)]
        return Way(source, target, self.streams)

    def calls(self, numbers: range) -> list[Callable[[], Any]]:
        """Calls that issue these copies."""
        return [self.way(number).copy(self.nbytes) for number in numbers]

    def last(self, numbers: range) -> list[Way]:
        """Those of `numbers`, copies in a row, whose targets none of the later ones overwrites."""
        return [self.way(number) for number in numbers[-len(self.targets) :]]


def rotations(bench: Bench, flows: Sequence[Flow]) -> list[Rotation]:
    """A rotation for each flow, through parts of the buffers that no other flow uses.

    Args:
        bench: Whose buffers and streams they use.
        flows: All with the host, or all between GPUs.
    """
    with_host = [k for k, flow in enumerate(flows) if "cpu" in flow]
    most = max(flows.count(flow) for flow in flows)
    nbytes = min(HOST_BYTES, bench.pinned.numel() // max(1, len(with_host)), bench.largest // most)
    nbytes = nbytes // ALIGNED_BYTES * ALIGNED_BYTES
    return [
        _with_host(bench, flows, k, nbytes, (with_host.index(k), len(with_host)))
        if k in with_host
        else _between_gpus(bench, *flow)
        for k, flow in enumerate(flows)
    ]


def parts(buffer: Any, nbytes: int, first: int, step: int) -> tuple[Any, ...]:
    """Every `step`-th part of `nbytes` of a buffer, from number `first` on.

    Example:
        >>> import torch
        >>> [part.tolist() for part in parts(torch.arange(7), 2, 0, 2)]
        [[0, 1], [4, 5]]
    """
    numbers = range(first, buffer.numel() // nbytes, step)
    return tuple(buffer[number * nbytes : (number + 1) * nbytes] for number in numbers)


def _with_host(bench: Bench, flows: Sequence[Flow], k: int, nbytes: int, share: tuple[int, int]) -> Rotation:
    """Flow `k`: its share of the host's buffer, and on the GPU its share among flows of the same ends."""
    (source, target), earlier = flows[k], flows[:k].count(flows[k])
    to_gpu = source == "cpu"
    gpu = _number(target if to_gpu else source)
    way = host_way(bench, gpu, to_gpu=to_gpu)
    own = earlier, flows.count(flows[k])
    sources = parts(way.source, nbytes, *(share if to_gpu else own))
    targets = parts(way.target, nbytes, *(own if to_gpu else share))
    return Rotation(sources, targets, (new_stream(gpu),) if earlier else way.streams)


def _between_gpus(bench: Bench, source: str, target: str) -> Rotation:
    """A flow between GPUs: one part, at a place of its own on both."""
    a, b = _number(source), _number(target)
    nbytes = min(PEER_BYTES, bench.largest // bench.gpus)
    way = peer_way(bench, a, b, slice(b * nbytes, (b + 1) * nbytes))
    return Rotation((way.source,), (bench.second[b][a * nbytes : (a + 1) * nbytes],), way.streams)


def _number(name: str) -> int:
    return int(name.partition(":")[2])

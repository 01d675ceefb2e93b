"""What messages between the hosts take, measured by their ranks with the means of a distributed run::

    python -m experiments.hosts.measuring FILE

is what every rank calls; rank 0 writes the file. No plan is run.

- Between two ranks: each size there and back, half the median. Rank 0 with one of each other host, and
  two of one host.
- At once: messages of all other hosts into host 0, of host 0 to all, of host 0 and another to each other, of each host
  to the next, and between two ranks of each host. The rate is the slope between the medians of two sizes.
"""

from __future__ import annotations

import functools
import json
import os
import socket
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from graphsched.executors.distributed import World, join
from graphsched.executors.distributed.tags import FIRST_LANE_TAG
from graphsched.files import read_json, write_text

SIZES_BYTES = (1, 1 << 12, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24)
LARGE_BYTES, TIMES, LARGE_TIMES = 1 << 20, 25, 11
FEW_BYTES, MANY_BYTES, IN_HOST_BYTES = 1 << 22, 1 << 24, 1 << 26
MEET_S, WITHIN_S = 120.0, 120.0

Pairs = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Measured:
    """What messages take.

    Attributes:
        sizes_bytes: Of single messages.
        between_hosts, in_host: Seconds one way by size; `in_host` is empty where no host has two ranks.
        into_one, out_of_one, both_ways, of_all, in_hosts: Bytes per second, of all messages together; 0 where there are
            none.
    """

    sizes_bytes: tuple[int, ...]
    between_hosts: tuple[float, ...]
    in_host: tuple[float, ...]
    into_one: float
    out_of_one: float
    both_ways: float
    of_all: float
    in_hosts: float


def read(path: str | Path) -> Measured:
    """What `main` has written.

    Raises:
        FileFormatError: The file is truncated.
    """
    row: Any = {name: tuple(v) if isinstance(v, list) else v for name, v in read_json(path).items()}
    return Measured(**row)


def measure(world: World, host_of: Sequence[int]) -> Measured:
    """Measure messages between ranks, given the host of each; all ranks call it. Only rank 0's figures are good."""
    firsts = [host_of.index(h) for h in range(max(host_of) + 1)]
    near = [(a, a + 1) for a in firsts if host_of.count(host_of[a]) > 1]
    far = [_there_and_back(world, 0, rank) for rank in firsts[1:]]
    return Measured(
        SIZES_BYTES,
        tuple(statistics.median(column) for column in zip(*far, strict=True)),
        _there_and_back(world, *near[0]) if near else (),
        _rate(world, [(rank, 0) for rank in firsts[1:]]),
        _rate(world, [(0, rank) for rank in firsts[1:]]),
        _rate(world, [pair for rank in firsts[1:2] for pair in ((0, rank), (rank, 0))]),
        _rate(world, list(pairwise([*firsts, 0])) if len(firsts) > 1 else []),
        _rate(world, near, IN_HOST_BYTES),
    )


def _there_and_back(world: World, one: int, other: int) -> tuple[float, ...]:
    """Seconds one way by size, known to all ranks."""
    found = [_one_way_s(world, one, other, nbytes) for nbytes in SIZES_BYTES] if world.rank in (one, other) else []
    return tuple(world.gather(found, WITHIN_S, _what())[one])


def _one_way_s(world: World, one: int, other: int, nbytes: int) -> float:
    first, then = (_send, _receive) if world.rank == one else (_receive, _send)
    peer, halves = other if world.rank == one else one, []
    for _ in range(TIMES if nbytes < LARGE_BYTES else LARGE_TIMES):
        began = time.perf_counter()
        first(world, nbytes, peer)
        then(world, nbytes, peer)
        halves.append((time.perf_counter() - began) / 2)
    return statistics.median(halves[1:])


def _rate(world: World, pairs: Pairs, many_bytes: int = MANY_BYTES) -> float:
    """Bytes per second of messages of all `pairs` (sender, receiver) at once."""
    if not pairs:
        return 0.0
    few_s, many_s = (_together_s(world, pairs, nbytes) for nbytes in (FEW_BYTES, many_bytes))
    return len(pairs) * (many_bytes - FEW_BYTES) / max(many_s - few_s, many_s / 2)


def _together_s(world: World, pairs: Pairs, nbytes: int) -> float:
    """Seconds of the rank that takes longest, from when all have met; the median of several times."""
    mine = [(a, b) for a, b in pairs if world.rank in (a, b)]
    calls: list[Callable[[World, int, int], None]] = [_send if world.rank == a else _receive for a, _ in mine]
    peers = [b if world.rank == a else a for a, b in mine]
    took = []
    with ThreadPoolExecutor(max(1, len(mine))) as lanes:
        for _ in range(LARGE_TIMES):
            world.barrier(WITHIN_S, lambda _: _what())
            began = time.perf_counter()
            for done in [lanes.submit(call, world, nbytes, peer) for call, peer in zip(calls, peers, strict=True)]:
                done.result()
            took.append(time.perf_counter() - began)
    everyone = world.gather(took, WITHIN_S, _what())
    return float(statistics.median(max(times) for times in zip(*everyone, strict=True)))


def _send(world: World, nbytes: int, to: int) -> None:
    world.send(_sent(nbytes), to, FIRST_LANE_TAG, WITHIN_S, _what)


def _receive(world: World, nbytes: int, source: int) -> None:
    world.receive(_received(nbytes, source), source, FIRST_LANE_TAG, WITHIN_S, _what)


@functools.cache
def _sent(nbytes: int) -> Any:
    return torch.ones(nbytes, dtype=torch.uint8)


@functools.cache
def _received(nbytes: int, source: int) -> Any:  # noqa: ARG001 - one for each
    """Where messages from `source` go: memory that was touched before, as a rank's is after some runs."""
    return torch.zeros(nbytes, dtype=torch.uint8)


def _what() -> str:
    return "the measurement of the network"


def main(path: str) -> None:
    """Measure and write."""
    world = join(MEET_S)
    names = world.gather((socket.gethostname(), os.readlink("/proc/thread-self/ns/net")), WITHIN_S, _what())
    found = measure(world, [list(dict.fromkeys(names)).index(name) for name in names])
    if world.rank == 0:
        write_text(path, json.dumps(asdict(found)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])

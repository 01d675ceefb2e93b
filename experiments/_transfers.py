"""Workloads of transfers that meet: patterns between memories, and copies beside computation."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import torch

import graphsched as gs
from experiments._shared import random_matrix, short

Move = tuple[str, str]  # from device, to device

COLUMNS = 256
LONGEST_CHAIN = 3
SHARES = (0.0625, 0.125, 0.25, 0.5, 1.0)  # sizes of transfers that differ, as shares of the full size


@dataclass(frozen=True)
class Pattern:
    """A pattern of transfers between the host and some devices.

    Attributes:
        least: Devices that it takes at least; with fewer another pattern would be the same.
        moves: Its transfers on given devices.
    """

    least: int
    moves: Callable[[Sequence[str]], Sequence[Move]]


def to_each(devices: Sequence[str]) -> list[Move]:
    """From the host to each device."""
    return [("cpu", device) for device in devices]


def from_each(devices: Sequence[str]) -> list[Move]:
    """From each device to the host."""
    return [(device, "cpu") for device in devices]


def ring(devices: Sequence[str]) -> list[Move]:
    """From each device to the next.

    Example:
        >>> ring(["a", "b", "c"])
        [('a', 'b'), ('b', 'c'), ('c', 'a')]
    """
    return list(zip(devices, [*devices[1:], devices[0]], strict=True))


PATTERNS: Mapping[str, Pattern] = {
    "from the host": Pattern(1, to_each),
    "to the host": Pattern(1, from_each),
    "from and to the host": Pattern(1, lambda d: to_each(d) + from_each(d)),
    "one to the host beside the others from it": Pattern(2, lambda d: to_each(d[:-1]) + from_each(d[-1:])),
    "half to the host beside half from it": Pattern(
        4, lambda d: to_each(d[: len(d) // 2]) + from_each(d[len(d) // 2 :])
    ),
    "fan-out": Pattern(2, lambda d: [(d[0], device) for device in d[1:]]),
    "fan-in": Pattern(3, lambda d: [(device, d[0]) for device in d[1:]]),
    "ring": Pattern(3, ring),
    "all to all": Pattern(2, lambda d: list(permutations(d, 2))),
    "ring beside copies to the host": Pattern(2, lambda d: ring(d) + from_each(d)),
}


def at_once(moves: Iterable[Move], mbytes: float, rounds: int) -> gs.Workload:
    """`rounds` transfers of `mbytes` on each way of `moves`, all of which may begin at time 0."""
    work = gs.Workload("contention")
    there = {move: _block(work, f"{short(move[0])}-{short(move[1])}", move[0], mbytes) for move in moves}
    for i in range(rounds):
        for (source, target), value in there.items():
            work.copy(value, to=target, pinned=True, name=f"{short(source)}-{short(target)}/{i}")
    return work


def of_many_sizes(devices: Sequence[str], mbytes: float, *, seed: int) -> gs.Workload:
    """Chains of transfers of random sizes on random ways, so that each begins when others are on their way."""
    rng = random.Random(seed)
    work = gs.Workload("contention")
    ways = [*to_each(devices), *from_each(devices), *permutations(devices, 2)]
    for source, target in rng.sample(ways, min(2 * len(devices), len(ways))):
        name = f"{short(source)}-{short(target)}"
        for i, share in enumerate(rng.sample(SHARES, rng.randint(1, LONGEST_CHAIN))):
            value = _block(work, f"{name}.{i}", source, mbytes * share)
            work.copy(value, to=target, pinned=True, name=f"{name}/{i}")
    return work


def broadcast_tree(devices: Sequence[str], mbytes: float, rounds: int) -> gs.Workload:
    """Blocks that each device that has them hands on, so that the number of holders doubles.

    ::

        0 ─┬─▶ 1 ──▶ 3
           ╰─▶ 2
    """
    work = gs.Workload("contention")
    for i in range(rounds):
        held = {devices[0]: _block(work, f"block{i}", devices[0], mbytes)}
        for source, target in _doubling(devices):
            held[target] = work.copy(held[source], to=target, name=f"{short(source)}-{short(target)}/{i}")
    return work


def _doubling(devices: Sequence[str]) -> list[Move]:
    moves: list[Move] = []
    holders = 1
    while holders < len(devices):
        moves += zip(devices, devices[holders : 2 * holders], strict=False)
        holders *= 2
    return moves


def _block(work: gs.Workload, name: str, device: str, mbytes: float) -> gs.Value:
    rows = max(int(mbytes * 2**20 / (4 * COLUMNS)), 1)
    return work.input(name, random_matrix(rows, COLUMNS), device=device)


# -- beside computation ---------------------------------------------------------------------------


def streamed(devices: Sequence[str], size: int, rounds: int) -> gs.Workload:
    """Each device gets blocks from the host, multiplies them, and sends the products back.

    ::

        in0 ─ mm0 ─ out0      in1 ─ mm1 ─ out1      …
    """
    work = gs.Workload("contention")
    for device in devices:
        weight = work.input(f"{short(device)}/w", random_matrix(size, size), device=device)
        block = work.input(f"{short(device)}/x", random_matrix(size, size))
        for i in range(rounds):
            there = work.copy(block, to=device, pinned=True, name=f"{short(device)}/in{i}")
            made = work.task(torch.mm, there, weight, name=f"{short(device)}/mm{i}", device=device)
            work.copy(made, to="cpu", pinned=True, name=f"{short(device)}/out{i}")
    return work


def handed_on(devices: Sequence[str], size: int, rounds: int) -> gs.Workload:
    """Blocks that pass from device to device, multiplied on each: a pipeline.

    ::

        device 0   mm0 ─╮ mm1 ─╮
        device 1        ╰─ mm0 ╰─ mm1
    """
    work = gs.Workload("contention")
    weights = {d: work.input(f"{short(d)}/w", random_matrix(size, size), device=d) for d in devices}
    x = work.input("x", random_matrix(size, size), device=devices[0])
    for i in range(rounds):
        value = x
        for k, device in enumerate(devices):
            if k:
                value = work.copy(value, to=device, name=f"{short(device)}/in{i}")
            value = work.task(torch.mm, value, weights[device], name=f"{short(device)}/mm{i}", device=device)
    return work


def exchanged(devices: Sequence[str], size: int, rounds: int) -> gs.Workload:
    """In each round every device multiplies, and adds what its neighbour in the ring made.

    ::

        device 0   mm0 ─── add0 ─ mm1 ─ …
                      ╲  ╱
        device 1   mm0 ─── add0 ─ mm1 ─ …
    """
    work = gs.Workload("contention")
    weights = {d: work.input(f"{short(d)}/w", random_matrix(size, size), device=d) for d in devices}
    held = {d: work.input(f"{short(d)}/x", random_matrix(size, size), device=d) for d in devices}
    for i in range(rounds):
        made = {
            d: work.task(torch.mm, held[d], weights[d], name=f"{short(d)}/mm{i}", device=d) for d in devices
        }  # fmt: skip
        for source, target in ring(devices):
            came = work.copy(made[source], to=target, name=f"{short(target)}/in{i}")
            held[target] = work.task(torch.lerp, made[target], came, 0.5, name=f"{short(target)}/add{i}", device=target)
    return work


TREE, SIZES = "broadcast tree", "of many sizes"  # patterns with builders of their own
BESIDE: Mapping[str, tuple[int, Callable[[Sequence[str], int, int], gs.Workload]]] = {
    "streamed through": (1, streamed),
    "handed on": (2, handed_on),
    "exchanged": (2, exchanged),
}

"""In which order each algorithm adds: as it says, to the bit."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from graphsched.collectives import all_reduce, reduce, reduce_scatter
from graphsched.collectives.blocks import block_sizes
from graphsched.workload import TensorSpec
from tests.collectives.values import floats, on_workers, plainly

N = 96  # elements: six blocks of 16 float32 make whole parts for 2, 3, 4 and 6


def in_turn(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """((first + second) + third) + …"""
    return functools.reduce(torch.add, tensors)


def round_from(tensors: Sequence[torch.Tensor], blocks: int, step: int = 1) -> torch.Tensor:
    """Block b is added from member b+1 on, round to member b; backwards where `step` is -1."""
    k = len(tensors)
    ordered = list(tensors)[::step]
    cut = [x.split(block_sizes(TensorSpec(tuple(x.shape)), blocks)) for x in ordered]
    return torch.cat([in_turn([cut[(b + 1 + i) % k][b] for i in range(k)]) for b in range(len(cut[0]))])


def two_ways(tensors: Sequence[torch.Tensor], blocks: int) -> torch.Tensor:
    """The first half up, the second down."""
    halves = [x.split(N // 2) for x in tensors]
    return torch.cat([round_from([h[0] for h in halves], blocks), round_from([h[1] for h in halves], blocks, -1)])


def paired(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Neighbours first: (0 + 1) + (2 + 3)."""
    while len(tensors) > 1:
        tensors = [in_turn(tensors[i : i + 2]) for i in range(0, len(tensors), 2)]
    return tensors[0]


def far_first(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """What lacks to a power of two is folded in, then (0 + 2) + (1 + 3)."""
    p = 1 << (len(tensors).bit_length() - 1)
    tensors = [in_turn(tensors[i::p]) for i in range(p)]
    while len(tensors) > 1:
        half = len(tensors) // 2
        tensors = [tensors[i] + tensors[i + half] for i in range(half)]
    return tensors[0]


@pytest.mark.parametrize("k", [2, 3, 4, 6])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"algorithm": "gather"}, in_turn),
        ({"algorithm": "cpu", "blocks": 3}, in_turn),
        ({"algorithm": "server", "blocks": 3, "server": "worker:1"}, in_turn),
        ({"algorithm": "sharded"}, in_turn),
        ({"algorithm": "ring"}, lambda x: round_from(x, len(x))),
        ({"algorithm": "ring", "blocks": 8}, lambda x: round_from(x, 8)),
        ({"algorithm": "ring", "blocks": 1}, lambda x: round_from(x, 1)),
        ({"algorithm": "rings", "blocks": 4}, lambda x: two_ways(x, 4)),
        ({"algorithm": "tree"}, paired),
        ({"algorithm": "tree", "blocks": 3}, paired),
        ({"algorithm": "halving"}, far_first),
    ],
)
def test_all_reduce(k: int, options: dict[str, Any], expected: Callable[[Any], torch.Tensor]) -> None:
    """x0, x1, … ──▶ sums, where each order of addition has bits of its own."""
    tensors = floats(k, N)
    assert k == 2 or not torch.equal(in_turn(tensors), in_turn(tensors[::-1]))
    work, values = on_workers(tensors)
    for found in plainly(work, all_reduce(work, values, **options)):
        assert torch.equal(found, expected(tensors))


def test_groups_are_summed_inside_first() -> None:
    """(x0 + x3) + (x1 + x2)."""
    x = floats(4, N)
    work, values = on_workers(x)
    groups = [["worker:0", "worker:3"], ["worker:1", "worker:2"]]
    sums = all_reduce(work, values, algorithm="hierarchical", groups=groups, between="gather")
    for found in plainly(work, sums):
        assert torch.equal(found, (x[0] + x[3]) + (x[1] + x[2]))


@pytest.mark.parametrize(
    ("algorithm", "order"), [("direct", (0, 1, 2, 3, 4)), ("ring", (3, 4, 0, 1, 2)), ("tree", (2, 3, 4, 0, 1))]
)
def test_reduce(algorithm: str, order: tuple[int, ...]) -> None:
    """Five values on worker:2: in turn, from the next one round to it, or in pairs from it on."""
    x = floats(5, N)
    work, values = on_workers(x)
    found = plainly(work, [reduce(work, values, to="worker:2", algorithm=algorithm)])[0]
    ordered = [x[i] for i in order]
    assert torch.equal(found, paired(ordered) if algorithm == "tree" else in_turn(ordered))


@pytest.mark.parametrize("algorithm", ["direct", "ring"])
def test_reduce_scatter(algorithm: str) -> None:
    """Part j is added from member j+1 round to j on a ring, in turn else."""
    x = floats(3, N)
    work, values = on_workers(x)
    found = torch.cat(plainly(work, reduce_scatter(work, values, algorithm=algorithm)))
    assert torch.equal(found, in_turn(x) if algorithm == "direct" else round_from(x, 3))


def test_few_elements_are_folded_onto_few_members() -> None:
    """Four float64 make two parts, so two of seven members stand for the others: 0, 2, 4, 6 and 1, 3, 5."""
    x = floats(7, 4, torch.float64)
    work, values = on_workers(x)
    for found in plainly(work, all_reduce(work, values, algorithm="halving")):
        assert torch.equal(found, in_turn(x[0::2]) + in_turn(x[1::2]))

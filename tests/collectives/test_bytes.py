"""Bytes that plans move, device by device, against the formulas of the docstrings."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import graphsched as gs
from graphsched.collectives import all_gather, all_reduce, all_to_all, broadcast, reduce, reduce_scatter
from tests.collectives.values import moved, on_workers, workers
from tests.executors.programs import machine

N = 6720  # float32 elements: what 2 to 7 members, and twice as many blocks, divide into blocks of whole 16 bytes
BYTES = 4 * N


def _values(k: int) -> Any:
    return on_workers([torch.zeros(N)] * k)


def _all_reduced(k: int, **options: Any) -> Any:
    work, values = _values(k)
    return moved(work, all_reduce(work, values, **options), k)


EVEN = [{"algorithm": "sharded"}, {"algorithm": "ring"}, {"algorithm": "ring", "blocks": 2}, {"algorithm": "rings"}]


@pytest.mark.parametrize(
    ("k", "options"),
    [(k, options) for k in range(2, 8) for options in EVEN] + [(k, {"algorithm": "halving"}) for k in (2, 4, 8)],
)
def test_every_device_moves_as_little_as_can_be(k: int, options: dict[str, Any]) -> None:
    """2 (k-1)/k n in and out of each device; `blocks` here are those for each device."""
    if "blocks" in options:
        options = {**options, "blocks": options["blocks"] * k}
    sent, received = _all_reduced(k, **options)
    expected = dict.fromkeys(workers(k), 2 * (k - 1) * BYTES // k)
    assert sent == expected
    assert received == expected


@pytest.mark.parametrize("k", [2, 3, 5, 8])
@pytest.mark.parametrize("blocks", [1, 3])
def test_what_goes_through_one_place(k: int, blocks: int) -> None:
    """gather, server: (k-1) n into one and out of it; cpu: k n; the others n each way."""
    for options, place in (
        ({"algorithm": "gather"}, 0),
        ({"algorithm": "server", "blocks": blocks, "server": "worker:1"}, 1),
    ):
        sent, received = _all_reduced(k, **options)
        expected = dict.fromkeys(workers(k), BYTES) | {f"worker:{place}": (k - 1) * BYTES}
        assert sent == expected
        assert received == expected
    sent, received = _all_reduced(k, algorithm="cpu", blocks=blocks)
    assert sent == received == dict.fromkeys(workers(k), BYTES) | {"cpu": k * BYTES}


@pytest.mark.parametrize("k", range(2, 9))
@pytest.mark.parametrize("blocks", [1, 4])
def test_tree(k: int, blocks: int) -> None:
    """⌈log2 k⌉ n into the first device and out of it, no other more; 2 (k-1) n in all."""
    sent, received = _all_reduced(k, algorithm="tree", blocks=blocks)
    assert sent["worker:0"] == received["worker:0"] == max(sent.values()) == (k - 1).bit_length() * BYTES
    assert sum(sent.values()) == 2 * (k - 1) * BYTES


@pytest.mark.parametrize("k", [3, 5, 6, 7])
def test_halving_of_other_numbers(k: int) -> None:
    """p = 2 or 4: 2 (p-1)/p n for the first p, n beyond that for those that stand for another, which have n."""
    p = 1 << (k.bit_length() - 1)
    sent, received = _all_reduced(k, algorithm="halving")
    inner = 2 * (p - 1) * BYTES // p
    expected = [inner + (BYTES if i < k - p else 0) for i in range(p)] + [BYTES] * (k - p)
    assert sent == received == dict(zip(workers(k), expected, strict=True))


def test_hierarchical() -> None:
    """(0 1 2) (3 4 5): 2 n between 0 and its group each way, and n each way between 0 and 3."""
    groups = [workers(6)[:3], workers(6)[3:]]
    sent, received = _all_reduced(6, algorithm="hierarchical", groups=groups, between="ring")
    expected = dict.fromkeys(workers(6), BYTES) | {"worker:0": 3 * BYTES, "worker:3": 3 * BYTES}
    assert sent == received == expected


@pytest.mark.parametrize("k", [2, 3, 5])
def test_reduce_and_broadcast(k: int) -> None:
    """direct: (k-1) n in or out of one; ring: n from each but the last; tree: ⌈log2 k⌉ n in or out of one."""
    most = {"direct": k - 1, "ring": 1, "tree": (k - 1).bit_length()}
    for algorithm, times in most.items():
        work, values = _values(k)
        sent, received = moved(work, [reduce(work, values, algorithm=algorithm)], k)
        assert received["worker:0"] == times * BYTES
        assert max(sent.values()) == BYTES
        assert "worker:0" not in sent
        work, values = _values(k)
        sent, received = moved(work, broadcast(work, values[0], workers(k), algorithm=algorithm), k)
        assert sent["worker:0"] == times * BYTES
        assert received == dict.fromkeys(workers(k)[1:], BYTES)


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("algorithm", ["direct", "ring"])
def test_shares_and_exchanges(k: int, algorithm: str) -> None:
    """reduce_scatter (k-1)/k n, all_gather (k-1) n, all_to_all (k-1)/k n, on a ring (k-1)/2 n: for each device."""
    exchanged = (k - 1) * BYTES // k if algorithm == "direct" else (k - 1) * BYTES // 2
    for collective, nbytes in (
        (reduce_scatter, (k - 1) * BYTES // k),
        (all_gather, (k - 1) * BYTES),
        (all_to_all, exchanged),
    ):
        work, values = _values(k)
        sent, received = moved(work, collective(work, values, algorithm=algorithm), k)
        assert sent == received == dict.fromkeys(workers(k), nbytes), collective.__name__


@pytest.mark.parametrize("algorithm", ["ring", "rings"])
def test_a_ring_sends_to_neighbours_only(algorithm: str) -> None:
    """0 ──▶ 1 ──▶ 2 ──▶ 3 ──▶ 0, with two rings backwards too, half of the bytes each way."""
    work, values = _values(4)
    work.keep(*all_reduce(work, values, algorithm=algorithm))
    plan = gs.schedule(work, machine(*workers(4)), scheduler="one_stream")
    found: dict[int, int] = {}
    for copy in plan.copies.values():
        step = (int(copy.target[-1]) - int(copy.source[-1])) % 4
        found[step] = found.get(step, 0) + copy.read.value.nbytes
    whole = 4 * 2 * 3 * BYTES // 4
    assert found == ({1: whole} if algorithm == "ring" else {1: whole // 2, 3: whole // 2})

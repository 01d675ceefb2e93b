"""broadcast, all_gather and all_to_all: what is where in the end."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.collectives import all_gather, all_to_all, broadcast
from graphsched.collectives.members import location
from tests.collectives.values import DTYPES, on_workers, plainly, really, whole_numbers, workers

ways = st.sampled_from(["direct", "ring"])
quickly = settings(max_examples=80, deadline=None)


@quickly
@given(
    st.sampled_from([("direct", 1), ("ring", 1), ("ring", 5), ("tree", 1), ("tree", 4)]),
    st.integers(1, 7),
    st.integers(0, 6),
    st.integers(0, 40),
    st.sampled_from(DTYPES),
)
def test_broadcast(way: tuple[str, int], k: int, source: int, n: int, dtype: torch.dtype) -> None:
    """x ──▶ x, x, …: from one of the devices, or from another one."""
    tensor = whole_numbers(1, [n], dtype)[0]
    work, values = on_workers([tensor] * 7)
    made = broadcast(work, values[source], workers(k), algorithm=way[0], blocks=way[1])
    assert [location(work, value) for value in made] == workers(k)
    assert source >= k or made[source] is values[source]
    for one in plainly(work, made):
        assert torch.equal(one, tensor)


@pytest.mark.parametrize(("algorithm", "blocks"), [("direct", 1), ("ring", 4), ("tree", 3)])
@pytest.mark.parametrize("n", [0, 60])
def test_broadcast_for_real(algorithm: str, blocks: int, n: int) -> None:
    """x on worker:1 ──▶ worker:2 ──▶ worker:0, or both at once; no elements are sent too."""
    tensors = whole_numbers(3, (n,), torch.float32)
    work, values = on_workers(tensors)
    for one in really(work, broadcast(work, values[1], workers(3), algorithm=algorithm, blocks=blocks), 3):
        assert torch.equal(one, tensors[1])


def test_copies_to_the_host_go_to_pinned_memory() -> None:
    """x on worker:0 ──▶ cpu: from there copies to GPUs are fast, and no thread is blocked."""
    work, values = on_workers([torch.zeros(9)])
    (made,) = broadcast(work, values[0], ["cpu"])
    assert work[str(made.producer)].memory == "pinned"


@quickly
@given(ways, st.lists(st.integers(0, 5), min_size=1, max_size=7), st.sampled_from(DTYPES))
def test_all_gather(algorithm: str, rows: list[int], dtype: torch.dtype) -> None:
    """x0, x1, … ──▶ (x0 x1 …), (x0 x1 …), …: with rows of their own number each."""
    tensors = [whole_numbers(1, (n, 2), dtype, n)[0] for n in rows]
    work, values = on_workers(tensors)
    found = plainly(work, all_gather(work, values, algorithm=algorithm))
    assert len(found) == len(rows)
    for one in found:
        assert torch.equal(one, torch.cat(tensors))


@quickly
@given(ways, st.integers(1, 7), st.integers(0, 20), st.sampled_from(DTYPES))
def test_all_to_all(algorithm: str, k: int, rows: int, dtype: torch.dtype) -> None:
    """Part j of xi is part i of what device j gets."""
    tensors = whole_numbers(k, (rows, 3), dtype)
    work, values = on_workers(tensors)
    found = plainly(work, all_to_all(work, values, algorithm=algorithm))
    for j, one in enumerate(found):
        assert torch.equal(one, torch.cat([tensor.tensor_split(k)[j] for tensor in tensors]))


@pytest.mark.parametrize("algorithm", ["direct", "ring"])
@pytest.mark.parametrize("collective", [all_gather, all_to_all])
def test_exchanges_for_real(collective: object, algorithm: str) -> None:
    """Four workers with seven rows: the plan's result is that of a plain loop over the tasks."""
    tensors = whole_numbers(4, (7, 5), torch.float64)
    work, values = on_workers(tensors)
    made = collective(work, values, algorithm=algorithm)  # type: ignore[operator]
    for one, expected in zip(really(work, made, 4), plainly(work, made), strict=True):
        assert torch.equal(one, expected)

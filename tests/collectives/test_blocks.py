"""Blocks: how a value is cut, what its blocks cost, and how it is put together again."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphsched.collectives.blocks import ALIGNED_BYTES, block_sizes, cut, join, part_sizes
from graphsched.collectives.members import Members
from graphsched.collectives.operations import memory_order
from graphsched.workload import TensorSpec
from tests.collectives.values import on_workers, plainly


@given(st.integers(0, 5000), st.integers(1, 40), st.sampled_from([1, 2, 4, 8, 16]))
def test_blocks_are_aligned_and_make_the_whole(elements: int, blocks: int, item_bytes: int) -> None:
    """|----|----|--|: all but the last begin and end at 16 bytes, none is empty unless all is."""
    sizes = part_sizes(elements, blocks, item_bytes)
    assert sum(sizes) == elements
    assert 1 <= len(sizes) <= blocks
    assert all(size * item_bytes % ALIGNED_BYTES == 0 for size in sizes[:-1])
    assert all(sizes) or elements == 0
    assert max(sizes) - elements / blocks <= ALIGNED_BYTES / item_bytes


@given(st.permutations(range(4)), st.tuples(*[st.integers(1, 4)] * 4), st.integers(1, 9))
def test_blocks_of_any_dense_value_make_it_again(dims: list[int], shape: tuple[int, ...], blocks: int) -> None:
    """x ──▶ x.0, x.1, … ──▶ x: with its shape and strides, whatever the order of its dimensions."""
    tensor = torch.arange(torch.Size(shape).numel()).reshape(shape).permute(dims)
    work, values = on_workers([tensor])
    members = Members(work, "m", ("worker:0",))
    pieces = cut(members, values, block_sizes(TensorSpec.of(tensor), blocks))[0]
    whole = join(members, "whole", "worker:0", pieces, TensorSpec.of(tensor))
    found = plainly(work, [whole])[0]
    assert torch.equal(found, tensor)
    assert found.is_contiguous() or found.stride() == tensor.stride()


@pytest.mark.parametrize(("dense", "seconds"), [(True, 0.0), (False, None)])
def test_cutting_a_dense_value_makes_views_that_take_no_time(dense: bool, seconds: float | None) -> None:
    """Columns of all rows are dense, every second column is not: that is copied first."""
    work, values = on_workers([torch.zeros(8, 8).t() if dense else torch.zeros(8, 16)[:, ::2]])
    pieces = cut(Members(work, "m", ("worker:0",)), values, [32, 32])[0]
    assert [piece.root == "x0" for piece in pieces] == [dense] * 2
    assert [piece.spec.stride for piece in pieces] == [None] * 2  # type: ignore[union-attr]
    assert work["m/cut/0"].duration_s == seconds


def test_orders_in_memory() -> None:
    assert memory_order(TensorSpec((2, 3, 4))) is None
    for dims in itertools.permutations(range(3)):
        tensor = torch.zeros(2, 3, 4).permute(dims)
        order = memory_order(TensorSpec.of(tensor))
        assert tensor.is_contiguous() if order is None else tensor.permute(order).is_contiguous()

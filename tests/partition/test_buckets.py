"""Buckets of gradients: what is put together, and how it lies in memory."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphsched.partition.buckets import ALIGNED, flat, flat_parts, in_buckets, part_sizes, weighted
from graphsched.workload import TensorSpec, Value, fill


def _values(*elements: int, dtype: str = "float32") -> list[Value]:
    specs = [TensorSpec((n,), dtype) for n in elements]
    return [Value(f"{dtype}/{i}", "output", spec.nbytes, spec) for i, spec in enumerate(specs)]


@given(st.lists(st.integers(1, 100), max_size=20), st.integers(0, 800))
def test_buckets_keep_the_order_and_are_as_full_as_allowed(elements: list[int], limit: int) -> None:
    values = _values(*elements)
    buckets = in_buckets([(0, value) for value in values], limit)
    assert [value for bucket in buckets for value in bucket.gradients] == values
    sizes = [[value.nbytes for value in bucket.gradients] for bucket in buckets]
    assert all(sum(size) <= limit or len(size) == 1 for size in sizes)
    assert all(sum(one) + other[0] > limit for one, other in itertools.pairwise(sizes))


def test_types_and_what_other_sums_come_before_are_kept_apart() -> None:
    a, b, c, d = (*_values(1, 1), *_values(1, 1, dtype="float64"))
    found = in_buckets([(0, a), (0, c), (0, d), (1, b)], 1000)
    assert [bucket.gradients for bucket in found] == [(a,), (c, d), (b,)]
    assert [bucket.name for bucket in found] == ["bucket.0", "bucket.1", "bucket.2"]


@given(st.integers(0, 5000), st.integers(1, 9))
def test_parts_are_aligned_and_make_the_whole(elements: int, parts: int) -> None:
    sizes = part_sizes(elements, parts)
    assert sum(sizes) == elements
    assert 1 <= len(sizes) <= parts
    assert all(size % ALIGNED == 0 for size in sizes[:-1])
    assert max(sizes) - elements / parts <= ALIGNED


@pytest.mark.parametrize("count", [1, 2, 3])
def test_weighted_sums_are_new_tensors(count: int) -> None:
    parts = [torch.ones(3) for _ in range(count)]
    assert fill(weighted(parts, [0.5] * count), ()).tolist() == [0.5 * count] * 3
    assert all(part.tolist() == [1.0] * 3 for part in parts)


def test_flat_takes_elements_in_their_order_whatever_the_strides() -> None:
    matrix = torch.arange(6).reshape(2, 3)
    assert fill(flat([matrix.t(), torch.tensor([7])]), ()).tolist() == [0, 3, 1, 4, 2, 5, 7]
    assert [part.tolist() for part in fill(flat_parts([matrix], [4, 2]), ())] == [[0, 1, 2, 3], [4, 5]]

"""Rows of a batch over replicas."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphsched.errors import WorkloadError
from graphsched.partition.batches import batch_size, shard_sizes, split


@given(st.integers(1, 1000), st.integers(1, 16))
def test_shards_are_as_even_as_can_be_and_the_first_are_larger(batch: int, k: int) -> None:
    if k > batch:
        with pytest.raises(WorkloadError, match=f"{batch} rows cannot be split over {k} devices"):
            shard_sizes(batch, k)
        return
    sizes = shard_sizes(batch, k)
    assert sum(sizes) == batch
    assert max(sizes) - min(sizes) <= 1
    assert list(sizes) == sorted(sizes, reverse=True)


@pytest.mark.parametrize("shards", [[4, 5], [8, 0], [9, -1], []])
def test_given_shards_must_make_the_batch(shards: list[int]) -> None:
    with pytest.raises(WorkloadError, match="do not make a batch of 8"):
        shard_sizes(8, shards)


def test_rows_keep_their_order_and_other_tensors_stay_whole() -> None:
    x, scale = torch.arange(10).reshape(5, 2), torch.ones(2)
    parts = split({"x": x, "scale": scale, "target": torch.arange(5)}, [1, 4])
    assert torch.equal(torch.cat([parts["0/x"], parts["1/x"]]), x)
    assert [parts[f"{i}/target"].tolist() for i in range(2)] == [[0], [1, 2, 3, 4]]
    assert parts["0/scale"] is parts["1/scale"] is scale


def test_a_tensor_with_as_many_rows_as_the_batch_can_go_whole() -> None:
    table, x = torch.arange(4.0), torch.arange(8).reshape(4, 2)
    parts = split({"x": x, "table": table, "target": torch.arange(4)}, 2, whole=("table",))
    assert parts["0/table"] is parts["1/table"] is table
    assert parts["1/x"].tolist() == [[4, 5], [6, 7]]
    assert split({"x": x, "table": table}, 2)["1/table"].tolist() == [2, 3]
    with pytest.raises(WorkloadError, match=r"whole= names 'tabel', which is no input: there are x, table"):
        split({"x": x, "table": table}, 2, whole=["tabel"])


def test_the_batch_is_that_of_the_target_or_of_the_first_tensor() -> None:
    assert batch_size({"x": torch.ones(2, 3), "target": torch.ones(5)}) == 5
    assert batch_size({"x": torch.ones(2, 3), "y": torch.ones(5)}) == 2
    for nothing in ({}, {"x": torch.ones(())}):
        with pytest.raises(WorkloadError, match="no batch to split"):
            batch_size(nothing)

"""Operands that a GPU writes again between two calls on a CPU lane."""

from __future__ import annotations

import pytest
import torch

from graphsched.calibration.fetched_operands import fetched

pytestmark = pytest.mark.gpu


def test_the_gpu_writes_what_they_held_at_first() -> None:
    there = [torch.arange(12.0).reshape(3, 4).t(), torch.tensor([True, False]), torch.tensor(3)]
    operands, other = fetched(there, 2)
    for tensor, original in zip(operands.tensors, there, strict=True):
        assert tensor.is_pinned()
        assert tensor.stride() == original.stride()
        assert tensor.data_ptr() != original.data_ptr()
        tensor.zero_()
    operands.fetch()
    assert all(map(torch.equal, operands.tensors, there))
    assert {t.data_ptr() for t in operands.tensors}.isdisjoint(t.data_ptr() for t in other.tensors)
    assert 0 < operands.fetch_s < 0.1


def test_what_no_engine_copies_at_once_is_left_alone() -> None:
    there = torch.ones(4, 4)[:, :2]
    (operands,) = fetched([there], 1)
    (tensor,) = operands.tensors
    assert torch.equal(tensor, there)
    assert (tensor.is_pinned(), tensor.stride()) == (False, there.stride())
    operands.fetch()


def test_elements_that_share_memory_get_their_own() -> None:
    (operands,) = fetched([torch.ones(1).expand(4), torch.empty(0)], 1)
    operands.tensors[0][1:] = 0
    operands.fetch()
    assert operands.tensors[0].tolist() == [1.0] * 4

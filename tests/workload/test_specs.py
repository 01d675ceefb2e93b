"""Specifications of tensors: bytes, what is none, and those of torch's."""

from __future__ import annotations

import math
import struct

import pytest
import torch

from graphsched.errors import WorkloadError
from graphsched.workload import ITEM_BYTES, TensorSpec, element_bytes


@pytest.mark.parametrize("dtype", sorted(ITEM_BYTES))
def test_bytes_of_an_element_are_torchs(dtype: str) -> None:
    assert ITEM_BYTES[dtype] == getattr(torch, dtype).itemsize


@pytest.mark.parametrize(
    ("spec", "nbytes"),
    [(TensorSpec(()), 4), (TensorSpec((0, 5)), 0), (TensorSpec((3, 5), "bfloat16"), 30), (TensorSpec((2,), "bool"), 2)],
)
def test_bytes(spec: TensorSpec, nbytes: int) -> None:
    assert spec.nbytes == nbytes


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (((2, 2), "float33"), "unknown element type 'float33'"),
        (((2, -1),), "negative size"),
        (((2, math.nan),), "shape is .*: a tuple of whole numbers is needed"),
        (((2.0, 2),), "shape is .*: a tuple of whole numbers is needed"),
        (((True, 2),), "shape is .*: a tuple of whole numbers is needed"),
        ((4,), "shape is 4: a tuple of whole numbers is needed"),
        ((("4",),), "a tuple of whole numbers is needed"),
        (((2, 2), "float32", (2, 1.5)), "stride is .*: a tuple of whole numbers is needed"),
        (((2, 2), "float32", (1,)), "does not match shape"),
    ],
)
def test_a_specification_of_no_tensor(wrong: tuple[object, ...], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        TensorSpec(*wrong)  # type: ignore[arg-type]


def test_specification_of_a_tensor() -> None:
    assert TensorSpec.of(torch.empty(2, 3)) == TensorSpec((2, 3))
    assert TensorSpec.of(torch.empty(3, 2, dtype=torch.int64).t()) == TensorSpec((2, 3), "int64", (1, 2))
    assert TensorSpec.of(torch.empty(3, 2).t()) != TensorSpec((2, 3))


def test_bytes_of_elements_are_in_the_order_of_indices() -> None:
    """Whatever lies between them, and where torch has still to conjugate or negate them."""
    numbers = torch.arange(12.0).view(4, 3)
    for tensor in (
        numbers.t(),
        numbers[:, 1],
        numbers[1:2, 0],
        numbers[:0, 0],
        numbers[0, 0],
        numbers[:1].expand(2, 3),
    ):
        assert element_bytes(tensor).tobytes() == b"".join(struct.pack("=f", x) for x in tensor.flatten().tolist())
    turned = torch.tensor([1 + 2j, 3 + 4j]).conj()
    assert element_bytes(turned).tobytes() == struct.pack("=4f", 1, -2, 3, -4)
    assert element_bytes(turned.imag).tobytes() == struct.pack("=2f", -2, -4)

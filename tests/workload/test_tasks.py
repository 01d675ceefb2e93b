"""Names, specifications and values."""

from __future__ import annotations

import math

import pytest
import torch

from graphsched.errors import DuplicateNameError, GraphschedError, WorkloadError
from graphsched.workload import ITEM_BYTES, Read, Task, TensorSpec, Value, check_name


@pytest.mark.parametrize("name", ["a", "mm0", "layer.1/conv-2", "k:v", "µ", "0"])
def test_names_that_are_fine(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "a\n", "\ta", "a@1", "a>b", "a,b", "a;b", "#a", "a\u2028b", "a\x00", None, 3, b"a"]
)
def test_names_that_are_not(name: object) -> None:
    with pytest.raises(DuplicateNameError, match="name"):
        check_name(name)  # type: ignore[arg-type]


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


def test_a_specification_holds_plain_integers() -> None:
    spec = TensorSpec(torch.Size((2, 3)), stride=[torch.tensor(1), torch.tensor(2)])  # type: ignore[arg-type, list-item]
    assert (spec.shape, spec.stride) == ((2, 3), (1, 2))
    assert all(type(n) is int for n in spec.shape + (spec.stride or ()))


def test_values_are_themselves_and_not_their_fields() -> None:
    assert Value("x", "input", 4) != Value("x", "input", 4)
    assert Value("x", "input", 4).root == "x"
    assert Value("v", "output", 4, root="x").root == "x"


def test_reads_as_text() -> None:
    value = Value("w", "state", 4)
    assert (str(Read(value)), str(Read(value, 2, "step"))) == ("w", "w@2")


def test_bytes_of_a_task() -> None:
    x, y = Value("x", "input", 10), Value("y", "output", 3)
    assert Task("t", reads=(Read(x),), outputs=(y,)).nbytes == 13


def test_reprs() -> None:
    assert repr(Value("x", "input", 64, TensorSpec((4, 4)))) == "Value(x: float32[4,4])"
    assert repr(Value("x", "input", 64)) == "Value(x: 64 bytes)"
    assert repr(Task("end", "barrier")) == "Task(end: barrier)"
    assert issubclass(WorkloadError, GraphschedError)

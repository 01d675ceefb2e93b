"""Names and values."""

from __future__ import annotations

import pytest
import torch

from graphsched.errors import DuplicateNameError, GraphschedError, WorkloadError
from graphsched.workload import Read, Task, TensorSpec, Value, check_name


@pytest.mark.parametrize("name", ["a", "mm0", "layer.1/conv-2", "k:v", "µ", "0"])
def test_names_that_are_fine(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "a\n", "\ta", "a@1", "a>b", "a,b", "a;b", "#a", "a\u2028b", "a\x00", None, 3, b"a"]
)
def test_names_that_are_not(name: object) -> None:
    with pytest.raises(DuplicateNameError, match="name"):
        check_name(name)  # type: ignore[arg-type]


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

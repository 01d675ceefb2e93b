"""Names and signatures: equal in every process where the operation is, different where it is not."""

from __future__ import annotations

import functools
import operator
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphsched.workload import Read, Slot, TensorSpec, Value
from graphsched.workload.signatures import operation_name, signature
from tests.workload import operations
from tests.workload.operations import Scale, SlottedScale, times, times_deep


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (torch.mm, "torch.mm"),
        (torch.relu, "torch.relu"),
        (torch.nn.functional.relu, "torch.nn.functional.relu"),
        (torch.ops.aten.mm.default, "torch.ops.aten.mm.default"),
        (torch.ops.aten.add.Tensor, "torch.ops.aten.add.Tensor"),
        (operator.getitem, "_operator.getitem"),
        (functools.partial(torch.sum, dim=1), "partial(torch.sum,tuple(),{'dim':1})"),
    ],
)
def test_library_functions_are_named_by_their_place(function: Any, name: str) -> None:
    assert operation_name(function) == name


def test_own_functions_carry_a_hash_of_their_code() -> None:
    name, _, digest = operation_name(operations.scaled).partition("#")
    assert name == "tests.workload.operations.scaled"
    assert len(digest) == 12


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (times(2.0), times(3.0)),
        (times_deep(2.0), times_deep(3.0)),
        (Scale(2.0), Scale(3.0)),
        (Scale(2.0).method, Scale(3.0).method),
        (SlottedScale(2.0), SlottedScale(3.0)),
        (SlottedScale(2.0).method, SlottedScale(3.0).method),
        (functools.partial(torch.add, alpha=1), functools.partial(torch.add, alpha=2)),
        (functools.partial(map, torch.mm), functools.partial(map, torch.add)),
        (functools.partial(map, times(2.0)), functools.partial(map, times(3.0))),
        (torch.nn.Linear(4, 8), torch.nn.Linear(4, 9)),
        (torch.nn.Linear(4, 8), torch.nn.Linear(4, 8, bias=False)),
        (torch.nn.Dropout(0.1), torch.nn.Dropout(0.2)),
        (torch.nn.Linear(4, 8).forward, torch.nn.Linear(4, 9).forward),
        (lambda x: x + 1, lambda x: x + 2),
        (lambda x, k=1: x + k, lambda x, k=2: x + k),
        (lambda x, *, k=1: x + k, lambda x, *, k=2: x + k),
        (torch.ops.aten.add.Tensor, torch.ops.aten.add.Scalar),
    ],
)
def test_different_code_or_constants_have_different_names(one: Any, other: Any) -> None:
    assert operation_name(one) != operation_name(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (times(2.0), times(2.0)),
        (times_deep(2.0), times_deep(2.0)),
        (Scale(2.0), Scale(2.0)),
        (Scale(2.0).method, Scale(2.0).method),
        (SlottedScale(2.0), SlottedScale(2.0)),
        (SlottedScale(2.0).method, SlottedScale(2.0).method),
        (torch.nn.Linear(4, 8), torch.nn.Linear(4, 8)),
        (functools.partial(torch.add, alpha=1), functools.partial(torch.add, alpha=1)),
    ],
)
def test_equal_ones_have_equal_names(one: Any, other: Any) -> None:
    assert operation_name(one) == operation_name(other)


def test_a_constant_of_the_module_counts_also_through_a_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    before = operation_name(operations.scaled), operation_name(operations.through_helper)
    monkeypatch.setattr(operations, "FACTOR", 4.0)
    after = operation_name(operations.scaled), operation_name(operations.through_helper)
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_functions_in_a_circle_end() -> None:
    assert operation_name(operations.recursive) == operation_name(operations.recursive)


def test_a_closure_that_is_not_yet_filled() -> None:
    def make() -> Any:
        def early(x: Any) -> Any:
            return x + late  # type: ignore[has-type]

        name = operation_name(early)
        late = 3
        return name, operation_name(early), late

    unfilled, filled, _ = make()
    assert unfilled != filled


def test_names_hold_no_addresses() -> None:
    class Plain:
        __slots__ = ()

    for thing in (Scale(2.0), times(2.0), functools.partial(map, Plain()), operations.typed, Scale(1.0).method):
        assert "0x" not in operation_name(thing)


def test_other_processes_find_the_same_names() -> None:
    code = (
        "from tests.workload.operations import *; from tests.workload import operations as o;"
        "from graphsched.workload.signatures import operation_name as name;"
        "things = [times(2.0), times_deep(2.0), Scale(2.0), member, in_global_set, recursive, scaled, through_helper,"
        " torch.nn.Linear(4, 8), typed];"
        "print(*map(name, things))"
    )
    root = Path(__file__).parents[2]
    names = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"},
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(names) == 1


def _signature(*args: Any, spec: TensorSpec | None = None, **kwargs: Any) -> str:
    x = Value("x", "input", 64, spec or TensorSpec((4, 4)))
    return signature("f", (Slot(0), *args), kwargs, (Read(x),))


def test_a_signature_reads_like_a_call() -> None:
    assert _signature([Slot(0), 2], "a", dim=(0, 1)) == "f($0,[$0,2],'a',dim=(0,1)) $0=float32[4,4]"


@pytest.mark.parametrize(
    "other",
    [
        _signature(1, spec=TensorSpec((4, 5))),
        _signature(1, spec=TensorSpec((4, 4), "float16")),
        _signature(1, spec=TensorSpec((4, 4), stride=(1, 4))),
        _signature(2),
        _signature(1.0),
        _signature(True),
        _signature("1"),
        _signature([1]),
        _signature((1,)),
        _signature({1: 1}),
        _signature(k=1),
        _signature(np.int64(1)),
        _signature(torch.float32),
        _signature(Scale(1.0)),
    ],
)
def test_shapes_types_strides_and_constants_make_a_signature(other: str) -> None:
    assert _signature(1) != other


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.int64(3), np.int64(5)),
        (np.float32(0.5), np.float64(0.5)),
        (Scale(1.0), Scale(2.0)),
        (SlottedScale(1.0), SlottedScale(2.0)),
        (torch.relu, torch.tanh),
        (slice(0, 2), slice(0, 3)),
        (np.zeros(3), np.zeros(4)),
        (np.zeros(3), np.ones(3)),
        ({"a", "b"}, {"a", "c"}),
        (torch.float16, torch.bfloat16),
        (torch.device("cpu"), torch.device("meta")),
    ],
)
def test_constants_that_differ(one: Any, other: Any) -> None:
    assert _signature(one) != _signature(other)


def test_names_of_values_do_not_count() -> None:
    reads = [(Read(Value(name, "input", 64, TensorSpec((4, 4)))),) for name in "ab"]
    assert signature("f", (Slot(0),), {}, reads[0]) == signature("f", (Slot(0),), {}, reads[1])


def test_one_value_twice_is_not_two_values() -> None:
    x, y = (Read(Value(name, "input", 64, TensorSpec((4, 4)))) for name in "xy")
    assert signature("f", (Slot(0), Slot(0)), {}, (x,)) != signature("f", (Slot(0), Slot(1)), {}, (x, y))

"""What operations return and change, found without running them."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from graphsched.errors import SignatureError
from graphsched.workload.inference import fill, infer, like, returned_tensors
from graphsched.workload.specs import TensorSpec
from graphsched.workload.tasks import Operation, Slot

MATRIX = TensorSpec((4, 6))
Pair = namedtuple("Pair", "first second")


def _infer(function: Callable[..., Any], *specs: TensorSpec, **kwargs: Any) -> Any:
    return infer(function, tuple(Slot(i) for i in range(len(specs))), kwargs, specs)


def test_shapes_types_and_operations_of_a_product() -> None:
    found = _infer(torch.mm, TensorSpec((4, 6)), TensorSpec((6, 8)))
    assert found.outputs == (TensorSpec((4, 8)),)
    assert found.aliases == (None,)
    assert found.updated == ()
    assert found.flops == 2 * 4 * 6 * 8


@pytest.mark.parametrize(
    ("function", "specs"),
    [
        (lambda x: None, ()),
        (lambda x: x + 1, (MATRIX,)),
        (lambda x: [x + 1, x.sum()], (MATRIX, TensorSpec(()))),
        (lambda x: (x.double(),), (TensorSpec((4, 6), "float64"),)),
        (lambda x: torch.max(x, dim=1), (TensorSpec((4,)), TensorSpec((4,), "int64"))),
        (lambda x: (x + 1).t(), (TensorSpec((6, 4), stride=(1, 6)),)),
        (lambda x: x.new_zeros(0, 3), (TensorSpec((0, 3)),)),
    ],
)
def test_outputs(function: Callable[..., Any], specs: tuple[TensorSpec, ...]) -> None:
    assert _infer(function, MATRIX).outputs == specs


@pytest.mark.parametrize(
    ("function", "alias"),
    [
        (lambda x, y: y, 1),
        (lambda x, y: x[0], 0),
        (lambda x, y: x.t().reshape(2, 12), None),
        (lambda x, y: x.reshape(2, 12), 0),
        (lambda x, y: x.detach(), 0),
        (lambda x, y: x.expand(3, 4, 6), 0),
        (lambda x, y: x.clone(), None),
        (lambda x, y: x.to(torch.float32), 0),
        (lambda x, y: x.to(torch.float64), None),
        (lambda x, y: F.dropout(y, 0.5, training=False), 1),
        (lambda x, y: x.add_(y), 0),
    ],
)
def test_aliases(function: Callable[..., Any], alias: int | None) -> None:
    assert _infer(function, MATRIX, MATRIX).aliases == (alias,)


@pytest.mark.parametrize(
    ("function", "updated"),
    [
        (lambda x, y: x.add_(y), (0,)),
        (lambda x, y: x.t().add_(1), (0,)),
        (lambda x, y: x[1:].copy_(y[1:]), (0,)),
        (lambda x, y: torch.add(x, x, out=y), (1,)),
        (lambda x, y: x.data.add_(y), (0,)),
        (lambda x, y: x.detach().mul_(2), (0,)),
        (lambda x, y: torch._foreach_add_([x, y], 1.0), (0, 1)),
        (lambda x, y: torch._foreach_add([x, y], 1.0), ()),
        (lambda x, y: x.clone().add_(y), ()),
        (lambda x, y: F.relu(x, inplace=True) + y, (0,)),
        (lambda x, y: x.resize_(2, 2), (0,)),
        (lambda x, y: x.__setitem__(0, 1.0), (0,)),
    ],
)
def test_changes_in_place_by_any_alias(function: Callable[..., Any], updated: tuple[int, ...]) -> None:
    assert _infer(function, MATRIX, MATRIX).updated == updated


@pytest.mark.parametrize(("training", "updated"), [(True, (1, 2)), (False, ())])
def test_batch_norm_changes_its_running_figures_only_in_training(training: bool, updated: tuple[int, ...]) -> None:
    image, channel = TensorSpec((2, 3, 4, 4)), TensorSpec((3,))
    found = infer(F.batch_norm, (Slot(0), Slot(1), Slot(2)), {"training": training}, (image, channel, channel))
    assert found.updated == updated


def test_constants_stay_as_they_are() -> None:
    buffer = torch.zeros(4, 6)
    found = _infer(lambda x: x + buffer, MATRIX)
    assert found.outputs == (MATRIX,)
    assert not buffer.any()


@pytest.mark.parametrize("result", [1, 2.0, "x", [1], {"a": 1}, [[1]]])
def test_results_that_are_no_tensors(result: Any) -> None:
    with pytest.raises(SignatureError, match="a task returns tensors only"):
        _infer(lambda x: result, MATRIX)


def test_none_among_results_is_left_out() -> None:
    found = _infer(lambda x: (None, x + 1, None, x[0]), MATRIX)
    assert [spec.shape for spec in found.outputs] == [(4, 6), (6,)]


def test_an_operation_among_the_arguments_is_called_first() -> None:
    turned = Operation("torch.t", torch.t, (Slot(0),))
    found = infer(torch.mm, (Slot(0), turned), {}, (MATRIX,))
    assert found.outputs == (TensorSpec((4, 4)),)


def test_no_memory_is_needed() -> None:
    huge = TensorSpec((1 << 20, 1 << 20))
    assert _infer(torch.mm, huge, huge).flops == 2 << 60


def test_a_tensor_kept_from_the_call_is_of_no_use_afterwards() -> None:
    """Alone, beside numbers, changed in place; another inference may still see it."""
    kept: list[Any] = []

    def keeps(x: torch.Tensor) -> torch.Tensor:
        kept.append(x * 2)
        return x + kept[0]

    assert _infer(keeps, MATRIX).outputs == _infer(keeps, MATRIX).outputs == (MATRIX,)
    for use in (torch.neg, torch.ones(4, 6).add_, lambda t: t.add_(torch.ones(4, 6))):
        with pytest.raises(SignatureError, match="computes with a tensor kept from the call, without data"):
            use(kept[0])


def test_fill_reaches_everywhere() -> None:
    template = ([Slot(0), {"k": (Slot(1), 2)}], Pair(Slot(1), "x"))
    assert fill(template, ["a", "b"]) == (["a", {"k": ("b", 2)}], Pair("b", "x"))


@pytest.mark.parametrize("sequence", [[1, 2], (1, 2), Pair(1, 2), torch.Size((1, 2))])
def test_like_keeps_the_type(sequence: Any) -> None:
    again = like(sequence, iter(sequence))
    assert (again, type(again)) == (sequence, type(sequence))


def test_returned_tensors() -> None:
    x = torch.zeros(1)
    assert returned_tensors(None) == []
    assert returned_tensors(x) == [x]
    assert returned_tensors((x, x)) == [x, x]

"""Names of operations: what a file may call is found again, and nothing else is."""

from __future__ import annotations

import functools
import math
import operator
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from graphsched.errors import FileFormatError
from graphsched.executors.operations import find_operation, name_of

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (torch.mm, "torch.mm"),
        (torch.einsum, "torch.einsum"),
        (torch.conv2d, "torch.conv2d"),
        (functional.linear, "torch.nn.functional.linear"),
        (functional.avg_pool2d, "torch.nn.functional.avg_pool2d"),
        (functional.max_pool2d, "torch.nn.functional.max_pool2d"),
        (functional.cross_entropy, "torch.nn.functional.cross_entropy"),
        (torch.Tensor.add_, "torch.Tensor.add_"),
        (torch.Tensor.split, "torch.Tensor.split"),
        (operator.matmul, "operator.matmul"),
        (aten.mm, "torch.ops.aten.mm"),
        (aten.mm.default, "torch.ops.aten.mm.default"),
        (aten.add.Tensor, "torch.ops.aten.add.Tensor"),
        (aten._softmax.default, "torch.ops.aten._softmax.default"),
        (aten._foreach_addcdiv_.ScalarList, "torch.ops.aten._foreach_addcdiv_.ScalarList"),
        (aten._prelu_kernel.default, "torch.ops.aten._prelu_kernel.default"),
        (aten.__and__.Tensor, "torch.ops.aten.__and__.Tensor"),
    ],
)
def test_operations_are_found_again(function: Callable[..., Any], name: str) -> None:
    assert name_of(function) == name
    assert find_operation(name) is function


def own(x: Any) -> Any:
    return x


@pytest.mark.parametrize(
    "function",
    [lambda x: x, own, math.sqrt, os.system, torch.load, torch.compile, torch.from_file, functools.partial(torch.mm)],
)
def test_what_a_file_cannot_name_has_no_name(function: Callable[..., Any]) -> None:
    assert name_of(function) is None


def test_a_function_that_bears_an_operators_name_is_not_it() -> None:
    def mm(x: Any) -> Any:
        return x

    assert name_of(mm) is None


@pytest.mark.parametrize(
    "name",
    [
        "",
        "torch",
        "torch.",
        "os.system",
        "builtins.eval",
        "torch.load",
        "torch.save",
        "torch.hub.load",
        "torch.serialization.load",
        "torch.from_file",
        "torch.get_file_path",
        "torch.set_num_threads",
        "torch.Tensor",
        "torch.__class__",
        "torch.Tensor.__reduce_ex__",
        "torch.Tensor.register_hook",
        "torch.Tensor.no_such_method",
        "torch.nn.functional.warnings",
        "torch.nn.functional.Tensor",
        "torch.nn.functional.handle_torch_function",
        "torch.nn.functional._no_grad_embedding_renorm_",
        "torch.ops.load_library",
        "torch.ops.aten",
        "torch.ops.aten.from_file",
        "torch.ops.aten.from_file.default",
        "torch.ops.aten.save",
        "torch.ops.aten._reshape_alias",
        "torch.ops.aten._reshape_alias.default",
        "torch.ops.aten._nested_view_from_buffer.default",
        "torch.ops.aten._fused_adam_.default",
        "torch.ops.aten._weight_norm_interface.default",
        "torch.ops.aten._cufft_set_plan_cache_max_size.default",
        "torch.Tensor._indices",
        "torch.sparse_coo_tensor",
        "torch.ops.aten.sparse_csr_tensor.crow_col_value_size",
        "torch.Tensor.sparse_resize_",
        "torch.ops.aten.mm.no_such_overload",
        "torch.ops.aten.mm.default.__call__",
        "torch.ops.aten.mm.__class__",
        "torch.ops.prims.add",
        "operator.methodcaller",
        "operator.setitem",
    ],
)
def test_names_that_may_not_be_called(name: str) -> None:
    with pytest.raises(FileFormatError, match="only functions over tensors of torch") as error:
        find_operation(name)
    assert f"it calls {name!r}: " in str(error.value)
    assert torch.__version__ in str(error.value)

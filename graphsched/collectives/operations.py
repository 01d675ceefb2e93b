"""The few operations that collectives and sums of gradients are made of, by ATen names, so that plans can be saved."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from graphsched.workload import Operation, TensorSpec, Value, operation_name


def called(name: str, *args: Any) -> Operation:
    """The call of ``aten.NAME``; arguments may be values and other calls."""
    import torch

    aten = torch.ops.aten
    function = {
        "add": aten.add.Tensor,
        "add_": aten.add_.Tensor,
        "cat": aten.cat.default,
        "clone": aten.clone.default,
        "contiguous": aten.contiguous.default,
        "mul": aten.mul.Scalar,
        "permute": aten.permute.default,
        "reshape": aten.reshape.default,
        "slice": aten.slice.Tensor,
        "split": aten.split_with_sizes.default,
        "view": aten.view.default,
    }[name]
    return Operation(operation_name(function), function, args)


def summed(values: Sequence[Any]) -> Operation:
    """The sum, from first to last, in a new tensor.

    Example:
        >>> print(summed(["a", "b", "c"]).args)
        (Operation(name='torch.ops.aten.add.Tensor', ...args=('a', 'b'), ...), 'c')
    """
    if len(values) == 1:
        return called("clone", values[0])
    first = called("add", values[0], values[1])
    return functools.reduce(lambda total, value: called("add_", total, value), values[2:], first)


def flat(value: Value) -> Any:
    """All elements in the order of memory, as a view; of a tensor with gaps a copy, in the order of indices."""
    spec = specification(value)
    dims = memory_order(spec)
    if dims is not None:
        return called("reshape", called("permute", value, list(dims)), [-1])
    if spec.stride is not None:
        return called("reshape", called("contiguous", value), [-1])
    return value if len(spec.shape) == 1 else called("reshape", value, [-1])


def shaped(elements: Any, spec: TensorSpec) -> Operation:
    """Flat elements, as `flat` puts them, in the shape and order of memory of `spec`."""
    dims = memory_order(spec)
    if dims is None:
        return called("view", elements, list(spec.shape))
    inverse = sorted(range(len(dims)), key=dims.__getitem__)
    return called("permute", called("view", elements, [spec.shape[d] for d in dims]), inverse)


def memory_order(spec: TensorSpec) -> tuple[int, ...] | None:
    """Dimensions from the largest stride to the smallest; None for a contiguous tensor, or one with gaps.

    Example:
        >>> memory_order(TensorSpec((4, 8), stride=(1, 4))), memory_order(TensorSpec((4, 8), stride=(1, 5)))
        ((1, 0), None)
    """
    if spec.stride is None:
        return None
    stride = spec.stride
    dims = tuple(sorted(range(len(stride)), key=lambda d: (-stride[d], spec.shape[d] == 1)))
    step = 1
    for d in reversed(dims):
        if spec.shape[d] != 1 and stride[d] != step:
            return None
        step *= spec.shape[d]
    return dims


def specification(value: Value) -> TensorSpec:
    """Shape and type of a value that has them."""
    assert value.spec is not None
    return value.spec

"""Tiny operations of several kinds as tasks: called as functions, or as the operators of traced networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from graphsched.workload import Value, Workload

KINDS = ("neg", "mm", "add", "softmax", "sum", "relu", "mul", "mean", "sub", "exp", "amax", "layer_norm")

Kinds = Mapping[str, tuple[Any, ...]]
CallsOf = Callable[[Value], Kinds]
"""By kind, what is called and its arguments, of a value."""


def functions_on(x: Value) -> Kinds:
    """By kind: a function of PyTorch and its arguments."""
    import torch

    return {
        "neg": (torch.neg, x),
        "mm": (torch.mm, x, x),
        "add": (torch.add, x, x),
        "softmax": (torch.softmax, x, 1),
        "sum": (torch.sum, x, 1),
        "relu": (torch.relu, x),
        "mul": (torch.mul, x, 2.0),
        "mean": (torch.mean, x, 0),
        "sub": (torch.sub, x, x),
        "exp": (torch.exp, x),
        "amax": (torch.amax, x, 1),
        "layer_norm": (torch.layer_norm, x, [8]),
    }


def operators_on(x: Value) -> Kinds:
    """By kind: the operator that does the same, as traced networks call it, and its arguments."""
    import torch

    aten = torch.ops.aten
    return {
        "neg": (aten.neg.default, x),
        "mm": (aten.mm.default, x, x),
        "add": (aten.add.Tensor, x, x),
        "softmax": (aten._softmax.default, x, 1, False),
        "sum": (aten.sum.dim_IntList, x, [1]),
        "relu": (aten.relu.default, x),
        "mul": (aten.mul.Scalar, x, 2.0),
        "mean": (aten.mean.dim, x, [0]),
        "sub": (aten.sub.Tensor, x, x),
        "exp": (aten.exp.default, x),
        "amax": (aten.amax.default, x, [1]),
        "layer_norm": (aten.native_layer_norm.default, x, [8], None, None, 1e-5),
    }


def add_task(work: Workload, kind: str, x: Value, name: str, calls: CallsOf = functions_on) -> None:
    """Add a task of one of `KINDS` on `x`, on its device."""
    function, *args = calls(x)[kind]
    work.task(function, *args, name=name, device=device_of(x))


def device_of(value: Value) -> str:
    """Where an input of a tiny plan lies."""
    assert isinstance(value.device, str)
    return value.device

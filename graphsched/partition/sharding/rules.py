"""Which operators work on parts of tensors, device by device, and what lies where after.

Every rule follows from the operator's definition: elementwise operators act on any runs, products of matrices on rows
of the first, columns of the second, or on what is summed over (then each device has a summand); convolutions on
channels likewise; batch norm and pools on each channel alone. An operator without a rule, or whose arguments are all
whole, runs on the first device.

Not modelled: splits of the batch, see `data_parallel`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphsched.partition.sharding.calls import Call, Local, aligned, devices, split_of
from graphsched.partition.sharding.layer_rules import (
    batch_norm,
    batch_norm_backward,
    batch_norm_with_update,
    convolution,
    convolution_backward,
    product,
)
from graphsched.partition.sharding.layouts import Kind, Layout
from graphsched.partition.sharding.spread import Seen


def local(call: Call) -> Local | None:
    """The tasks in whose place `call` runs on each device; None: it runs whole."""
    import torch

    tags = call.function.tags
    if torch.Tag.nondeterministic_seeded in tags or any(isinstance(thing, Seen) for thing in call.kwargs.values()):
        return None
    if call.name in RULES:
        return RULES[call.name](call)
    return _pointwise(call) if torch.Tag.pointwise in tags else None


def works_on_parts(function: Any) -> bool:
    """Whether what `function` changes in place may be split."""
    import torch

    tags = getattr(function, "tags", ())
    name = function._schema.name.rpartition("::")[2] if tags else ""
    return torch.Tag.pointwise in tags or name in ("copy_", "native_batch_norm", "_batch_norm_with_update")


# -- elementwise -------------------------------------------------------------------------------------

_ADDITIVE = ("add", "clone", "mul.Scalar", "div.Scalar", "neg")


def _pointwise(call: Call) -> Local | None:
    """As what it changes in place lies, or as the first split argument; sums of summands stay summands."""
    tensors = call.tensors
    shape = call.shapes[0]
    if call.updates:
        layout: Layout | None = call.spread.held.layouts[call.updates[0]]
        layout = None if layout in (Kind.WHOLE, Kind.FREE) else layout
    else:
        splits = [found.at(found.dim + len(shape) - len(t.shape)) for t in tensors if (found := split_of(t))]
        layout = splits[0] if splits else None
    kinds = {t.layout for t in tensors}
    if layout is None and kinds == {Kind.PARTIAL} and _is_additive(call):
        layout = Kind.PARTIAL
    if layout is None and kinds == {Kind.COPIES}:
        layout = Kind.COPIES
    if layout is None:
        return None
    wanted = [aligned(a, shape, layout) if isinstance(a, Seen) else None for a in call.args]
    return Local([call.wanted(wanted, i) for i in devices(call)], [layout] * len(call.shapes))


def _is_additive(call: Call) -> bool:
    name = str(call.function).removeprefix("aten.").removesuffix(".default").removesuffix(".Tensor")
    return name in _ADDITIVE and (name != "add" or len(call.tensors) == 2)


# -- operators that leave some dimensions alone ------------------------------------------------------


def _channels(call: Call) -> Local | None:
    """Pools: each channel alone."""
    return _alike(call, range(len(call.args[0].shape) - 2))


def _everywhere(call: Call) -> Local | None:
    """Any dimension."""
    return _alike(call, range(len(call.args[0].shape)))


def _heads(call: Call) -> Local | None:
    """Attention: each sequence and head alone."""
    return _alike(call, (0, 1))


def _rows(dim_place: int) -> Callable[[Call], Local | None]:
    """Softmax: all but one dimension, which stands among the arguments."""

    def rule(call: Call) -> Local | None:
        rank = len(call.args[0].shape)
        return _alike(call, [d for d in range(rank) if d != call.args[dim_place] % rank])

    return rule


def _alike(call: Call, dims: Sequence[int]) -> Local | None:
    """All tensors in one layout, split along one of `dims`."""
    found = next((split for t in call.tensors if (split := split_of(t, *dims))), None) if dims else None
    if found is None:
        return None
    return Local([call.wanted([found] * len(call.args), i) for i in devices(call)], [found] * len(call.shapes))


def _reduction(call: Call) -> Local | None:
    """Sums and means over dimensions: kept where the split one is left; else a sum has a summand on each device."""
    split = split_of(call.args[0])
    if split is None or len(call.args) < 2 or not call.args[1]:
        return None
    rank = len(call.args[0].shape)
    gone = {d % rank for d in call.args[1]}
    keeps = len(call.args) > 2 and call.args[2]
    if split.dim not in gone:
        layout: Layout = split.at(split.dim - (0 if keeps else sum(d < split.dim for d in gone)))
    elif call.name == "sum":
        layout = Kind.PARTIAL
    else:
        return None
    return Local([call.wanted([split], i) for i in devices(call)], [layout])


def _select_backward(call: Call) -> Local | None:
    """Into zeros of the shape of what was selected from."""
    grad, shape, dim, _ = call.args
    split = split_of(grad)
    if split is None:
        return None
    layout = split.at(split.dim + (dim % len(shape) <= split.dim))
    return Local([call.wanted([split], i, _1=list(layout.local(shape, i))) for i in devices(call)], [layout])


RULES: dict[str, Callable[[Call], Local | None]] = {
    **dict.fromkeys(("mm", "bmm", "addmm"), product),
    "copy_": _pointwise,
    "convolution": convolution,
    "convolution_backward": convolution_backward,
    "_batch_norm_with_update": batch_norm_with_update,
    "batch_norm_backward": batch_norm_backward,
    "native_batch_norm": batch_norm,
    "native_batch_norm_backward": batch_norm_backward,
    **dict.fromkeys(("sum", "mean"), _reduction),
    **dict.fromkeys(("attention", "attention_backward"), _heads),
    "select_backward": _select_backward,
    **dict.fromkeys(("zeros_like", "ones_like", "full_like"), _everywhere),
    **dict.fromkeys(("_softmax", "_safe_softmax", "_log_softmax"), _rows(1)),
    **dict.fromkeys(("_softmax_backward_data", "_log_softmax_backward_data"), _rows(2)),
    **dict.fromkeys(
        (
            *("max_pool2d_with_indices", "max_pool2d_with_indices_backward", "avg_pool2d", "avg_pool2d_backward"),
            *("_adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward"),
        ),
        _channels,
    ),
}
"""By name of the operator."""

"""Layers on parts of tensors: products of matrices, convolutions and batch norm, with their backward passes.

Not modelled: transposed convolutions.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphsched.partition.sharding.calls import Call, Local, aligned, devices, split_of
from graphsched.partition.sharding.layouts import Kind, Layout, Split
from graphsched.partition.sharding.spread import Seen


def product(call: Call) -> Local | None:
    """``mm``, ``bmm`` and ``addmm``."""
    if call.kwargs:
        return None  # factors
    first = call.name == "addmm"
    batch = int(call.name == "bmm")
    a, b = call.args[first], call.args[first + 1]
    if batch and (both := split_of(a, 0) or split_of(b, 0)):
        return Local([call.wanted([both, both], i) for i in devices(call)], [both])
    inner = split_of(a, batch + 1) or split_of(b, batch)
    if inner and split_of(b, batch):
        return _summands(call, inner.at(batch + 1), inner.at(batch))
    wanted: tuple[Layout, Layout]
    rows, columns = split_of(a, batch), split_of(b, batch + 1)
    if rows and (columns or b.layout is Kind.WHOLE) and call.spread.is_gathered(a):
        rows = None
    if columns and (rows or a.layout is Kind.WHOLE) and call.spread.is_gathered(b):
        columns = None
    if rows:
        wanted, layout = (rows, Kind.WHOLE), rows
    elif columns:
        wanted, layout = (Kind.WHOLE, columns), columns
    else:
        return None
    bias: list[Layout] = [aligned(call.args[0], call.shapes[0], layout)] if first else []
    return Local([call.wanted([*bias, *wanted], i) for i in devices(call)], [layout])


def _summands(call: Call, inner: Split, of_b: Split) -> Local:
    """A summand on each device; a bias is added on the first."""
    import torch

    if call.name != "addmm":
        return Local([call.wanted([inner, of_b], i) for i in devices(call)], [Kind.PARTIAL])
    args = [call.wanted([Kind.WHOLE, inner, of_b], i) if i == 0 else [] for i in devices(call)]
    for i in range(1, call.spread.count):
        args[i] = [call.spread.want(a, layout, i) for a, layout in zip(call.args[1:3], (inner, of_b), strict=True)]
    return Local(args, [Kind.PARTIAL], (call.function, *[torch.ops.aten.mm.default] * (call.spread.count - 1)))


def convolution(call: Call) -> Local | None:
    """Some output channels from all inputs (of whole groups, from theirs), or summands from some input channels."""
    x, weight, groups = call.args[0], call.args[1], call.args[8]
    split = split_of(weight, 0, 1)
    if split is None or call.args[6]:
        return None
    layouts: list[Layout]
    if split.dim == 1:
        layouts = [split, split, Kind.WHOLE]
        args = [call.wanted(layouts, i, **({} if i == 0 else {"_2": None})) for i in devices(call)]
        return Local(args, [Kind.PARTIAL])
    own = _own_groups(split, weight, groups)
    of_x: Layout = Kind.WHOLE if groups == 1 else _channels_in(own, x, groups)
    layouts = [of_x, split, split.at(0)]
    return Local([call.wanted(layouts, i, _8=own[i]) for i in devices(call)], [split.at(1)])


def convolution_backward(call: Call) -> Local | None:
    """Split as the forward pass is."""
    _, x, weight, biases = call.args[:4]
    groups, mask = call.args[9], call.args[10]
    split = split_of(weight, 0, 1)
    if split is None or call.args[7]:
        return None
    layouts: list[Layout]
    found: list[Layout]
    if split.dim == 1:
        layouts = [Kind.WHOLE, split, split]
        args = [call.wanted(layouts, i, **({} if i == 0 else {"_10": [*mask[:2], False]})) for i in devices(call)]
        found = [split, split, Kind.WHOLE]
        missing = (sum(mask[:2]),) if mask[2] else ()
        return Local(args, [layout for layout, there in zip(found, mask, strict=True) if there], missing=missing)
    own = _own_groups(split, weight, groups)
    of_x: Layout = Kind.WHOLE if groups == 1 else _channels_in(own, x, groups)
    layouts = [split.at(1), of_x, split]
    sizes = [None if biases is None else [split.outer * split.sizes[i]] for i in devices(call)]
    args = [call.wanted(layouts, i, _3=sizes[i], _9=own[i]) for i in devices(call)]
    found = [Kind.PARTIAL if groups == 1 else of_x, split, split.at(0)]
    return Local(args, [layout for layout, there in zip(found, mask, strict=True) if there])


def _own_groups(split: Split, weight: Seen, groups: int) -> list[int]:
    """Groups of the convolution on each device."""
    return [1 if groups == 1 else size * groups // weight.shape[0] for size in split.sizes]


def _channels_in(own: Sequence[int], x: Seen, groups: int) -> Split:
    """Input channels of these groups."""
    return Split(1, tuple(n * x.shape[1] // groups for n in own))


def batch_norm(call: Call) -> Local | None:
    """Each channel alone, with its running statistics."""
    split = split_of(call.args[0], 1)
    if split is None:
        return None
    layouts: list[Layout] = [split, *[split.at(0)] * 4]
    saved: Layout = split.at(0) if call.args[5] else Kind.COPIES  # nothing, outside of training
    return Local([call.wanted(layouts, i) for i in devices(call)], [split, saved, saved])


def batch_norm_with_update(call: Call) -> Local | None:
    """The same in training; what it keeps for its gradient is each device's own."""
    split = split_of(call.args[0], 1)
    if split is None:
        return None
    layouts: list[Layout] = [split, *[split.at(0)] * 4]
    made: list[Layout] = [split, split.at(0), split.at(0), Kind.COPIES]
    return Local([call.wanted(layouts, i) for i in devices(call)], made)


def batch_norm_backward(call: Call) -> Local | None:
    """Each channel alone."""
    split = split_of(call.args[1], 1)
    if split is None:
        return None
    layouts: list[Layout] = [split, split, *[split.at(0)] * 5]
    found: list[Layout] = [split, split.at(0), split.at(0)]
    made = [layout for layout, there in zip(found, call.args[9], strict=True) if there]
    return Local([call.wanted(layouts, i) for i in devices(call)], made)

"""What a view of a split tensor is on each device.

Not modelled: views into one run of the split dimension, and those that the rules do not name (``as_strided``): the
tensor is brought together first.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from graphsched.partition.sharding.layouts import Kind, Layout, Split
from graphsched.workload import Operation, fill, operation_name

RESHAPES = ("view", "_unsafe_view", "reshape")
_OF_COMPLEX = ("view_as_real", "_conj")


def viewing(template: Operation) -> Operation:
    """The operator of a view: `template` itself, or what it takes one of several views of.

    Example:
        >>> viewing(Operation("operator.getitem", operator.getitem, (Operation("unbind", None), 1))).name
        'unbind'
    """
    inner = template.args[0]
    return inner if template.function is operator.getitem and isinstance(inner, Operation) else template


def name_of(step: Operation) -> str:
    """Of the operator, without its namespace; empty for other functions and for views as another type."""
    schema = getattr(step.function, "_schema", None)
    return "" if schema is None or schema.overload_name == "dtype" else str(schema.name.rpartition("::")[2])


def based(template: Any, base: Any, levels: int = -1) -> Any:
    """The views of `template`, or the last `levels` of them, of another tensor."""
    if levels == 0 or not isinstance(template, Operation):
        return base
    levels -= template.function is not operator.getitem
    return replace(template, args=(based(template.args[0], base, levels), *template.args[1:]))


def shape_of(template: Operation, shape: Sequence[int]) -> tuple[int, ...]:
    """Shape of what the last view of `template` makes of a tensor of this shape."""
    import torch

    dtype = torch.complex64 if name_of(viewing(template)) in _OF_COMPLEX else torch.float32
    return tuple(fill(based(template, torch.empty(tuple(shape), dtype=dtype, device="meta"), levels=1), ()).shape)


def is_view(template: Operation) -> bool:
    """Whether the strides of the value that `template` looks at allow its views."""
    import torch

    base: Any = template
    while isinstance(base, Operation):
        base = base.args[0]
    spec = base.spec
    like = torch.empty(spec.shape, device="meta")
    try:
        fill(based(template, like.as_strided(spec.shape, spec.stride or like.stride())), ())
    except RuntimeError:
        return False
    return True


def operation(function: Any, *args: Any) -> Operation:
    """A call of `function` among arguments."""
    return Operation(operation_name(function), function, args)


def reshape(thing: Any, shape: Sequence[int]) -> Operation:
    """A call that gives `thing` another shape."""
    import torch

    return operation(torch.ops.aten.reshape.default, thing, list(shape))


def viewed(name: str, args: Sequence[Any], shape: Sequence[int], made: Sequence[int], layout: Layout) -> Layout | None:
    """Layout of a view of a tensor of `layout`; None: the view crosses its parts.

    Args:
        name: Of the operator, without its namespace.
        args: Its arguments after the tensor.
        shape: Of the tensor.
        made: Of the view.

    Example:
        >>> viewed("view", [[8, 2, 3]], (8, 6), (8, 2, 3), Split(1, (3, 3)))
        Split(dim=1, sizes=(1, 1), outer=1)
    """
    if isinstance(layout, Kind):
        return layout
    if name in RESHAPES:
        return reshaped(shape, made, layout)
    dim = _moved(name, args, shape, layout.dim)
    return None if dim is None or made[dim] != layout.length() else layout.at(dim)


def followed(template: Any, shape: tuple[int, ...], layout: Split) -> tuple[tuple[int, ...], Split | None]:
    """Shape and layout of what views make of a tensor of this shape and layout; None: they cross its parts."""
    if not isinstance(template, Operation):
        return shape, layout
    inner = viewing(template)
    shape, seen = followed(inner.args[0], shape, layout)
    made = shape_of(template, shape)
    found = None if seen is None else viewed(name_of(inner), inner.args[1:], shape, made, seen)
    return made, found if isinstance(found, Split) else None


def reshaped(shape: Sequence[int], made: Sequence[int], layout: Split) -> Split | None:
    """Where the runs of `layout` are after a tensor's elements have been given another shape.

    In the order of elements in memory a run repeats `repeats` times, each time `step` elements for one of its length.

    Example:
        >>> reshaped((4, 6, 2), (4, 12), Split(1, (4, 2)))
        Split(dim=1, sizes=(8, 4), outer=1)
        >>> reshaped((4, 6, 2), (24, 2), Split(1, (4, 2)))
        Split(dim=0, sizes=(4, 2), outer=4)
    """
    if 0 in shape:
        return None
    repeats, step = math.prod(shape[: layout.dim]) * layout.outer, math.prod(shape[layout.dim + 1 :])
    for dim in range(len(made)):
        before, after = math.prod(made[:dim]), math.prod(made[dim + 1 :])
        if repeats % before == 0 and all(size * step % after == 0 for size in layout.sizes):
            return Split(dim, tuple(size * step // after for size in layout.sizes), repeats // before)
    return None


def local_view(template: Operation, thing: Any, made: Sequence[int], layout: Layout, i: int) -> Operation:
    """The last view of `template` of `thing` on device `i`, where it makes `layout` of a tensor of shape `made`."""
    name = name_of(viewing(template))
    if isinstance(layout, Split) and name in RESHAPES:
        return reshape(thing, layout.local(made, i))
    found: Operation = based(template, thing, levels=1)
    if isinstance(layout, Split) and name == "expand":
        return replace(found, args=(found.args[0], list(layout.local(made, i)), *found.args[2:]))
    return found


def _moved(name: str, args: Sequence[Any], shape: Sequence[int], dim: int) -> int | None:
    """Where dimension `dim` of a tensor is in a view that keeps it in one piece; None: it does not."""
    rank = len(shape)
    if name in ("detach", "alias"):
        return dim
    if name == "t":
        return rank - 1 - dim
    if name == "transpose":
        first, second = (int(a) % rank for a in args)
        return {first: second, second: first}.get(dim, dim)
    if name == "permute":
        return next(i for i in range(rank) if args[0][i] % rank == dim)
    if name == "unsqueeze":
        return dim + int(args[0] % (rank + 1) <= dim)
    if name == "squeeze":
        asked = range(rank) if not args else [args[0]] if isinstance(args[0], int) else args[0]
        gone = {a % rank for a in asked if shape[a] == 1}
        return None if dim in gone else dim - sum(d < dim for d in gone)
    if name == "expand":
        return int(dim + len(args[0]) - rank)
    if name in ("select", "slice", "unbind", "split", "split_with_sizes"):
        place = 1 if name.startswith("split") else 0
        at = (args[place] if len(args) > place else 0) % rank
        return None if at == dim else dim - int(name in ("select", "unbind") and at < dim)
    return None

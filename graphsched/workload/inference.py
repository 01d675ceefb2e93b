"""Shapes, bytes, aliases and operation counts of an operation, by running it on fake tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphsched.errors import SignatureError
from graphsched.workload.tasks import Slot, TensorSpec


@dataclass(frozen=True, slots=True)
class Inferred:
    """What an operation returns.

    Attributes:
        outputs: Specifications of the tensors returned, in order.
        aliases: For each output the index of the read whose storage it shares, or None.
        updated: Indices of the reads that were changed in place.
        flops: Floating-point operations counted by torch, 0 where it knows none.
    """

    outputs: tuple[TensorSpec, ...]
    aliases: tuple[int | None, ...]
    updated: tuple[int, ...]
    flops: int


def fill(template: Any, values: Sequence[Any]) -> Any:
    """Replace every `Slot` in nested lists, tuples and dicts by its value.

    Example:
        >>> fill(([Slot(1), Slot(0)], 2), ["a", "b"])
        (['b', 'a'], 2)
    """
    if isinstance(template, Slot):
        return values[template.index]
    if isinstance(template, (list, tuple)):
        return type(template)(fill(t, values) for t in template)
    if isinstance(template, Mapping):
        return {k: fill(t, values) for k, t in template.items()}
    return template


def returned_tensors(result: Any) -> list[Any]:
    """The tensors of a function's result: None, a tensor, or a list or tuple of tensors.

    Raises:
        SignatureError: The result holds something else.
    """
    import torch

    results = [] if result is None else list(result) if isinstance(result, (list, tuple)) else [result]
    for thing in results:
        if not isinstance(thing, torch.Tensor):
            raise SignatureError(f"it returned a {type(thing).__name__}, a task returns tensors only")
    return results


def infer(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    specs: Sequence[TensorSpec],
) -> Inferred:
    """Run `function` on fake tensors of these specifications: no memory, no arithmetic.

    Raises:
        SignatureError: It returns something that is no tensor, or cannot run on fake tensors.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils.flop_counter import FlopCounterMode

    with FakeTensorMode(allow_non_fake_inputs=True), FlopCounterMode(display=False) as counter:
        fakes = [torch.empty_strided(s.shape, s.stride or _contiguous(s.shape), dtype=getattr(torch, s.dtype))
                 for s in specs]  # fmt: skip
        versions = [f._version for f in fakes]
        results = returned_tensors(function(*fill(args, fakes), **fill(kwargs, fakes)))
    storages = [f.untyped_storage()._cdata for f in fakes]
    aliases = tuple(
        storages.index(r.untyped_storage()._cdata) if r.untyped_storage()._cdata in storages else None for r in results
    )
    updated = tuple(i for i, (f, v) in enumerate(zip(fakes, versions, strict=True)) if f._version != v)
    return Inferred(tuple(TensorSpec.of(r) for r in results), aliases, updated, int(counter.get_total_flops()))


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))

"""Shapes, bytes, aliases and operation counts of an operation, by running it on fake tensors."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphsched.errors import SignatureError
from graphsched.workload.norms import as_kernels_return
from graphsched.workload.specs import TensorSpec
from graphsched.workload.tasks import Operation, Slot

LEFT_BEHIND = (
    "kept from the call, without data, that found out what it returns: make what it keeps beforehand, or declare "
    "outputs=[TensorSpec(shape, dtype), ...] of a task"
)
"""What a tensor without data is that a function still has when it is called with data."""


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
    """Replace every `Slot` in nested lists, tuples and dicts by its value, every `Operation` by what it returns.

    Example:
        >>> fill(([Slot(1), Slot(0)], 2), ["a", "b"])
        (['b', 'a'], 2)
        >>> fill([Operation("math.neg", lambda x: -x, (Slot(0),))], [3])
        [-3]
    """
    if isinstance(template, Slot):
        return values[template.index]
    if isinstance(template, Operation):
        assert template.function is not None
        return template.function(*fill(template.args, values), **fill(template.kwargs, values))
    if isinstance(template, (list, tuple)):
        return like(template, (fill(t, values) for t in template))
    if isinstance(template, Mapping):
        return {k: fill(t, values) for k, t in template.items()}
    return template


def like(sequence: Any, items: Iterable[Any]) -> Any:
    """`items` as a list, tuple or named tuple of the type of `sequence`."""
    kind = type(sequence)
    return kind(items) if kind is list or kind is tuple else getattr(kind, "_make", kind)(items)


def returned_tensors(result: Any) -> list[Any]:
    """The tensors of a function's result: None, a tensor, or a list or tuple of tensors; None in it is left out.

    Raises:
        SignatureError: The result holds something else.
    """
    import torch

    results = [thing for thing in (result if isinstance(result, (list, tuple)) else [result]) if thing is not None]
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
    from torch.utils.flop_counter import FlopCounterMode

    written: list[Any] = []
    with (
        for_once(fake_mode()),
        FlopCounterMode(display=False) as counter,
        _recorder(written),
        _quiet(),
    ):
        fakes = [torch.empty_strided(s.shape, s.stride or _contiguous(s.shape), dtype=getattr(torch, s.dtype))
                 for s in specs]  # fmt: skip
        results = returned_tensors(function(*fill(args, fakes), **fill(kwargs, fakes)))
    storages = [_storage(f) for f in fakes]
    changed = {_storage(t) for t in written}
    return Inferred(
        outputs=tuple(TensorSpec.of(r) for r in results),
        aliases=tuple(storages.index(_storage(r)) if _storage(r) in storages else None for r in results),
        updated=tuple(i for i, storage in enumerate(storages) if storage in changed),
        flops=int(counter.get_total_flops()),
    )


def fake_mode() -> Any:
    """A mode whose tensors have no data, and take others beside them until `for_once` is over."""
    return _fake_modes()(allow_non_fake_inputs=True)


@contextlib.contextmanager
def for_once(mode: Any) -> Iterator[None]:
    """Within this `mode`; whoever keeps one of its tensors and computes with it later raises `SignatureError`."""
    try:
        with mode:
            yield
    finally:
        mode.over = True


@functools.cache
def _fake_modes() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    class Fakes(FakeTensorMode):  # type: ignore[no-untyped-call]
        over = False

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if self.over:
                raise SignatureError(f"it computes with a tensor {LEFT_BEHIND}")
            return as_kernels_return(func, args, super().__torch_dispatch__(func, types, args, kwargs or {}))

    return Fakes


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch from logging a traceback for an error that is reported here in a few lines."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _storage(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)


def _recorder(written: list[Any]) -> Any:
    """A mode that appends to `written` every tensor that an operation changes in place, by any alias of it."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            written.extend(written_tensors(func, args, kwargs or {}))
            return func(*args, **(kwargs or {}))

    return Recorder()  # type: ignore[no-untyped-call]


_FUSED = "aten::_fused_"  # optimisers' steps: they change the gradients only to take a scale from them
_BATCH_NORMS = ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm")  # torch's and our own


def written_tensors(operation: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The tensors that a call of an operator of torch changes in place, by its schema."""
    import torch

    changed: list[Any] = []
    for place, argument in enumerate(operation._schema.arguments):
        given = args[place] if place < len(args) else kwargs.get(argument.name)
        marked = argument.alias_info is not None and argument.alias_info.is_write
        if operation._schema.name.startswith(_FUSED) and argument.name == "grads" and kwargs.get("grad_scale") is None:
            marked = False
        # Their schemas do not say that training changes the running mean and variance.
        unmarked = operation._schema.name.rpartition("::")[2] in _BATCH_NORMS and place in (3, 4) and args[5]
        if marked or unmarked:
            changed += given if isinstance(given, (list, tuple)) else [given]
    return [t for t in changed if isinstance(t, torch.Tensor)]


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))

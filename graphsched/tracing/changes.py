"""Operators that change tensors in place, as a recorder takes them.

A state is changed in place. Any other tensor is replaced by the one that the operator without a change would return;
of a view, in the memory that it looks into.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphsched.errors import TraceError
from graphsched.tracing.aliases import BASE, Origin, Sight, Step, functional
from graphsched.workload import Operation, operation_name

if TYPE_CHECKING:
    from graphsched.tracing.recorder import Call, Recorder


def change(recorder: Recorder, function: Any, args: Any, kwargs: Any, written: list[Any]) -> Any:
    """A call that changes the tensors `written`; what it returns.

    Raises:
        TraceError: Some of them are states and some are not, no operator returns what this one changes, or it changes
            a view of another type.
    """
    sights = [recorder.sight(tensor) for tensor in written]
    states = [sight.memory.now for sight in sights if sight.memory.is_state]
    if len(states) == len(sights):
        call = recorder.record(function, recorder.template(args), recorder.template(kwargs), states)
        result = function(*args, **kwargs)
        _results_in_place(recorder, call, result, sights)
        return result
    if states:
        raise TraceError(f"{function} changes states and other tensors in place: write it out of place")
    return _out_of_place(recorder, function, args, kwargs, written, sights)


def _results_in_place(recorder: Recorder, call: Call, result: Any, sights: list[Sight]) -> None:
    """What an operator returns that has changed states: those themselves, or other results (batch norm's)."""
    results = [r for r in (result if isinstance(result, (list, tuple)) else [result]) if r is not None]
    if call.function._schema.returns and call.function._schema.returns[0].alias_info is not None:
        for tensor, sight in zip(results, sights, strict=True):
            recorder.aliases.same(tensor, sight)
    else:
        recorder.own_results(call, results)


def _out_of_place(
    recorder: Recorder, function: Any, args: Any, kwargs: Any, written: Sequence[Any], sights: Sequence[Sight]
) -> Any:
    """New tensors instead of those that are changed, in the place of the old ones and of all views of them."""
    other = functional(function)
    kept = 0 if _returns_changed(function) else len(function._schema.returns)
    places = function._schema.arguments[len(args) :]
    defaults = {a.name: a.default_value for a in places if a.has_default_value() and not a.kwarg_only}
    given, order = recorder.template(args), _order_drawn(other, written[0])
    if order:
        given = (_permuted(given[0], order), *given[1:])
    call = recorder.record(other, given, defaults | recorder.template(kwargs))
    result = function(*args, **kwargs)
    if kept:
        recorder.own_results(call, result)
    call.outputs += [(Origin(), tensor) for tensor in written]
    for (changed, tensor), sight in zip(call.outputs[kept:], sights, strict=True):
        _put(recorder, _permuted(changed, _back(order)), tensor, sight)
    if result is not None and not kept:
        recorder.aliases.same(result, sights[0])
    return result


def _returns_changed(function: Any) -> bool:
    """Whether an operator returns nothing, or the tensors that it changes."""
    return all(returned.alias_info is not None for returned in function._schema.returns)


def _order_drawn(other: Any, tensor: Any) -> list[int]:
    """Dimensions of `tensor` in the order of memory, where `other` draws in another; empty: it does not."""
    import torch

    order = _order(tensor)
    alike = other is not torch.ops.aten.bernoulli.p or tensor.is_contiguous()
    return [] if alike or not tensor.permute(order).is_contiguous() else order


def _order(tensor: Any) -> list[int]:
    """Dimensions of `tensor` in the order of memory."""
    return sorted(range(tensor.dim()), key=lambda i: -tensor.stride(i))


def _back(order: list[int]) -> list[int]:
    """What puts dimensions in `order` back."""
    return sorted(range(len(order)), key=order.__getitem__)


def _permuted(template: Any, order: list[int]) -> Any:
    import torch

    permute = torch.ops.aten.permute.default
    if order == sorted(order):
        return template
    return Operation(operation_name(permute), permute, (template, order))


def _laid_out(template: Any, owner: Any) -> Any:
    """`template` with the strides of its fake `owner`: operators lay their results out otherwise at times.

    One with gaps is an input, which has its strides in every run.
    """
    import torch

    order, contiguous = _order(owner), torch.ops.aten.contiguous.default
    if not owner.permute(order).is_contiguous():
        return template
    return _permuted(Operation(operation_name(contiguous), contiguous, (_permuted(template, order),)), _back(order))


def _put(recorder: Recorder, changed: Any, tensor: Any, sight: Sight) -> None:
    """`changed` in the memory of `sight`, in the place where `tensor` looks."""
    import torch

    if sight.steps:
        if tensor.dtype != sight.memory.owner.dtype:
            raise TraceError(
                f"a view of type {tensor.dtype} of a tensor of type {sight.memory.owner.dtype} is changed in place: "
                "write it out of place"
            )
        view = list(tensor.shape), list(tensor.stride()), tensor.storage_offset()
        scatter = torch.ops.aten.as_strided_scatter.default
        now = _laid_out(sight.memory.now, sight.memory.owner)
        whole = recorder.record(scatter, (now, changed, *view), {})
        changed = Origin()
        whole.outputs.append((changed, sight.memory.owner))
    sight.memory.now = changed


def turn(recorder: Recorder, function: Any, args: Any, kwargs: Any) -> Any:
    """A call that makes its first argument a view of itself (``unsqueeze_``); that argument.

    Raises:
        TraceError: The tensor gets another memory, or is a state, which would stay turned.
    """
    other, sight = functional(function), recorder.sight(args[0])
    if not other.is_view:
        raise TraceError(f"{function} gives a tensor another memory: make a new tensor instead")
    if args[0] is sight.memory.owner:
        if sight.memory.is_state:
            raise TraceError(
                f"{function} turns a parameter, buffer or tensor from around the step, which the next run would find "
                "turned: take a view of it instead"
            )
        recorder.keep_owner(sight.memory)
    template = (BASE, *recorder.template(args[1:])), recorder.template(kwargs)
    result = function(*args, **kwargs)
    recorder.aliases.view(result, sight, Step(other, *template))
    return result

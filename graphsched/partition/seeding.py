"""Training steps whose gradients are a share of themselves, at no cost.

The backward pass starts from a gradient of 1 with respect to the loss. Started from a share, it makes a share of every
gradient; the first gradient is a constant of the trace, so that no operator is added.

Not modelled: a PyTorch that does not tell function modes of ``torch.autograd.backward`` (``loss.backward()`` it does).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphsched.errors import TraceError
from graphsched.tracing.source import Source
from graphsched.workload import Workload

_NO_SHARE = (
    "a step over shards cannot use gradients of torch.autograd.grad or torch.func but in its loss: call "
    "loss.backward() instead"
)


def with_share(source: Source, share: float) -> Source:
    """`source` with its gradients times `share`; the loss and all other results are what they were.

    Raises:
        TraceError: In the trace that follows: a step takes gradients from ``torch.autograd.grad`` or ``torch.func``,
            other than those that its loss is made of (``create_graph=True``).
    """
    if share == 1:
        return source
    if source.loss is not None:
        return source.again(loss=functools.partial(_seeded_loss, source.loss, share))
    return source.again(function=_seeded(source.function, share))


def traced_part(source: Source, share: float, inputs: Mapping[str, Any]) -> Workload:
    """The step of `source` on a part of its batch, with its gradients times `share`.

    Args:
        source: Of the step of the whole batch.
        share: What the part counts.
        inputs: Those of the part, by name; those that are the whole step's were not cut.

    Raises:
        TraceError: It cannot be traced on fewer rows; the inputs that were cut are named.
    """
    try:
        traced: Workload = with_share(source, share).again(inputs=inputs).trace()
    except TraceError as error:
        cut = [name for name, tensor in inputs.items() if tensor is not source.inputs[name]]
        advice = f"cut as the batch were {', '.join(cut)}: name one that is no batch in whole="
        raise TraceError(f"{error} ({advice})" if cut else str(error)) from error
    return traced


def _seeded_loss(loss: Callable[..., Any], share: float, *tensors: Any) -> Any:
    value = loss(*tensors)
    _seed(value, share)
    return value


def _seeded(function: Callable[..., Any], share: float) -> Callable[..., Any]:
    """`function` with a share for every ``backward()`` in it."""
    import torch

    class Seeded(torch.overrides.TorchFunctionMode):
        def __init__(self) -> None:
            super().__init__()
            self._whole: list[Any] = []  # gradients without a share, of which a loss may be made

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func in (torch.Tensor.backward, torch.autograd.backward):
                return func(**_shared(func, share, args, kwargs))
            reads_whole = bool(self._whole) and self._is_whole(args, kwargs)
            if reads_whole and not torch.is_grad_enabled():
                raise TraceError(_NO_SHARE)
            result = func(*args, **kwargs)
            if func is torch.autograd.grad:
                self._whole += _for_a_loss(result, kwargs)
            elif reads_whole and func is torch.Tensor.detach:
                self._whole.append(result)
            return result

        def _is_whole(self, *given: Any) -> bool:
            known = {id(gradient) for gradient in self._whole}
            return any(id(thing) in known for thing in torch.utils._pytree.tree_leaves(given))

    @functools.wraps(function)
    def seeded(*tensors: Any) -> Any:
        with Seeded():
            return function(*tensors)

    return seeded


def _shared(backward: Callable[..., Any], share: float, args: Any, kwargs: Any) -> dict[str, Any]:
    """What `backward` is called with, by name, with a share of the gradients that it starts from."""
    given: dict[str, Any] = dict(inspect.signature(backward).bind(*args, **kwargs).arguments)
    if "self" in given:
        return given | {"gradient": _share_of(given["self"], given.get("gradient"), share)}
    losses, first = (_several(given.get(name)) for name in ("tensors", "grad_tensors"))
    pairs = zip(losses, first or [None] * len(losses), strict=True)
    return given | {"tensors": losses, "grad_tensors": [_share_of(loss, gradient, share) for loss, gradient in pairs]}


def _several(tensors: Any) -> list[Any]:
    """`tensors`, of which there may be one by itself or none."""
    import torch

    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors or ())


def _share_of(loss: Any, gradient: Any, share: float) -> Any:
    """A share of the `gradient` that a backward pass from `loss` starts from; None, as given, where there is none."""
    import torch

    if gradient is None and loss.requires_grad and loss.numel() == 1:
        gradient = torch.ones_like(loss)
    return None if gradient is None else gradient * share


def _for_a_loss(gradients: Sequence[Any], options: Mapping[str, Any]) -> list[Any]:
    """The `gradients` of ``torch.autograd.grad`` with these options, of which a loss is to be made.

    Raises:
        TraceError: None can be, or, inside of a transform of ``torch.func``, they depend on no parameter.
    """
    from torch._C import _functorch

    found = [gradient for gradient in gradients if gradient is not None]
    for gradient in found:
        inner = gradient
        while _functorch.is_functorch_wrapped_tensor(inner):
            inner = _functorch.get_unwrapped(inner)
        if inner is not gradient and not inner.requires_grad:
            raise TraceError(_NO_SHARE)
    if not options.get("create_graph"):
        raise TraceError(_NO_SHARE)
    return found


def _seed(loss: Any, share: float) -> None:
    if loss.requires_grad:
        loss.register_hook(lambda gradient: gradient * share)

"""Training steps whose gradients are a share of themselves, at no cost.

The backward pass starts from a gradient of 1 with respect to the loss. Started from a share, it makes a share of every
gradient; the first gradient is a constant of the trace, so that no operator is added.

Not modelled: a PyTorch that does not tell function modes of ``torch.autograd.backward`` (``loss.backward()`` it does).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from graphsched.errors import TraceError
from graphsched.tracing.source import Source
from graphsched.workload import Workload


def with_share(source: Source, share: float) -> Source:
    """`source` with its gradients times `share`; the loss and all other results are what they were.

    Raises:
        TraceError: In the trace that follows: a step takes gradients from ``torch.autograd.grad``, other than those
            that its loss is made of (``create_graph=True``).
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
            self._losses: list[Any] = []  # each is seeded once, however often the backward pass goes through it

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func is torch.autograd.grad and not kwargs.get("create_graph"):
                raise TraceError("a step over shards cannot use torch.autograd.grad: call loss.backward() instead")
            if func in (torch.Tensor.backward, torch.autograd.backward):
                for loss in args[:1] if isinstance(args[0], torch.Tensor) else args[0]:
                    if not any(loss is known for known in self._losses):
                        self._losses.append(loss)
                        _seed(loss, share)
            return func(*args, **kwargs)

    @functools.wraps(function)
    def seeded(*tensors: Any) -> Any:
        with Seeded():
            return function(*tensors)

    return seeded


def _seed(loss: Any, share: float) -> None:
    if loss.requires_grad:
        loss.register_hook(lambda gradient: gradient * share)

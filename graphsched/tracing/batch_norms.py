"""Batch norm in training, as the operators for which each device takes the fastest kernels that it has.

On the CPU autograd calls ``native_batch_norm``, whose kernels for GPUs take longer than those of cuDNN that plain
PyTorch takes there (ResNet-18's step on an H200, as measured by operation: 5.6 of 14.2 ms).
``_batch_norm_with_update`` and ``batch_norm_backward`` choose on each device as plain PyTorch does, and hand a
reserve of their own from one to the other.

The gradient of the input is asked for even where autograd does not want it (a network that begins with batch norm):
without a mask for it some kernels return it and others do not, and a workload returns the same on every device.

A layer with ``momentum=None`` takes the mean over all batches; the share of a new one is computed from the counting
buffer in the workload, where PyTorch reads the count as a number. Statistics that are no states (those of instance
norm) change out of place.

Not modelled: the bytes of that reserve, which are none on the CPU and few on GPUs; batch norm without weight or running
statistics, which stays as it is.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from graphsched.tracing.aliases import Origin
from graphsched.tracing.changes import change
from graphsched.workload import keeping_single

if TYPE_CHECKING:
    from graphsched.tracing.recorder import Recorder


class BatchNorms:
    """Those of one trace."""

    def __init__(self) -> None:
        self._reserves: dict[Origin, Any] = {}  # by the mean that the forward call saved

    def call(self, recorder: Recorder, function: Any, args: Any) -> Any:
        """What `function` returns, if it is one of them and was recorded as its operator for all devices; else None."""
        import torch

        if function is torch.ops.aten.native_batch_norm.default:
            return self._forward(recorder, function, args)
        if function is torch.ops.aten.native_batch_norm_backward.default:
            return self._backward(recorder, function, args)
        return None

    def _forward(self, recorder: Recorder, function: Any, args: Any) -> Any:
        import torch

        statistics = args[3:5]
        if not args[5] or any(tensor is None for tensor in statistics):
            return None
        memories = [recorder.sight(tensor).memory for tensor in statistics]
        if not all(memory.is_state for memory in memories):
            return change(recorder, torch.ops.aten._native_batch_norm_legit.default, args, {}, list(statistics))
        if args[1] is None:
            return None
        given = recorder.template((*args[:5], *args[6:]))
        other = keeping_single(torch.ops.aten._batch_norm_with_update.default, args)
        call = recorder.record(other, given, {}, [memory.now for memory in memories])
        result = keeping_single(function, args)(*args)
        reserve = torch.empty(0, dtype=torch.uint8)
        recorder.own_results(call, [*result, reserve])
        self._reserves[call.outputs[1][0]] = reserve
        return result

    def _backward(self, recorder: Recorder, function: Any, args: Any) -> Any:
        import torch

        mask = args[9]
        reserve = None if args[5] is None else self._reserves.get(recorder.sight(args[5]).memory.now)
        function = keeping_single(function, args)
        if reserve is None:
            args = (*args[:9], [True, *mask[1:]])
            call = recorder.record(function, recorder.template(args), {})
        else:
            args = (*args[:9], [True] * len(mask))
            other = keeping_single(torch.ops.aten.batch_norm_backward.default, args)
            call = recorder.record(other, recorder.template((*args, reserve)), {})
        result = function(*args)
        recorder.own_results(call, result)
        return result


@contextlib.contextmanager
def counted(modules: Iterable[Any]) -> Iterator[None]:
    """Layers of `modules` without a momentum take the share of a batch from a tensor in the block."""
    from torch.nn.modules.batchnorm import _BatchNorm

    found = {id(inner): inner for module in modules for inner in module.modules() if isinstance(inner, _BatchNorm)}
    layers: list[Any] = [inner for inner in found.values() if inner.momentum is None and "forward" not in vars(inner)]
    for layer in layers:
        layer.forward = functools.partial(_normed, layer, layer.forward)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def _normed(layer: Any, forward: Any, x: Any) -> Any:
    """What `forward` of `layer` gives for `x`; in training the statistics of all batches get those of one added."""
    import torch

    if not layer.training or layer.running_mean is None:
        return forward(x)
    layer._check_input_dim(x)
    layer.num_batches_tracked.add_(1)
    mean, variance = torch.zeros_like(layer.running_mean), torch.zeros_like(layer.running_var)
    result = torch.nn.functional.batch_norm(x, mean, variance, layer.weight, layer.bias, True, 1.0, layer.eps)
    for state, statistic in ((layer.running_mean, mean), (layer.running_var, variance)):
        state.lerp_(statistic, layer.num_batches_tracked.to(state.dtype).reciprocal())
    return result

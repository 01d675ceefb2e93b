"""What a training step takes on one GPU, estimated operation by operation without running it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

import graphsched as gs
from graphsched.estimates import LAUNCH_S


@dataclass(frozen=True)
class StepEstimate:
    """Forward and backward of one batch.

    Attributes:
        seconds: Of both.
        ready: (Seconds from the start, bytes) of each gradient, in the order in which they are there.
    """

    seconds: float
    ready: tuple[tuple[float, int], ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all gradients."""
        return sum(nbytes for _, nbytes in self.ready)

    def buckets(self, count: int) -> list[float]:
        """When each of `count` buckets of equal bytes is complete, whichever gradients it holds, in seconds.

        Example:
            >>> StepEstimate(4.0, ((2.0, 30), (3.0, 10), (4.0, 40))).buckets(2)
            [3.0, 4.0]
        """
        found, held = [], 0
        for ready_s, nbytes in self.ready:
            held += nbytes
            while len(found) < count and held * count >= (len(found) + 1) * self.nbytes:
                found.append(ready_s)
        return found

    def with_sums(self, sum_s: float, buckets: int) -> float:
        """Seconds of the step where the sum of each bucket takes `sum_s`, one after another as they are complete.

        Example:
            >>> StepEstimate(4.0, ((2.0, 30), (3.0, 10), (4.0, 40))).with_sums(0.5, 2)
            4.5
        """
        end_s = 0.0
        for ready_s in self.buckets(buckets):
            end_s = max(end_s, ready_s) + sum_s
        return max(end_s, self.seconds)


class _Clock(TorchDispatchMode):
    """Adds up the estimate of every operation: arithmetic or memory, whichever takes longer, and a launch."""

    def __init__(self, device: gs.Device) -> None:
        super().__init__()
        self.seconds = 0.0
        self._device = device

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if not any(made.alias_info is not None and not made.alias_info.is_write for made in func._schema.returns):
            count = flop_registry.get(func._overloadpacket)
            flops = count(*args, **kwargs, out_val=out) if count else 0
            moved = sum(leaf.nbytes for leaf in tree_leaves((args, kwargs, out)) if isinstance(leaf, Tensor))
            device = self._device
            self.seconds += max(flops / device.flop_per_s, moved / device.bytes_per_s) + LAUNCH_S[device.kind]
        return out


def estimated_step(network: Callable[[], nn.Module], shape: tuple[int, ...], device: gs.Device) -> StepEstimate:
    """The estimate of a step of `network` on a batch of `shape`, by the rule of `graphsched.estimates`."""
    ready: list[tuple[float, int]] = []
    with torch.device("meta"):
        net, x = network(), torch.empty(shape)
        with _Clock(device) as clock:
            for parameter in net.parameters():
                parameter.register_post_accumulate_grad_hook(lambda p: ready.append((clock.seconds, p.nbytes)))
            net(x).sum().backward()
    return StepEstimate(clock.seconds, tuple(ready))

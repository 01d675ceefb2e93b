"""Data-parallel training from scratch, as the text does it: the whole network on each device, gradients summed on one.

Each device computes the gradients of its part of the batch. When all have them, each parameter's are summed on the
first device and the sum is sent back to the others, one parameter after the other; then every device updates its own
parameters.

Source: d2l.ai 12.5.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from models.lenet import lenet

Params = list[Tensor]


def get_params(params: Sequence[Tensor], device: str) -> Params:
    """A copy of `params` on `device`, with gradients asked for.

    Example:
        >>> get_params([torch.ones(2)], "cpu")
        [tensor([1., 1.], requires_grad=True)]
    """
    return [param.detach().to(device, copy=True).requires_grad_() for param in params]


def allreduce(tensors: Sequence[Tensor]) -> None:
    """Sum `tensors`, one a device, on the first one's device, and put the sum into all of them.

    Example:
        >>> parts = [torch.ones(2), 2 * torch.ones(2), 3 * torch.ones(2)]
        >>> allreduce(parts)
        >>> parts
        [tensor([6., 6.]), tensor([6., 6.]), tensor([6., 6.])]
    """
    total, *others = tensors
    for other in others:
        total += other.to(total.device)
    for other in others:
        other.copy_(total)


def split_batch(x: Tensor, y: Tensor, devices: Sequence[str]) -> tuple[list[Tensor], list[Tensor]]:
    """Rows of `x` and of `y`, part i on ``devices[i]``, as even as can be.

    Example:
        >>> x, y = split_batch(torch.rand(5, 1), torch.arange(5), ["cpu", "cpu"])
        >>> [part.tolist() for part in y]
        [[0, 1, 2], [3, 4]]
    """

    def parts(whole: Tensor) -> list[Tensor]:
        cut = whole.tensor_split(len(devices))
        return [part.to(device, non_blocking=True) for part, device in zip(cut, devices, strict=True)]

    return parts(x), parts(y)


def sgd(params: Params, lr: float, batch: int) -> None:
    """Change `params` by their gradients, sums over `batch` images, and forget these."""
    with torch.no_grad():
        for param in params:
            assert param.grad is not None
            param -= lr * param.grad / batch
            param.grad.zero_()


def train_batch(
    x: Tensor, y: Tensor, device_params: Sequence[Params], devices: Sequence[str], lr: float
) -> list[tuple[Tensor, Tensor]]:
    """One step on the batch `x`, `y`, which lies on the host.

    Args:
        x: Images (batch, 1, 28, 28).
        y: Labels (batch,).
        device_params: The parameters of LeNet on each device, equal before and after.
        devices: Where they are.
        lr: Learning rate of the mean of the losses.

    Returns:
        From each device the sum of the losses of its part, and the scores (rows, 10), before the step.
    """
    results = []
    for images, labels, params in zip(*split_batch(x, y, devices), device_params, strict=True):
        scores = lenet(images, params)
        results.append((functional.cross_entropy(scores, labels, reduction="sum"), scores))
    for loss, _ in results:
        loss.backward()
    with torch.no_grad():
        for same in zip(*device_params, strict=True):
            allreduce([param.grad for param in same if param.grad is not None])
    for params in device_params:
        sgd(params, lr, len(x))
    return results

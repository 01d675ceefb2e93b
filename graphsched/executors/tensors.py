"""Tensors that a program is made of: new ones as they are specified, and what is put into them."""

from __future__ import annotations

import ctypes
import functools
import math
from typing import Any

from graphsched.executors.lanes import is_cuda
from graphsched.workload import TensorSpec

TORCH_ALONE, ONE_THREAD_BYTES = 2**15, 2**21


def torch_device(name: str) -> Any:
    """Torch's device for a platform's: workers compute in host memory.

    Example:
        >>> torch_device("worker:1")
        device(type='cpu')
    """
    import torch

    return torch.device(name if is_cuda(name) else "cpu")


def new_tensor(spec: TensorSpec, device: str, *, pinned: bool = False) -> Any:
    """An uninitialised tensor of this specification; contiguous if its elements would overlap (expanded ones)."""
    import torch

    dtype, where = getattr(torch, spec.dtype), torch_device(device)
    make = functools.partial(torch.empty, dtype=dtype, device=where, pin_memory=pinned)
    reach = extent(spec)
    if spec.stride is None or reach is None:
        return make(spec.shape)
    return make(reach).as_strided(spec.shape, spec.stride)


def extent(spec: TensorSpec) -> int | None:
    """Elements from a tensor's first to its last; None where several lie in one place.

    Example:
        >>> extent(TensorSpec((2, 3), stride=(1, 2))), extent(TensorSpec((2, 3), stride=(1, 4)))
        (6, 10)
        >>> extent(TensorSpec((2, 3), stride=(0, 1)))
    """
    if spec.stride is None or not spec.nbytes:
        return math.prod(spec.shape)
    reach = 0
    for stride, size in sorted(zip(spec.stride, spec.shape, strict=True)):
        if size > 1 and stride <= reach:
            return None
        reach += (size - 1) * stride
    return reach + 1


def copied(spec: TensorSpec) -> TensorSpec:
    """What a copy of such a tensor is: like torch's own copies it keeps strides that leave no gaps.

    Example:
        >>> str(copied(TensorSpec((2, 3), stride=(1, 2)))), str(copied(TensorSpec((2, 3), stride=(1, 4))))
        ('float32[2,3]@(1,2)', 'float32[2,3]')
    """
    dense = extent(spec) == math.prod(spec.shape)
    return spec if dense else TensorSpec(spec.shape, spec.dtype)


def put(target: Any, given: Any) -> None:
    """Copy `given` into a buffer of its shape; up to some size on the host by this thread alone.

    Torch copies more than `TORCH_ALONE` elements there with several threads, which take longer to wake than one takes
    to copy.
    """
    one = given.numel() > TORCH_ALONE and given.nbytes <= ONE_THREAD_BYTES and given.dtype == target.dtype
    if one and _on_host(given) and _on_host(target):
        ctypes.memmove(target.data_ptr(), given.data_ptr(), given.nbytes)
    else:
        target.copy_(given.detach())


def _on_host(tensor: Any) -> bool:
    """Whether the numbers lie in host memory one behind the other, as they are."""
    import torch

    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.device.type == "cpu"
    return plain and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg())

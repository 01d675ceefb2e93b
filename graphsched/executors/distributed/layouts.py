"""How the bytes of a tensor lie where they are sent from and where they arrive."""

from __future__ import annotations

from typing import Any

from graphsched.executors.tensors import copied, new_tensor
from graphsched.plan import Copy
from graphsched.workload import TensorSpec


def layout_of(copy: Copy) -> TensorSpec:
    """What arrives: a tensor without gaps."""
    assert copy.read.value.spec is not None
    return copied(copy.read.value.spec)


def flat_bytes(tensor: Any) -> Any:
    """The bytes of a tensor without gaps as they lie in its memory, a view; one without elements has one byte.

    Example:
        >>> import torch
        >>> flat_bytes(torch.arange(6, dtype=torch.int16).view(2, 3).t()).shape
        torch.Size([12])
    """
    import torch

    if not tensor.numel():
        return torch.zeros(1, dtype=torch.uint8, device=tensor.device)
    return tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)


def laid_out(tensor: Any, layout: TensorSpec, device: str) -> Any:
    """`tensor` in this layout on `device`, as it is where it lies so."""
    import torch

    meant = new_tensor(layout, "cpu").stride() if layout.stride is not None else None
    plain = not (tensor.is_conj() or tensor.is_neg()) and tensor.device == torch.device(device)
    if plain and (tensor.is_contiguous() if meant is None else tensor.stride() == meant):
        return tensor
    return new_tensor(layout, device).copy_(tensor)

"""Tensors by shape, element type and strides."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from graphsched.errors import WorkloadError

ITEM_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "uint16": 2, "int16": 2, "float16": 2, "bfloat16": 2,
    "uint32": 4, "int32": 4, "float32": 4, "complex32": 4,
    "uint64": 8, "int64": 8, "float64": 8, "complex64": 8,
    "complex128": 16,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Shape, element type and strides of a tensor; needs no torch.

    Attributes:
        shape: Sizes, in elements.
        dtype: Torch's name of the element type, without ``torch.``.
        stride: Strides in elements; None means contiguous.

    Example:
        >>> TensorSpec((4, 8)).nbytes
        128
        >>> str(TensorSpec((4, 8), "float16", (1, 4)))
        'float16[4,8]@(1,4)'
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    stride: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _sizes("shape", self.shape))
        if self.dtype not in ITEM_BYTES:
            raise WorkloadError(f"unknown element type {reprlib.repr(self.dtype)}: one of {', '.join(ITEM_BYTES)}")
        if any(n < 0 for n in self.shape):
            raise WorkloadError(f"negative size in shape {self.shape}")
        if self.stride is not None:
            object.__setattr__(self, "stride", _sizes("stride", self.stride))
            if len(self.stride) != len(self.shape):
                raise WorkloadError(f"stride {self.stride} does not match shape {self.shape}")

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return math.prod(self.shape) * ITEM_BYTES[self.dtype]

    @classmethod
    def of(cls, tensor: Any) -> TensorSpec:
        """The specification of a torch tensor (real or fake)."""
        stride = None if tensor.is_contiguous() else tuple(int(n) for n in tensor.stride())
        return cls(tuple(int(n) for n in tensor.shape), str(tensor.dtype).removeprefix("torch."), stride)

    def __str__(self) -> str:
        text = f"{self.dtype}[{','.join(map(str, self.shape))}]"
        return text if self.stride is None else f"{text}@({','.join(map(str, self.stride))})"


def element_bytes(tensor: Any) -> Any:
    """The bytes of a tensor's elements in the order of indices, as an array of NumPy; where they lie so, a view.

    Example:
        >>> import torch
        >>> element_bytes(torch.arange(4, dtype=torch.uint8).view(2, 2).t())
        array([0, 2, 1, 3], dtype=uint8)
    """
    import torch

    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    flat = plain.as_strided((plain.numel(),), (1,))  # one element counts as contiguous whatever its stride is
    return flat.view(torch.uint8).numpy()


def _sizes(what: str, given: Any) -> tuple[int, ...]:
    """Whole numbers, as torch's sizes are."""
    sizes = tuple(given) if isinstance(given, Iterable) else (math.nan,)
    if any(isinstance(n, (bool, float, str)) for n in sizes):
        raise WorkloadError(f"{what} is {given!r}: a tuple of whole numbers is needed")
    return tuple(int(n) for n in sizes)

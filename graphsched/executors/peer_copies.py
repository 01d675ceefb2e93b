"""Copies between GPUs that have peer access: one call of the CUDA driver on the source's stream.

Torch's own copy makes the source's stream and a stream of the target wait for each other, before the copy
and after it. A plan says itself who waits for whom, and the extra waits do harm: a stream that waits on a GPU
is looked at again only when the GPU's copy engine has finished what it is doing, so a copy that comes to a GPU
waited for another that left it.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from graphsched.errors import ExecutionError
from graphsched.executors.cuda_driver import check

CopyBytes = Callable[[int, int, int, int], None]
"""Copies (to address, from address, bytes, stream) asynchronously."""


@functools.cache
def driver_copy() -> CopyBytes:
    """``cuMemcpyAsync`` of the CUDA driver; it finds out by the addresses where they are.

    Raises:
        ExecutionError: There is no CUDA driver here.
    """
    try:
        call = ctypes.CDLL("libcuda.so.1").cuMemcpyAsync
    except (OSError, AttributeError) as error:
        raise ExecutionError(f"copies between GPUs need the CUDA driver's library: {error}") from error
    call.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    call.restype = ctypes.c_int

    def copy(target: int, source: int, nbytes: int, stream: int) -> None:
        check(call(target, source, nbytes, stream), "cuMemcpyAsync")

    return copy


@functools.cache
def allow_access(source: str, target: str) -> None:
    """Let torch give `source` access to the memory of `target`, CUDA devices by name: its first copy does."""
    import torch

    torch.empty(1, device=source).to(target)
    torch.cuda.synchronize(source)


def is_plain(tensor: Any) -> bool:
    """Whether the tensor's elements lie in its memory as they are, without gaps and in order."""
    return bool(tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg())

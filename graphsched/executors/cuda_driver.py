"""Calls of the CUDA driver that torch does not make for us: nodes of graphs, and kernels that the driver compiles.

Not modelled: arguments' types, which are the caller's to give as the driver wants them.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

KERNEL, COPY, FILL = 0, 1, 2  # CUgraphNodeType


def driver_call(name: str, *arguments: Any) -> None:
    """Call function `name` of the driver with ctypes' values.

    Raises:
        RuntimeError: It failed.
        OSError, AttributeError: There is no driver here, or one without the call.
    """
    check(getattr(ctypes.CDLL("libcuda.so.1"), name)(*arguments), name)


def check(status: int, call: str) -> None:
    """Make sure that `status`, which a call of the driver returned, is no error.

    Raises:
        RuntimeError: It is one.
    """
    if status:
        raise RuntimeError(f"CUDA error {status} of {call}: see CUresult in CUDA's documentation")


def launch_call() -> Callable[..., None]:
    """The driver's call that launches a kernel, looked up once for many launches; `cuLaunchKernel` has its arguments.

    Raises:
        OSError, AttributeError: There is no driver here, or one without the call.
    """
    function = ctypes.CDLL("libcuda.so.1").cuLaunchKernel
    function.argtypes = (ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3)

    def call(*arguments: Any) -> None:
        check(function(*arguments), "cuLaunchKernel")

    return call


def listed_nodes(call: str, of: int) -> list[int]:
    """The nodes that a `call` of the driver lists of a graph or node, asked for their number first.

    Raises:
        RuntimeError, OSError, AttributeError: As `driver_call`.
    """
    count = ctypes.c_size_t()
    driver_call(call, ctypes.c_void_p(of), None, ctypes.byref(count))
    if not count.value:
        return []
    found = (ctypes.c_void_p * count.value)()
    driver_call(call, ctypes.c_void_p(of), found, ctypes.byref(count))
    return [node for node in found if node]


def node_kind(node: int) -> int:
    """Kind of a node of a graph: `KERNEL`, `COPY`, `FILL` or another.

    Raises:
        RuntimeError, OSError, AttributeError: As `driver_call`.
    """
    kind = ctypes.c_int()
    driver_call("cuGraphNodeGetType", ctypes.c_void_p(node), ctypes.byref(kind))
    return kind.value


@functools.cache
def loaded_kernel(device: int, ptx: str, name: str) -> int:
    """Kernel `name` of the `ptx`, compiled for CUDA device `device`; what the driver calls a function.

    Raises:
        RuntimeError, OSError, AttributeError: As `driver_call`.
    """
    import torch

    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    with torch.cuda.device(device):
        torch.cuda.synchronize(device)  # a module goes to the current context: make it that of the device
        driver_call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(ptx.encode()))
        driver_call("cuModuleGetFunction", ctypes.byref(kernel), module, ctypes.c_char_p(name.encode()))
    assert kernel.value is not None
    return kernel.value

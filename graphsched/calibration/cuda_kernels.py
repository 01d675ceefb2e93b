"""What an operation launches on a CUDA device, read from a CUDA graph of it.

No profiler is asked: once one has been used, everything that its process launches takes longer, on the host and inside
graphs, until the process ends.

Not modelled: operations that cannot be captured, and a torch before 2.8, which does not show its graphs: their kernels
are unknown. Kernels of one operation that run side by side, whose shares are taken as if they did not.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Any

from graphsched.calibration.cuda_clock import Spinner
from graphsched.calibration.graph_replays import COLD_REPLAYS, HOLD_S, REPLAYS, captured, device_s
from graphsched.calibration.kernels import Launched, kernel_of
from graphsched.costs import Kernel
from graphsched.executors.capture import new_graph, only_captured_streams
from graphsched.executors.cuda_driver import COPY, FILL, KERNEL, driver_call, listed_nodes, node_kind
from graphsched.executors.lanes import stream_pool

CALLS = 2  # in the graph: its first kernel follows the last one of another, as in a plan
STATIC_SHARED_BYTES, REGISTERS = 1, 4  # CUfunction_attribute
CODE_DIGITS = 12
SHARES_S = 1.0  # device time of replays, of one operation, to tell the shares of its kernels


class Params(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2 of the driver's interface."""

    _fields_ = (
        ("func", ctypes.c_void_p),
        *((name, ctypes.c_uint) for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared")),
        *((name, ctypes.c_void_p) for name in ("params", "extra", "kern", "context")),
    )


def launched(call: Callable[[], Any], spinner: Spinner) -> Launched:
    """What a call of an operation launches; one launch of unknown kernels if it does not show that.

    It runs once beforehand, so that all is there which only a first call makes.
    """
    import torch

    stream, kept = stream_pool(spinner.device)[0], list[Any]()
    torch.cuda.synchronize(spinner.device)
    with torch.cuda.stream(stream):
        call()
    torch.cuda.synchronize(spinner.device)
    try:
        graph = captured([stream], partial(_issue, call, kept), new_graph())
        nodes = _nodes(graph)
        kernels = [_kernel(node) for node in nodes[len(nodes) // CALLS :]]
        if not nodes or len(nodes) % CALLS:
            return Launched()
        return Launched(len(kernels), tuple(_shared(kernels, graph, nodes, spinner, stream)))
    except Exception:  # it has run in a stream: what it raises is about the capture, or about memory
        return Launched()


def _issue(call: Callable[[], Any], kept: list[Any]) -> None:
    with only_captured_streams():  # what runs on another would be missing
        kept.extend(call() for _ in range(CALLS))


def _nodes(graph: Any) -> list[int]:
    """Its kernels, copies and fills, as they were captured."""
    nodes = listed_nodes("cuGraphGetNodes", graph.raw_cuda_graph())
    return [node for node in nodes if node_kind(node) in {KERNEL, COPY, FILL}]


def _kernel(node: int) -> Kernel | None:
    """The kernel of a node; None if it is a copy or a fill."""
    if node_kind(node) != KERNEL:
        return None
    found = Params()
    driver_call("cuGraphKernelNodeGetParams_v2", ctypes.c_void_p(node), ctypes.byref(found))
    function = ctypes.c_void_p(found.func)
    if not function:
        driver_call("cuKernelGetFunction", ctypes.byref(function), ctypes.c_void_p(found.kern))
    grid, block = (found.grid_x, found.grid_y, found.grid_z), (found.block_x, found.block_y, found.block_z)
    shared = found.shared + _attribute(STATIC_SHARED_BYTES, function)
    return replace(kernel_of(grid, block, _attribute(REGISTERS, function), shared), code=_code(function))


def _code(function: ctypes.c_void_p) -> str:
    """Digest of a kernel's name; empty where the driver does not tell names, as before CUDA 12.3."""
    name = ctypes.c_char_p()
    with suppress(RuntimeError, AttributeError):
        driver_call("cuFuncGetName", ctypes.byref(name), function)
    return hashlib.sha256(name.value).hexdigest()[:CODE_DIGITS] if name.value else ""


def _attribute(which: int, function: ctypes.c_void_p) -> int:
    value = ctypes.c_int()
    driver_call("cuFuncGetAttribute", ctypes.byref(value), ctypes.c_int(which), function)
    return value.value


def _shared(
    kernels: Sequence[Kernel | None], graph: Any, nodes: Sequence[int], spinner: Spinner, stream: Any
) -> list[Kernel]:
    """`kernels` with their shares of the time: what a replay loses with the nodes that are taken away, last first.

    They go one by one, or in as many parts as `SHARES_S` allows: what a part takes, its nodes take in equal shares.
    """
    if len(kernels) == 1:
        return [kernel for kernel in kernels if kernel]
    size = ceil(len(kernels) / parts(len(kernels), _replay_s(graph, spinner, stream, 1)))
    each_s = [1.0] * len(kernels)
    if size < len(kernels):
        each_s = _taken_away_s(nodes[-len(kernels) :], size, partial(_replay_s, graph, spinner, stream))
    known = [(kernel, seconds) for kernel, seconds in zip(kernels, each_s, strict=True) if kernel]
    total_s = sum(seconds for _, seconds in known)
    return [replace(kernel, share=seconds / total_s) for kernel, seconds in known] if total_s else []


def parts(nodes: int, replay_s: float) -> int:
    """Into how many parts so many nodes can be taken apart in `SHARES_S`, if a replay takes `replay_s` with them.

    Example:
        >>> parts(20, 1e-4), parts(500, 5e-3), parts(8, 0.5)
        (20, 14, 1)
    """
    once_s = (REPLAYS + COLD_REPLAYS) * (HOLD_S + replay_s)
    return max(1, min(nodes, int(SHARES_S / once_s) - 1))  # there is one replay more than parts


def _taken_away_s(nodes: Sequence[int], size: int, replay_s: Callable[[], float]) -> list[float]:
    """Seconds of each of `nodes`, which are taken away `size` at a time."""
    left, before_s, each_s = list(nodes), replay_s(), list[float]()
    while left:
        part, left = left[-size:], left[:-size]
        for node in reversed(part):
            driver_call("cuGraphDestroyNode", ctypes.c_void_p(node))
        after_s = replay_s()
        each_s = [max(0.0, before_s - after_s) / len(part)] * len(part) + each_s
        before_s = after_s
    return each_s


def _replay_s(graph: Any, spinner: Spinner, stream: Any, replays: int = REPLAYS) -> float:
    graph.instantiate()
    return device_s(graph, spinner, stream, replays)

"""Fills in CUDA graphs, made kernels: of memory with one value, which libraries ask the driver for before they sum.

A fill is a node of another kind than a kernel. Where lanes fork and join, one that comes behind a node of another lane
waits longer than a kernel would, and each takes the thread that launches the graph longer. A kernel that writes the
same is put in its place (figures: docs/graph-mode.md).

Not modelled: fills of rows apart, or of parts of words; they stay as they are.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from graphsched.executors.cuda_driver import FILL, driver_call, listed_nodes, loaded_kernel, node_kind

KERNEL = "graphsched_fill"
"""Name of the kernel, as a profiler tells it."""

THREADS, WORDS = 256, 4  # of a block, and for each thread
WORD_BYTES = 4
DEVICE_ORDINAL = 9  # CUpointer_attribute

PTX = f"""\
.version 7.0
.target sm_70
.address_size 64
.visible .entry {KERNEL}(.param .u64 where, .param .u64 words, .param .u32 word)
{{
 .reg .pred %p<2>;
 .reg .b32 %r<6>;
 .reg .b64 %rd<9>;
 ld.param.u64 %rd1, [where];
 ld.param.u64 %rd2, [words];
 ld.param.u32 %r1, [word];
 cvta.to.global.u64 %rd1, %rd1;
 mov.u32 %r2, %ctaid.x;
 mov.u32 %r3, %ntid.x;
 mov.u32 %r4, %tid.x;
 mov.u32 %r5, %nctaid.x;
 cvt.u64.u32 %rd3, %r4;
 mul.wide.u32 %rd4, %r2, %r3;
 add.s64 %rd5, %rd4, %rd3;
 mul.wide.u32 %rd6, %r5, %r3;
NEXT:
 setp.ge.u64 %p1, %rd5, %rd2;
 @%p1 bra DONE;
 shl.b64 %rd7, %rd5, 2;
 add.s64 %rd8, %rd1, %rd7;
 st.global.u32 [%rd8], %r1;
 add.s64 %rd5, %rd5, %rd6;
 bra NEXT;
DONE:
 ret;
}}
"""


class Fill(ctypes.Structure):
    """CUDA_MEMSET_NODE_PARAMS."""

    _fields_ = (
        ("where", ctypes.c_uint64),
        ("pitch", ctypes.c_size_t),
        ("value", ctypes.c_uint),
        ("element_bytes", ctypes.c_uint),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
    )


class Launch(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("arguments", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
    )


def fills_made_kernels(graph: Any) -> int:
    """Put kernels in the place of the fills of `graph`, captured and not yet instantiated; how many.

    Raises:
        OSError, AttributeError: There is no CUDA driver here, or one without these calls.
        RuntimeError: A call of the driver fails.
    """
    raw = graph.raw_cuda_graph()
    fills = [node for node in listed_nodes("cuGraphGetNodes", raw) if node_kind(node) == FILL]
    return sum(_made_kernel(ctypes.c_void_p(raw), node) for node in fills)


def word_of(value: int, element_bytes: int) -> int:
    """The 4 bytes that a fill with elements of `value` writes again and again.

    Example:
        >>> hex(word_of(0x7F, 1)), hex(word_of(0x1234, 2)), hex(word_of(5, 4))
        ('0x7f7f7f7f', '0x12341234', '0x5')
    """
    bits = 8 * element_bytes
    element = value & ((1 << bits) - 1)
    return sum(element << shift for shift in range(0, 8 * WORD_BYTES, bits))


def words_in(where: int, element_bytes: int, width: int, height: int) -> int:
    """How many whole words a fill writes; 0 where it stays one: it has rows, or begins or ends in a word.

    Example:
        >>> words_in(256, 1, 16, 1), words_in(256, 1, 15, 1), words_in(258, 4, 4, 1), words_in(256, 4, 4, 2)
        (4, 0, 0, 0)
    """
    nbytes = element_bytes * width
    plain = height == 1 and not where % WORD_BYTES and not nbytes % WORD_BYTES
    return nbytes // WORD_BYTES if plain else 0


def _made_kernel(raw: ctypes.c_void_p, node: int) -> bool:
    fill = Fill()
    driver_call("cuGraphMemsetNodeGetParams", ctypes.c_void_p(node), ctypes.byref(fill))
    words = words_in(fill.where, fill.element_bytes, fill.width, fill.height)
    if not words:
        return False
    before = listed_nodes("cuGraphNodeGetDependencies", node)
    behind = listed_nodes("cuGraphNodeGetDependentNodes", node)
    made = _new_kernel(raw, before, fill, words)
    try:
        if behind:
            ends = _array([made] * len(behind)), _array(behind), ctypes.c_size_t(len(behind))
            driver_call("cuGraphAddDependencies", raw, *ends)
    except RuntimeError:  # nothing would wait for it
        driver_call("cuGraphDestroyNode", ctypes.c_void_p(made))
        raise
    driver_call("cuGraphDestroyNode", ctypes.c_void_p(node))
    return True


def _new_kernel(raw: ctypes.c_void_p, before: Sequence[int], fill: Fill, words: int) -> int:
    import torch

    device, made = _device_of(fill.where), ctypes.c_void_p()
    where, count = ctypes.c_uint64(fill.where), ctypes.c_uint64(words)
    word = ctypes.c_uint32(word_of(fill.value, fill.element_bytes))
    arguments = (ctypes.c_void_p * 3)(*map(ctypes.addressof, (where, count, word)))
    launch = Launch(loaded_kernel(device, PTX, KERNEL), arguments=ctypes.addressof(arguments))
    launch.grid[:], launch.block[:] = (-(-words // (THREADS * WORDS)), 1, 1), (THREADS, 1, 1)
    with torch.cuda.device(device):
        known = _array(before), ctypes.c_size_t(len(before))
        driver_call("cuGraphAddKernelNode", ctypes.byref(made), raw, *known, ctypes.byref(launch))
    assert made.value is not None
    return made.value


def _device_of(address: int) -> int:
    number = ctypes.c_int()
    driver_call("cuPointerGetAttribute", ctypes.byref(number), ctypes.c_int(DEVICE_ORDINAL), ctypes.c_uint64(address))
    return number.value


def _array(nodes: Sequence[int]) -> Any:
    return (ctypes.c_void_p * len(nodes))(*nodes) if nodes else None

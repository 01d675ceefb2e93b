"""How much faster blocks of a kernel go with fewer of them in flight: on a GPU most of whose multiprocessors are held.

A kernel of ours takes all shared memory of most multiprocessors and waits. Calls of the operation have the rest, a
quarter of those that it uses alone: where a block's time is its own, they take four times as long; where all blocks
share something else, as the memory's bandwidth, they take less. Only kernels are asked of whose blocks a
multiprocessor holds one: of others it is not known what blocks that share a multiprocessor and blocks that do not
would say.

Not modelled: what the multiprocessors that are left have to do with it, in clusters of blocks above all; several
kernels of one operation that differ.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil
from statistics import median
from typing import Any

from graphsched.calibration.cuda_clock import Spinner, elapsed_s
from graphsched.calibration.kernels import RESERVED_SHARED_BYTES
from graphsched.costs import Kernel, Multiprocessors
from graphsched.executors.clocks import new_event
from graphsched.executors.cuda_driver import driver_call, launch_call, loaded_kernel
from graphsched.executors.lanes import stream_pool
from graphsched.simulator.blocks import Shape, held

HOLDER = "graphsched_hold"
"""Name of the kernel that holds multiprocessors, as a profiler tells it."""

PTX = f"""\
.version 7.0
.target sm_70
.address_size 64
.visible .entry {HOLDER}(.param .u64 nanoseconds)
{{
 .reg .pred %p<3>;
 .reg .b64 %rd<6>;
 ld.param.u64 %rd1, [nanoseconds];
 mov.u64 %rd2, %globaltimer;
 add.u64 %rd3, %rd2, %rd1;
 mov.u64 %rd5, 0;
WAIT:
 mov.u64 %rd4, %globaltimer;
 add.u64 %rd5, %rd5, 1;
 setp.ge.u64 %p1, %rd4, %rd3;
 @%p1 bra DONE;
 setp.lt.u64 %p2, %rd5, %rd1;
 @%p2 bra WAIT;
DONE:
 ret;
}}
"""
"""It ends by the GPU's clock, or after a round a nanosecond, whichever is first: each takes several."""

MAX_DYNAMIC_SHARED_BYTES = 8  # CUfunction_attribute
THREADS = 32
PARTS = 4  # of the multiprocessors that it uses alone, of which the operation is left one
WHOLE_S, FEWEST, MOST = 4e-4, 2, 12  # all calls of a sample alone, and their number
MARGIN = 2.0  # of the time that they may take at most on what is left
LATE_S = 1e-5  # behind the holder
HOLD_S, CALL_S = 3e-4, 5e-5  # for the thread to issue a sample, and for each call of it
SAMPLES, COLD = 3, 1
HALVINGS = 40  # of the interval in which the relief lies


def with_reliefs(
    kernels: Sequence[Kernel], processors: Multiprocessors, call: Callable[[], Any], alone_s: float, spinner: Spinner
) -> tuple[Kernel, ...]:
    """`kernels` of an operation, with the relief of those of whose blocks a multiprocessor holds one.

    All as they were where there are no such, where they have fewer blocks than parts, and where nothing can be held.

    Args:
        call: Of the operation.
        alone_s: Device seconds of one.
    """
    left = multiprocessors_left(kernels, processors)
    if not left:
        return tuple(kernels)
    calls = max(FEWEST, min(MOST, ceil(WHOLE_S / max(alone_s, 1e-9))))
    lasting_s = MARGIN * PARTS * calls * alone_s
    try:
        hold = _holder(spinner.device, processors, lasting_s)
    except (RuntimeError, OSError, AttributeError):  # no driver here, or one without these calls
        return tuple(kernels)
    whole_s, few_s = (
        _median_s(call, calls, spinner, _holding(hold, processors.count - free)) for free in (processors.count, left)
    )
    if not lasting_s > few_s > 0.0 < whole_s:
        return tuple(kernels)
    return relieved(kernels, processors, left, few_s / whole_s)


def multiprocessors_left(kernels: Sequence[Kernel], processors: Multiprocessors) -> int:
    """Multiprocessors to leave an operation of these `kernels`; 0 if their relief cannot be measured.

    Example:
        >>> device = Multiprocessors(count=132, registers=65536, threads=2048, shared_bytes=233472, blocks=32)
        >>> [multiprocessors_left([Kernel(n, each, 256, 1024)], device) for n, each in ((128, 53248), (128, 16384))]
        [32, 0]
    """
    single = [kernel for kernel in kernels if held(kernel, processors) == 1 and kernel.blocks >= PARTS and kernel.share]
    return min((min(kernel.blocks, processors.count) // PARTS for kernel in single), default=0)


def relieved(kernels: Sequence[Kernel], processors: Multiprocessors, left: int, longer: float) -> tuple[Kernel, ...]:
    """`kernels` with the relief that explains how many times `longer` their operation takes on the `left` ones.

    Others than those of whose blocks a multiprocessor holds one keep theirs, and all do where these take none of the
    time. It is from the part of the blocks that is in flight there to 1.

    Example:
        >>> device = Multiprocessors(count=8, registers=1, threads=2048, shared_bytes=1, blocks=32)
        >>> [round(relieved([Kernel(8, 1, 32, 0)], device, 2, x)[0].relief, 3) for x in (4.2, 4.0, 2.0, 0.5)]
        [1.0, 1.0, 0.5, 0.25]
    """
    fewer = replace(processors, count=left)
    single = [held(kernel, processors) == 1 for kernel in kernels]
    parts = [_waves(k, fewer).resident / _waves(k, processors).resident for k in kernels]
    if not any(kernel.share for kernel, alone in zip(kernels, single, strict=True) if alone):
        return tuple(kernels)

    def with_relief(relief: float) -> list[Kernel]:
        return [replace(k, relief=relief) if alone else k for k, alone in zip(kernels, single, strict=True)]

    def longer_with(relief: float) -> float:
        there, here = ([_waves(k, device) for k in with_relief(relief)] for device in (processors, fewer))
        ceils = [ceil(k.waves) if alone else k.waves for k, alone in zip(here, single, strict=True)]
        rows = zip(there, ceils, parts, strict=True)
        return sum(k.share * waves * max(k.relief, part) / k.waves for k, waves, part in rows)

    low, high = max(part for part, alone in zip(parts, single, strict=True) if alone), 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if longer_with(middle) < longer else (low, middle)
    return tuple(with_relief(high))


def _waves(kernel: Kernel, processors: Multiprocessors) -> Shape:
    """The kernel with all its waves, however many."""
    resident = min(kernel.blocks, held(kernel, processors) * processors.count)
    return Shape(kernel.blocks, (), resident, kernel.share, kernel.relief)


Hold = Callable[[int, Any], None]
"""Holds so many multiprocessors, behind what a stream has."""


def _holder(device: int, processors: Multiprocessors, seconds: float) -> Hold:
    import torch

    launch, kernel = launch_call(), loaded_kernel(device, PTX, HOLDER)
    shared_bytes = processors.shared_bytes - RESERVED_SHARED_BYTES
    with torch.cuda.device(device):
        driver_call("cuFuncSetAttribute", ctypes.c_void_p(kernel), MAX_DYNAMIC_SHARED_BYTES, shared_bytes)

    def hold(number: int, stream: Any) -> None:
        lasting = ctypes.c_uint64(int(seconds * 1e9))
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(lasting))
        with torch.cuda.device(device):
            launch(kernel, number, 1, 1, THREADS, 1, 1, shared_bytes, stream.cuda_stream, arguments, None)

    return hold


def _holding(hold: Hold, number: int) -> Callable[[Any], None]:
    return lambda stream: hold(number, stream) if number else None


def _median_s(call: Callable[[], Any], calls: int, spinner: Spinner, hold: Callable[[Any], None]) -> float:
    """Device seconds of so many calls while multiprocessors are held; 0 if they cannot be issued in time."""
    samples = [_sample_s(call, calls, spinner, hold) for _ in range(COLD + SAMPLES)]
    return median(samples[COLD:])


def _sample_s(call: Callable[[], Any], calls: int, spinner: Spinner, hold: Callable[[Any], None]) -> float:
    import torch

    holding, working = stream_pool(spinner.device)[:2]
    ready, start, end = new_event(), new_event(timing=True), new_event(timing=True)
    torch.cuda.synchronize(spinner.device)
    with torch.cuda.stream(holding):
        spinner.spin(HOLD_S + calls * CALL_S)
        ready.record(holding)
        hold(holding)
    with torch.cuda.stream(working):
        working.wait_event(ready)
        spinner.spin(LATE_S)
        start.record(working)
        for _ in range(calls):
            call()
        end.record(working)
    in_time = not ready.query()
    torch.cuda.synchronize(spinner.device)
    return elapsed_s(start, end) if in_time else 0.0

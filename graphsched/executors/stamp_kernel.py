"""Stamps: a kernel of one thread that writes down a GPU's clock, in the place of a timing event inside a CUDA graph.

It is loaded by the CUDA driver, which compiles it for the GPU. `plan.stamped` says where it finds room.

Not modelled: GPUs whose clock (PTX's ``globaltimer``) moves in steps of a microsecond and more, as older ones' does.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from graphsched.errors import ExecutionError

KERNEL = "graphsched_stamp"
"""Name of the kernel, as a profiler tells it."""

PTX = f"""\
.version 7.0
.target sm_70
.address_size 64
.visible .entry {KERNEL}(.param .u64 where)
{{
 .reg .b64 %rd<4>;
 ld.param.u64 %rd1, [where];
 cvta.to.global.u64 %rd2, %rd1;
 mov.u64 %rd3, %globaltimer;
 st.global.u64 [%rd2], %rd3;
 ret;
}}
"""

EVENTS = "set graph_stamp_s of the platform to 0, so that timing events take their place"

NBYTES = 8  # of a stamp

Launch = Callable[[int, int], None]
"""Launches a stamp: (address, stream)."""


class StampMemory:
    """Where stamps of one GPU go: so many places for nanoseconds of its clock."""

    def __init__(self, device: int, places: int) -> None:
        """Must be made before a capture.

        Raises:
            ExecutionError: The kernel cannot be loaded.
        """
        self._launch = stamp_launch(device)
        self._tensor = new_places(device, places)
        self._taken = 0

    def stamp(self) -> Stamp:
        """A stamp at the next free place."""
        self._taken += 1
        return Stamp(self, self._taken - 1)

    def write(self, place: int, stream: Any) -> None:
        """Issue the stamp of `place` on `stream`."""
        self._launch(self._tensor.data_ptr() + NBYTES * place, stream.cuda_stream)

    def read(self) -> list[int]:
        """Nanoseconds by place; the GPU must be done."""
        return list(map(int, self._tensor.tolist()))


@dataclass(frozen=True, eq=False)
class Stamp:
    """Stands where a timing event would: each replay writes the GPU's clock to the place again."""

    memory: StampMemory
    place: int

    def record(self, stream: Any) -> None:
        """Put the stamp behind all that `stream` has, and before all that comes."""
        self.memory.write(self.place, stream)


def new_places(device: int, places: int) -> Any:
    """Memory for so many stamps on CUDA device `device`."""
    import torch

    made = torch.zeros(places, dtype=torch.int64, device=f"cuda:{device}")
    torch.cuda.synchronize(device)  # stamps come on other streams
    return made


@functools.cache
def stamp_launch(device: int) -> Launch:
    """The kernel, loaded on CUDA device `device`.

    Raises:
        ExecutionError: There is no CUDA driver here, or it cannot load or launch it.
    """
    import torch

    driver = _driver()
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()

    def launch(address: int, stream: int) -> None:
        number = ctypes.c_uint64(address)
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(number))
        with torch.cuda.device(device):
            _check(driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, None), "cuLaunchKernel")

    try:
        with torch.cuda.device(device):
            torch.cuda.synchronize(device)  # a module goes to the current context: make it that of the device
            _check(driver.cuModuleLoadData(ctypes.byref(module), PTX.encode()), "cuModuleLoadData")
            _check(driver.cuModuleGetFunction(ctypes.byref(kernel), module, KERNEL.encode()), "cuModuleGetFunction")
            first = new_places(device, 1)
            launch(first.data_ptr(), torch.cuda.current_stream(device).cuda_stream)  # what only the first one does
            torch.cuda.synchronize(device)
    except RuntimeError as error:
        raise ExecutionError(f"no stamps on cuda:{device}: {error}: {EVENTS}") from error
    return launch


def _driver() -> Any:
    """The driver's library, its calls declared."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        at = ctypes.POINTER(ctypes.c_void_p)
        driver.cuModuleLoadData.argtypes = (at, ctypes.c_char_p)
        driver.cuModuleGetFunction.argtypes = (at, ctypes.c_void_p, ctypes.c_char_p)
        driver.cuLaunchKernel.argtypes = (ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3)
    except (OSError, AttributeError) as error:
        raise ExecutionError(f"stamps in CUDA graphs need the CUDA driver's library: {error}: {EVENTS}") from error
    return driver


def _check(status: int, call: str) -> None:
    if status:
        raise RuntimeError(f"CUDA error {status} of {call}: see CUresult in CUDA's documentation")

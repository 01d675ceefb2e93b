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
from graphsched.executors.cuda_driver import launch_call, loaded_kernel

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

    def launch(address: int, stream: int) -> None:
        number = ctypes.c_uint64(address)
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(number))
        with torch.cuda.device(device):
            call(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, None)

    try:
        call = launch_call()
        kernel = loaded_kernel(device, PTX, KERNEL)
        first = new_places(device, 1)
        launch(first.data_ptr(), torch.cuda.current_stream(device).cuda_stream)  # what only the first one does
        torch.cuda.synchronize(device)
    except (OSError, AttributeError) as error:
        raise ExecutionError(f"stamps in CUDA graphs need the CUDA driver's library: {error}: {EVENTS}") from error
    except RuntimeError as error:
        raise ExecutionError(f"no stamps on cuda:{device}: {error}: {EVENTS}") from error
    return launch

"""What graph mode asks of torch: captures, the memory and random numbers of graphs, and checks beforehand."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from graphsched.executors.fill_kernel import fills_made_kernels
from graphsched.executors.workspaces import graphs_own
from graphsched.garbage import collector_off

ROOM = 0.5  # of a GPU's memory
MARGIN = 1.25  # times what is needed, for memory is taken in blocks


@contextmanager
def capturing(graph: Any, stream: Any, pool: Any = None) -> Iterator[None]:
    """All that is issued on streams that follow `stream` goes into `graph`; other threads may go on with CUDA.

    Its memory comes from `pool` (default: one of its own), which graphs that are replayed one after the other may
    share; what cuBLAS works in does so too. What a capture that fails has of it is given back, which torch leaves to a
    graph that there is none of.
    The collector rests: a tensor that it found in the middle might record an event that is then never over.
    """
    import torch

    pool, device = new_pool() if pool is None else pool, stream.device.index
    try:
        with torch.cuda.stream(stream), collector_off(), graphs_own():
            graph.capture_begin(pool, capture_error_mode="relaxed")
            try:
                yield
            finally:
                _end(graph)
    except BaseException:
        with suppress(RuntimeError):  # of a pool that is ended: the capture went well, what was in it did not
            torch._C._cuda_endAllocateToPool(device, pool)
            torch._C._cuda_releasePool(device, pool)
        raise


def new_graph() -> Any:
    """An empty graph to capture into, whose nodes can still be changed until `finish`."""
    import torch

    make: Any = torch.cuda.CUDAGraph
    return make(keep_graph=True) if hasattr(make, "instantiate") else make()


def finish(graph: Any) -> None:
    """Make a captured graph ready for its replays, its fills made kernels; one that torch does not keep is ready."""
    if hasattr(graph, "instantiate"):
        with suppress(OSError, AttributeError, RuntimeError):  # fills are as right, only slower
            fills_made_kernels(graph)
        graph.instantiate()


def make_room(needed: Mapping[int, int]) -> None:
    """Give back what torch holds of GPUs for later, if one of these is short of memory: a capture cannot.

    `torch.cuda.graph` does so each time; to take it again then takes longer than the capture.

    Args:
        needed: Bytes by number of the GPU.
    """
    import torch

    for device, nbytes in needed.items():
        free, total = torch.cuda.mem_get_info(device)
        if free < max(ROOM * total, MARGIN * nbytes):
            torch.cuda.empty_cache()
            return


def _end(graph: Any) -> None:
    """The end of a capture does not warn: a graph is empty where its first task fails, or where all only make views."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The CUDA Graph is empty", category=UserWarning)
        graph.capture_end()


def new_pool() -> Any:
    """Memory for graphs on the device where their captures begin."""
    import torch

    return torch.cuda.graph_pool_handle()


def new_memory(device: int) -> Any:
    """Memory for graphs on another `device`; it must live as long as they."""
    import torch

    pool: Any = torch.cuda.MemPool
    with torch.cuda.device(device):
        return pool()


@contextmanager
def taken_from(memory: Any, device: int) -> Iterator[None]:
    """What this thread takes on `device` comes from `memory`."""
    import torch

    with torch.cuda.use_mem_pool(memory, device):
        yield


@contextmanager
def synchronising_refused() -> Iterator[None]:
    """Operations that wait for a GPU, which no capture allows, raise where torch knows them."""
    import torch

    before = torch.cuda.get_sync_debug_mode()
    try:
        with warnings.catch_warnings():  # the first call says that it is a prototype
            warnings.filterwarnings("ignore", message="Synchronization debug mode", category=UserWarning)
            torch.cuda.set_sync_debug_mode("error")
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


@contextmanager
def only_captured_streams() -> Iterator[None]:
    """Where this thread leaves a stream that is not captured by `torch.cuda.stream` or `set_stream`, that raises.

    What was issued on it has run at once, and would be missing in every replay.
    """
    import torch

    switch, thread = torch.cuda.set_stream, threading.get_ident()

    def watched(stream: Any) -> None:
        captured = threading.get_ident() != thread or torch.cuda.is_current_stream_capturing()
        switch(stream)
        if not captured:
            raise RuntimeError(
                "it used a stream that does not follow the lane's: call wait_stream(torch.cuda.current_stream()) "
                "on that stream first, and the other way round afterwards"
            )

    torch.cuda.set_stream = watched
    try:
        yield
    finally:
        torch.cuda.set_stream = switch


def tell_generators(graph: Any, devices: Sequence[int]) -> None:
    """Let every replay of `graph` draw new random numbers on `devices`."""
    import torch

    for device in devices:
        graph.register_generator_state(torch.cuda.default_generators[device])


def free_generators(devices: Sequence[int], stream: Any) -> None:
    """After a capture that failed: an empty one, whose end lets generators draw outside graphs again."""
    import torch

    graph: Any = torch.cuda.CUDAGraph()
    with suppress(RuntimeError):  # of CUDA, which is broken then for good
        tell_generators(graph, devices)
        with capturing(graph, stream, new_pool()):
            pass


def random_states(devices: Sequence[int]) -> dict[int, Any]:
    """Where torch's generators stand: of GPUs by number, and that of the CPU as -1."""
    import torch

    return {-1: torch.get_rng_state(), **{device: torch.cuda.get_rng_state(device) for device in devices}}


def set_random_states(states: dict[int, Any]) -> None:
    """Set generators back."""
    import torch

    for device, state in states.items():
        if device < 0:
            torch.set_rng_state(state)
        else:
            torch.cuda.set_rng_state(state, device)


def settle(devices: Sequence[int]) -> None:
    """Wait until these GPUs are idle."""
    import torch

    for device in devices:
        torch.cuda.synchronize(device)

"""Ways to compute what a network computes: plain PyTorch, as a CUDA graph, by torch.compile, and as a plan.

Not modelled: inputs that change between calls; all ways read the same tensors in place.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

import graphsched as gs
from experiments._cells import Network, as_module
from experiments._shared import lanes_that_fit, threads_of, torch_device
from experiments._side_by_side import Running, Way
from graphsched.executors.workspaces import graphs_own
from graphsched.schedulers import schedulers

COMPILED = ("default", "reduce-overhead")
SPREAD = ("round_robin", "wavefront", "heft")  # schedulers that are told how many lanes to use
FREE = ("one_stream", "streams")  # schedulers that are not

cuda: Any = torch.cuda  # parts of it have no type hints


def plain_ways(net: Network, platform: gs.Platform, device: str, modes: Sequence[str] = COMPILED) -> list[Way]:
    """Plain PyTorch; on a GPU also torch.compile in its `modes`, and a CUDA graph of it on one stream."""
    ways = [Way("plain PyTorch", functools.partial(_plain, net, platform, device))]
    if not device.startswith("cuda"):
        return ways
    ways += [Way(f"torch.compile, {mode}", functools.partial(_compiled, net, device, mode)) for mode in modes]
    return [*ways, Way("one-stream CUDA graph", functools.partial(_captured, net, device))]


def schedulers_there(platform: gs.Platform, device: str, lanes: int) -> dict[str, dict[str, Any]]:
    """Schedulers for one device with their options, as far as they are registered and the device has the lanes."""
    there, fits = schedulers(), lanes_that_fit(platform, device, (lanes,))
    found: dict[str, dict[str, Any]] = {name: {} for name in FREE if name in there}
    return found | {name: {"lanes": lanes} for name in SPREAD if name in there and fits}


def plan_way(plan: gs.Plan, name: str) -> Way:
    """`plan` run by graphsched in its mode."""
    return Way(name, functools.partial(_planned, plan))


def plain_results(net: Network, platform: gs.Platform, device: str) -> list[torch.Tensor]:
    """What plain PyTorch computes, on the CPU."""
    with _plain(net, platform, device) as running:
        running.time_s()
        return list(running.results())


# -- each of them ----------------------------------------------------------------------------------


def _called(device: str, call: Callable[[], Any], last: list[Any]) -> float:
    """Seconds of one call, the device idle before and after; its result replaces the last one."""
    last.clear()
    synchronize(device)
    began = time.perf_counter()
    last.append(call())
    synchronize(device)
    return time.perf_counter() - began


def synchronize(device: str) -> None:
    """Wait until `device` is idle."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def _running(device: str, call: Callable[[], Any]) -> Running:
    last: list[Any] = []
    return Running(functools.partial(_called, device, call, last), lambda: on_cpu(last[0]), call)


def on_cpu(results: Any) -> list[torch.Tensor]:
    """Copies of the results, as a list."""
    several = results if isinstance(results, (list, tuple)) else [results]
    return [tensor.detach().cpu().clone() for tensor in several]


@contextmanager
def _plain(net: Network, platform: gs.Platform, device: str) -> Iterator[Running]:
    call, x = as_module(net, torch_device(device)), net.x.to(torch_device(device))

    def once() -> Any:
        with torch.no_grad(), threads_of(platform, device):
            return call(x)

    yield _running(device, once)


@contextmanager
def _captured(net: Network, device: str) -> Iterator[Running]:
    """A CUDA graph of the plain function, all of it on one stream."""
    call, x = as_module(net, device), net.x.to(device)
    stream = cuda.Stream(device)
    stream.wait_stream(cuda.current_stream(device))
    with torch.no_grad(), cuda.device(device):
        with cuda.stream(stream):
            for _ in range(3):
                call(x)
        synchronize(device)
        graph = cuda.CUDAGraph()
        with graphs_own(), cuda.graph(graph, stream=stream):
            results = call(x)

    def once() -> Any:
        graph.replay()
        return results

    yield _running(device, once)
    synchronize(device)


@contextmanager
def _compiled(net: Network, device: str, mode: str) -> Iterator[Running]:
    """torch.compile; parameters and input stay where they are, so that its CUDA graphs need not copy them."""
    x = net.x.to(device)
    torch._dynamo.mark_static_address(x)
    mark_step: Any = torch.compiler.cudagraph_mark_step_begin
    call: Any = torch.compile(as_module(net, device), mode=mode, fullgraph=True, dynamic=False)

    def once() -> Any:
        mark_step()
        with torch.no_grad():
            return call(x)

    try:
        once()
        yield _running(device, once)
    finally:
        synchronize(device)
        torch._dynamo.reset()


@contextmanager
def _planned(plan: gs.Plan) -> Iterator[Running]:
    with gs.Program(plan) as program:
        yield Running(program.time_once, lambda: on_cpu(list(program.run().values())))

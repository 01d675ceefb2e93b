"""Row 5e: graphs with complex dependencies, faster and still correct."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

import graphsched as gs
from experiments._graphs import diamonds, fan_in, fan_out, plain_values, random_layers
from experiments._shared import check_known, check_sizes, counted, threads_of, torch_device

GRAPHS: Mapping[str, Callable[[Sequence[str], int, int, int], gs.Workload]] = {
    "diamonds": diamonds,
    "fan-out": fan_out,
    "fan-in": fan_in,
    "random-1": functools.partial(random_layers, seed=1),
    "random-2": functools.partial(random_layers, seed=2),
}
ONE_DEVICE = ("sequential", "one_stream")  # they put every task on the first device
SCHEDULERS = (*ONE_DEVICE, "round_robin", "wavefront", "heft", "streams")


@gs.experiment(source="d2l.ai 12.3, exercise 5")
def complex_graph(
    platform: gs.Platform,
    size: int = 2048,
    layers: int = 6,
    width: int = 6,
    graphs: tuple[str, ...] = tuple(GRAPHS),
    schedulers: tuple[str, ...] = SCHEDULERS,
    devices: tuple[int, ...] = (1, 2, 4),
) -> Iterator[gs.Case]:
    """Schedule graphs with complex dependencies, and check that results stay those of plain PyTorch.

    Diamonds, fan-out, fan-in and random layered graphs of products, sums, softmax and relu of
    several sizes. The figure ``max_abs_difference`` of each case compares what its plan returns with
    the same functions called one after the other: 0 is expected.

    Source: d2l.ai 12.3, exercise 5.
    """
    here = platform.accelerators()
    check_known("graph", graphs, GRAPHS)
    check_sizes(size=size, layers=layers, width=width, devices=devices)
    for graph in graphs:
        first = here[:1]
        plain = GRAPHS[graph](first, size, layers, width)
        yield gs.Case(f"{graph}, plain PyTorch, {counted(first)}", baseline=_plain_loop(plain, platform, first[0]))
        for number in devices:
            if number > len(here):
                continue
            used = here[:number]
            work = GRAPHS[graph](used, size, layers, width)
            for scheduler in schedulers:
                if number > 1 and scheduler in ONE_DEVICE:
                    continue
                check = functools.partial(difference, work, platform, scheduler)
                yield gs.Case(f"{graph}, {scheduler}, {counted(used)}", work, scheduler=scheduler, metrics=check)


def difference(work: gs.Workload, platform: gs.Platform, scheduler: str, **options: Any) -> dict[str, float]:
    """The largest difference between the values that a plan returns and those of plain PyTorch."""
    with gs.Program(gs.schedule(work, platform, scheduler=scheduler, **options)) as program:
        returned = {name: value.cpu() for name, value in program.run().items()}
    expected = _plain_loop(work, platform, platform.accelerators(1)[0])()
    worst = max(float((returned[name] - value.cpu()).abs().max()) for name, value in expected.items())
    return {"max_abs_difference": worst}


def _plain_loop(work: gs.Workload, platform: gs.Platform, device: str) -> Callable[[], dict[str, torch.Tensor]]:
    """`work` in plain PyTorch; its inputs are put on `device` by the first call."""
    inputs: dict[str, torch.Tensor] = {}

    def run() -> dict[str, torch.Tensor]:
        if not inputs:
            inputs.update((name, tensor.to(torch_device(device))) for name, tensor in work.tensors.items())
        with torch.no_grad(), threads_of(platform, device):
            return plain_values(work, inputs)

    return run

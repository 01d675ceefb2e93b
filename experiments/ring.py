"""Row 13: the sum of gradients on all devices, by a ring and by other ways."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

import graphsched as gs
from experiments._blocks import draw
from experiments._shared import SEED, check_known, check_sizes, counted, torch_device

WAYS = ("gather", "cpu", "server", "sharded", "ring", "rings", "tree", "halving", "library", "auto")
PIPELINED = ("ring", "rings")


@gs.experiment(source="d2l.ai 12.7.2", pictures=draw)
def ring(
    platform: gs.Platform,
    mbytes: tuple[float, ...] = (1.0, 16.0, 160.0),
    devices: tuple[int, ...] = (1, 2, 3, 4),
    ways: tuple[str, ...] = WAYS,
    blocks: int = 1,
) -> Iterator[gs.Case]:
    """Sum gradients over devices by a ring, two rings, a tree, halving, shares, and in one place.

    What a ring takes does not grow with it, says the text: its time over 2 (k-1)/k, which every device sends of
    the bytes of a gradient, is the same for every number k of devices. A real run adds to each case what the busiest
    device sends (``busiest_sends_bytes``), that over the bytes of a gradient (``busiest_sends_gradients``; 2 (k-1)/k
    with a ring), and how far its sums are from those of plain PyTorch. Beside them stands the text's ``allreduce``,
    in plain PyTorch, and NCCL's, called from one thread as the library of PyTorch is. ``library`` is the same as a task
    of the plan: NCCL on GPUs, Gloo between ranks on CPUs, a plain sum on CPU threads of one process; in eager and
    distributed mode. On one device there is nothing to send: a copy is made.

    Parameters: megabytes (10⁶) of a float32 gradient; numbers of devices; ways (``auto`` chooses the way and its blocks
    by simulation, on GPUs in graph mode); blocks of a ring for each device.

    Source: d2l.ai 12.7.2, which prints no figures; 12.5, ``allreduce``.
    """
    here = platform.accelerators()
    check_known("way", ways, WAYS)
    check_sizes(mbytes=mbytes, devices=devices, blocks=blocks)
    for size in mbytes:
        for k in devices:
            if k > len(here):
                continue
            used = here[:k]
            what = f"{size:g} MB, {counted(used)}"
            yield gs.Case(f"the text's allreduce, {what}", baseline=plain_all_reduce(used, size), group=what)
            if k > 1 and all(platform.device(device).kind == "cuda" for device in used):
                yield gs.Case(f"NCCL, {what}", baseline=nccl_all_reduce(used, size), group=what)
            for way in ways if k > 1 else ways[:1]:
                work = summed(platform, used, size, way, blocks)
                figures = functools.partial(measured, work, platform, used)
                yield gs.Case(
                    f"{way}, {what}",
                    work,
                    scheduler="one_stream",
                    metrics=figures,
                    group=what,
                    optional=way == "cpu",  # which not all hosts of a network have
                )


def gradients(devices: Sequence[str], mbytes: float) -> list[torch.Tensor]:
    """A gradient for each device, parts of one random tensor that begin one element further each.

    All ways to sum so many bytes on so many devices have the same tensor.
    """
    n, k = max(round(mbytes * 1e6 / 4), 1), len(devices)
    shared = _numbers(n + k)
    return [shared[i : i + n] for i in range(k)]


@functools.lru_cache(maxsize=1)  # cases of one size come one after the other, and hold it
def _numbers(count: int) -> torch.Tensor:
    return torch.rand(count, generator=torch.Generator().manual_seed(SEED))


def summed(platform: gs.Platform, devices: Sequence[str], mbytes: float, way: str, blocks: int) -> gs.Workload:
    """Their sum on every device."""
    work = gs.Workload("ring")
    given = zip(devices, gradients(devices, mbytes), strict=True)
    values = [work.input(f"gradient{k}", tensor, device=device) for k, (device, tensor) in enumerate(given)]
    told: dict[str, Any] = {}
    if way == "auto":
        on_gpus = platform.device(devices[0]).kind == "cuda"
        told = {"platform": platform, "mode": "graph" if on_gpus else "eager"}
    if way in PIPELINED:
        told["blocks"] = blocks * len(devices)
    work.keep(*gs.collectives.all_reduce(work, values, algorithm=way, **told))
    return work


def plain_all_reduce(devices: Sequence[str], mbytes: float) -> Callable[[], list[torch.Tensor]]:
    """The text's ``allreduce``; gradients are put on their devices by the first call, and grow with every call."""
    data: list[torch.Tensor] = []

    def run() -> list[torch.Tensor]:
        if not data:
            given = zip(devices, gradients(devices, mbytes), strict=True)
            data.extend(tensor.to(torch_device(device), copy=True) for device, tensor in given)
        for other in data[1:]:
            data[0][:] += other.to(data[0].device)
        for other in data[1:]:
            other[:] = data[0].to(other.device)
        return data

    return run


def nccl_all_reduce(devices: Sequence[str], mbytes: float) -> Callable[[], list[torch.Tensor]]:
    """NCCL's sum into tensors beside the gradients; all are made, and the devices joined, by the first call."""
    data: list[torch.Tensor] = []
    sums: list[torch.Tensor] = []

    def run() -> list[torch.Tensor]:
        if not data:
            given = zip(devices, gradients(devices, mbytes), strict=True)
            data.extend(tensor.to(torch_device(device), copy=True) for device, tensor in given)
            sums.extend(torch.empty_like(tensor) for tensor in data)
        torch.cuda.nccl.all_reduce(data, sums)
        return sums

    return run


def measured(work: gs.Workload, platform: gs.Platform, devices: Sequence[str]) -> dict[str, float]:
    """What the busiest device sends, unless a library does, and the largest difference of a sum to plain PyTorch's."""
    plan = gs.schedule(work, platform, scheduler="one_stream")
    with gs.Program(plan) as program:
        sums = [value.cpu() for value in program.run().values()]
    expected = torch.stack([work.tensors[f"gradient{k}"].double() for k in range(len(devices))]).sum(0)
    sent = Counter[str]()
    for copy in plan.copies.values():
        sent[copy.source] += copy.read.value.nbytes
    found = {"max_abs_difference": max(float((one.double() - expected).abs().max()) for one in sums)}
    if work.collectives:
        return found
    busiest = max(sent.values(), default=0)
    return {
        "busiest_sends_bytes": float(busiest),
        "busiest_sends_gradients": busiest / work.values["gradient0"].nbytes,
        **found,
    }

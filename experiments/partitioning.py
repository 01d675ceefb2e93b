"""Row 7: three ways to split the training step of a network over devices."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import graphsched as gs
from experiments._shared import SEED, check_known, check_sizes, counted
from graphsched.executors import measured_peaks
from graphsched.partition import data_parallel, pipeline, tensor
from graphsched.schedulers import one_lane
from models.alexnet import AlexNet
from models.lenet import LeNet
from models.resnet import resnet18
from models.transformer import RowTransformer

NETWORKS: Mapping[str, Callable[[], nn.Module]] = {
    "LeNet": LeNet,
    "AlexNet": lambda: AlexNet(dropout=0.0),
    "ResNet-18": resnet18,
    "transformer": lambda: RowTransformer(dropout=0.0),
}
WAYS = ("data", "pipeline", "tensor")
SCHEDULER = "one_stream"


@gs.experiment(source="d2l.ai 12.5", needs="2 GPUs")
def partitioning(
    platform: gs.Platform,
    networks: tuple[str, ...] = tuple(NETWORKS),
    ways: tuple[str, ...] = WAYS,
    devices: tuple[int, ...] = (1, 2, 4),
    batch: int = 256,
    micro_batches: int = 4,
) -> Iterator[gs.Case]:
    """Split a training step by its batch, by its layers, and inside its layers.

    A step of SGD on images of 28 × 28 pixels, with a global batch of `batch`: on one device; data parallel, with
    gradients summed while earlier layers are still in backward; as a pipeline of `micro_batches` (one forward, one
    backward in turn); and tensor parallel (dense layers and convolutions split by features and channels). All give
    the same parameters, but for batch normalisation, which data parallel and the pipeline do part by part. The figure
    ``moved_bytes`` is what crosses between devices in a step, ``peak_bytes`` the most memory of a device as predicted,
    ``measured_peak_bytes`` as PyTorch counted it on GPUs. The best of each network is named.

    Source: d2l.ai 12.5, which describes the three and advises data parallelism; it prints no figures.
    """
    check_known("network", networks, NETWORKS)
    check_known("way", ways, WAYS)
    check_sizes(devices=devices, batch=batch, micro_batches=micro_batches)
    for name in networks:
        whole = step(name, batch)
        for count in devices:
            if count > len(platform.accelerators()):
                continue
            on = platform.accelerators(count)
            for way, work in _split(whole, ways, on, micro_batches):
                yield gs.Case(
                    f"{name}, {way}, {counted(on)}",
                    work,
                    scheduler=SCHEDULER,
                    metrics=functools.partial(_figures, work, platform),
                    group=f"{name}, batch {batch}",
                )


def step(name: str, batch: int) -> gs.Workload:
    """A training step of the network `name`, with the same parameters and images every time."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(SEED)
        net = NETWORKS[name]()
        images, labels = torch.rand(batch, 1, 28, 28), torch.randint(0, 10, (batch,))
    sgd = torch.optim.SGD(net.parameters(), lr=0.05)
    return gs.trace(net, images, target=labels, loss=cross_entropy, optimizer=sgd)


def _split(
    whole: gs.Workload, ways: Sequence[str], devices: Sequence[str], micro_batches: int
) -> Iterator[tuple[str, gs.Workload]]:
    """The step on `devices`, by the words of its label."""
    if len(devices) == 1:
        yield "whole", data_parallel(whole, devices)
        return
    if "data" in ways:
        yield "data parallel", data_parallel(whole, devices)
    if "pipeline" in ways:
        yield f"pipeline of {micro_batches}", pipeline(whole, devices, micro_batches=micro_batches)
    if "tensor" in ways:
        yield "tensor parallel", tensor(whole, devices)


def _figures(work: gs.Workload, platform: gs.Platform) -> dict[str, float]:
    """Bytes that a step moves between devices, and the most memory that a device needs, workspaces included."""
    costs = gs.profile(work, platform, mode="graph", concurrency=not one_lane(SCHEDULER))
    plan = gs.schedule(work, platform, costs, scheduler=SCHEDULER)
    moved = [copy.read.value.nbytes for copy in plan.copies.values() if copy.source != copy.target]
    used = {lane.device for lane in plan.lanes}
    peaks = [peak.nbytes for device, peak in plan.peak_memory.items() if device in used and device != "cpu"]
    found = {"moved_bytes": float(sum(moved)), "peak_bytes": float(max(peaks))}
    measured = [peak.nbytes for peak in measured_peaks(plan).values()]
    return found | ({"measured_peak_bytes": float(max(measured))} if measured else {})

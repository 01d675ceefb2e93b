"""Pipelines on worker devices, and plain PyTorch that does the same micro-batches."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import graphsched as gs
from tests.executors.programs import machine

WORKERS = [f"worker:{k}" for k in range(4)]
FOUR_WORKERS = machine(*WORKERS)
Optimizer = Callable[[Any], torch.optim.Optimizer]


class Block(nn.Module):
    """conv -> (norm) -> relu -> conv, added to its input, relu."""

    def __init__(self, channels: int, norm: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels) if norm else nn.Identity()
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv2(torch.relu(self.norm(self.conv1(x)))) + x)


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 5))


def convolutions() -> nn.Module:
    """Like LeNet."""
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(4, 6, 2), nn.ReLU(), nn.Flatten(),
        nn.Linear(24, 8), nn.ReLU(), nn.Linear(8, 5),
    )  # fmt: skip


def residual(norm: bool = False) -> nn.Module:
    """Like ResNet."""
    blocks = [Block(4, norm) for _ in range(3)]
    return nn.Sequential(nn.Conv2d(1, 4, 3, stride=2), *blocks, nn.Flatten(), nn.Linear(36, 5))


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "MLP": perceptron,
    "LeNet-like": convolutions,
    "ResNet-like": residual,
}
OPTIMIZERS: dict[str, Optimizer] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=0.01),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
}


def batch(rows: int = 12, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    images = torch.rand(rows, 1, 8, 8, generator=generator, dtype=dtype)
    return images, torch.randint(0, 5, (rows,), generator=generator)


@functools.cache
def traced(
    make: Callable[[], nn.Module] = perceptron,
    optimizer: Optimizer = OPTIMIZERS["SGD"],
    dtype: torch.dtype = torch.float32,
    rows: int = 12,
) -> gs.Workload:
    """The training step of a network, always the same."""
    torch.manual_seed(3)
    net = make().to(dtype)
    x, y = batch(rows, dtype)
    return gs.trace(net, x, target=y, loss=functional.cross_entropy, optimizer=optimizer(net.parameters()))


def run(work: gs.Workload, steps: int = 1) -> tuple[dict[str, Any], dict[str, Any]]:
    """Results of the last step, and the states after it."""
    plan = gs.schedule(work, FOUR_WORKERS, scheduler="one_stream")
    with gs.Program(plan) as program:
        for _ in range(steps):
            results = program.run()
        return results, program.state()


def plain(work: gs.Workload, steps: int, micro_batches: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Loss and output of the last step, and parameters and buffers after it, of plain PyTorch on a copy."""
    source = work.source
    net, optimizer = copy.deepcopy((source.function, source.optimizers["optimizer"]))
    (x, y), results = source.inputs.values(), {}
    for _ in range(steps):
        optimizer.zero_grad()
        outputs, losses = [], []
        for inputs, labels in zip(x.chunk(micro_batches), y.chunk(micro_batches), strict=True):
            outputs.append(net(inputs))
            losses.append(source.loss(outputs[-1], labels))
            (losses[-1] / micro_batches).backward()
        optimizer.step()
        results = {"loss": torch.stack(losses).mean().detach(), "output": torch.cat(outputs).detach()}
    return results, dict(net.state_dict())

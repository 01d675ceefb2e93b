"""Steps split over workers, beside plain PyTorch that does what DistributedDataParallel does."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import graphsched as gs
from graphsched.partition import split
from tests.executors.programs import machine
from tests.tracing.steps import Optimizer


def workers(k: int) -> list[str]:
    return [f"worker:{i}" for i in range(k)]


def run_split(
    work: gs.Workload, inputs: Mapping[str, Any], shards: int | Sequence[int], steps: int = 1
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Results of the last of `steps` runs on one lane a worker, and the states after it."""
    k = shards if isinstance(shards, int) else len(shards)
    plan = gs.schedule(work, machine(*workers(k)), scheduler="one_stream")
    plan.check()
    with gs.Program(plan) as program:
        for _ in range(steps):
            results = program.run(**split(inputs, shards))
        return results, program.state()


def of_replica(states: Mapping[str, Any], i: int) -> dict[str, Any]:
    """States of replica i by their names in the traced workload."""
    return {name.removeprefix(f"{i}/"): tensor for name, tensor in states.items() if name.startswith(f"{i}/")}


def parameters(states: Mapping[str, Any]) -> dict[str, Any]:
    """Without constants and moments: AdamW's moments of a gradient that should be zero are rounding errors alone."""
    return {name: tensor for name, tensor in states.items() if "/" not in name and not name.startswith("constant")}


def trained_apart(
    net: nn.Module, optimizer: Optimizer, inputs: Mapping[str, Any], sizes: Sequence[int], steps: int = 1
) -> tuple[float, list[dict[str, Any]]]:
    """The loss of the last step and the state of each of len(sizes) copies of `net`.

    Each copy has its own rows and statistics; gradients are means over all rows, summed over the copies in order.
    """
    nets = [copy.deepcopy(net) for _ in sizes]
    steppers = [optimizer(n.parameters()) for n in nets]
    rows = [part.split(list(sizes)) for part in inputs.values()]
    for _ in range(steps):
        losses = []
        for n, size, x, y in zip(nets, sizes, *rows, strict=True):
            n.zero_grad()
            loss = F.cross_entropy(n(x), y) * (size / sum(sizes))
            loss.backward()
            losses.append(loss.item())
        for parameters in zip(*(n.parameters() for n in nets), strict=True):
            total = sum(p.grad for p in parameters)
            for p in parameters:
                p.grad = total.clone()
        for stepper in steppers:
            stepper.step()
    return sum(losses), [{name: tensor.detach() for name, tensor in n.state_dict().items()} for n in nets]


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)


def momentum(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01)


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.001)


def small(rows: int = 7, optimizer: Callable[..., Any] = sgd, **options: Any) -> tuple[gs.Workload, dict[str, Any]]:
    """A step of two dense layers in float64, and its inputs."""
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    x, y = torch.randn(rows, 4).double(), torch.randint(0, 3, (rows,))
    work = gs.trace(net, x, target=y, loss=F.cross_entropy, optimizer=optimizer(net.parameters()), **options)
    return work, {"input": x, "target": y}

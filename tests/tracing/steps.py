"""Traced workloads run on one CPU lane, beside plain PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import graphsched as gs
from tests.executors.programs import by_hand, machine

HERE = machine()
Optimizer = Callable[[Any], torch.optim.Optimizer]


def run(work: gs.Workload, steps: int = 1, **inputs: torch.Tensor) -> tuple[dict[str, Any], dict[str, Any]]:
    """Results of the last of `steps` runs, and the states after it; random numbers start at 7."""
    with gs.Program(by_hand(work, HERE, "cpu/w0")) as program:
        torch.manual_seed(7)
        for _ in range(steps):
            results = program.run(**inputs)
        return results, program.state()


def plain(
    net: nn.Module, optimizer: Optimizer, loss: Callable[..., Any], x: Any, target: Any, steps: int
) -> tuple[torch.Tensor, torch.Tensor, nn.Module]:
    """The same with ordinary PyTorch, on a copy of `net`: loss and output of the last step, and the copy."""
    net = copy.deepcopy(net)
    stepper = optimizer(net.parameters())
    torch.manual_seed(7)
    for _ in range(steps):
        stepper.zero_grad()
        output = net(x)
        value = loss(output, target)
        value.backward()
        stepper.step()
    return value.detach(), output.detach(), net


def worst(found: dict[str, Any], wanted: dict[str, Any]) -> float:
    """Largest difference, as a part of the largest element of each tensor."""
    return max(
        float((found[name] - tensor.detach()).abs().max() / tensor.detach().abs().max().clamp(min=1e-30))
        for name, tensor in wanted.items()
    )

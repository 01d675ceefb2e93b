"""Networks as ordinary PyTorch, and the same operations as workloads built by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

import graphsched as gs
from experiments._shared import SEED

MLP_SIZES = (512, 256, 128, 2)
LENET_SHAPES = {
    "W1": (20, 1, 3, 3), "b1": (20,), "W2": (50, 20, 5, 5), "b2": (50,),
    "W3": (800, 128), "b3": (128,), "W4": (128, 10), "b4": (10,),
}  # fmt: skip


class LeNet(nn.Module):
    """Two convolutions with averages, two dense layers; parameters normal × 0.01, biases zero.

    Source: d2l.ai 12.5, in its functional form.
    """

    def __init__(self) -> None:
        super().__init__()
        for name, shape in LENET_SHAPES.items():
            values = torch.randn(shape) * 0.01 if name.startswith("W") else torch.zeros(shape)
            self.register_parameter(name, nn.Parameter(values))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From images (batch, 1, 28, 28) to (batch, 10)."""
        h = functional.avg_pool2d(torch.relu(torch.conv2d(x, self.W1, self.b1)), 2)
        h = functional.avg_pool2d(torch.relu(torch.conv2d(h, self.W2, self.b2)), 2)
        h = torch.relu(torch.mm(torch.flatten(h, 1), self.W3) + self.b3)
        return torch.mm(h, self.W4) + self.b4


def mlp() -> nn.Module:
    """Three dense layers, 512 → 256 → 128 → 2.

    Source: d2l.ai 12.1.
    """
    first, second, third, last = MLP_SIZES
    return nn.Sequential(
        nn.Linear(first, second), nn.ReLU(), nn.Linear(second, third), nn.ReLU(), nn.Linear(third, last)
    )


def _mlp_tasks(work: gs.Workload, x: gs.Value, given: Mapping[str, gs.Value], device: str) -> None:
    """x ─ linear0 ─ relu1 ─ linear2 ─ relu3 ─ linear4"""
    for layer in (0, 2, 4):
        weights = given[f"{layer}.weight"], given[f"{layer}.bias"]
        x = work.task(functional.linear, x, *weights, name=f"linear{layer}", device=device)
        if layer < 4:
            x = work.task(torch.relu, x, name=f"relu{layer + 1}", device=device)


def _lenet_tasks(work: gs.Workload, x: gs.Value, given: Mapping[str, gs.Value], device: str) -> None:
    """x ─ conv1 ─ relu1 ─ pool1 ─ conv2 ─ relu2 ─ pool2 ─ flat ─ mm3 ─ add3 ─ relu3 ─ mm4 ─ add4"""
    for i in (1, 2):
        x = work.task(torch.conv2d, x, given[f"W{i}"], given[f"b{i}"], name=f"conv{i}", device=device)
        x = work.task(torch.relu, x, name=f"relu{i}", device=device)
        x = work.task(functional.avg_pool2d, x, 2, name=f"pool{i}", device=device)
    x = work.task(torch.flatten, x, 1, name="flat", device=device)
    for i in (3, 4):
        x = work.task(torch.mm, x, given[f"W{i}"], name=f"mm{i}", device=device)
        x = work.task(torch.add, x, given[f"b{i}"], name=f"add{i}", device=device)
        if i == 3:
            x = work.task(torch.relu, x, name="relu3", device=device)


@dataclass(frozen=True)
class Network:
    """A network by name: the module, the shape of one input, and the tasks of a call."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    tasks: Callable[[gs.Workload, gs.Value, Mapping[str, gs.Value], str], None]


NETWORKS = {"MLP": Network(mlp, (MLP_SIZES[0],), _mlp_tasks), "LeNet": Network(LeNet, (1, 28, 28), _lenet_tasks)}


def module(name: str) -> nn.Module:
    """The network `name` with the same parameters every time, on the CPU."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(SEED)
        return NETWORKS[name].make().eval()


def example(name: str, batch: int) -> torch.Tensor:
    """`batch` inputs of the network `name`, the same every time."""
    generator = torch.Generator().manual_seed(SEED)
    return torch.randn((batch, *NETWORKS[name].shape), generator=generator)


def workload(name: str, batch: int, device: str) -> gs.Workload:
    """A call of the network `name` on `device`: its parameters are states, ``x`` is its input."""
    work = gs.Workload("symbolic")
    x = work.input("x", example(name, batch), device=device)
    parameters = module(name).state_dict()
    given = {key: work.state(key, tensor, device=device) for key, tensor in parameters.items()}
    NETWORKS[name].tasks(work, x, given, device)
    return work

"""Networks by name: as modules with the same parameters every time, and traced into workloads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

import graphsched as gs
from experiments._shared import SEED
from models.lenet import LeNet
from models.mlp import mlp


@dataclass(frozen=True)
class Network:
    """A network by name: the module, and the shape of one input."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]


NETWORKS = {"MLP": Network(mlp, (512,)), "LeNet": Network(LeNet, (1, 28, 28))}


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
    """A call of the network `name` on `device`: its parameters are states, its only input is ``x``."""
    x = example(name, batch)
    net = module(name)
    return gs.trace(lambda x: net(x), x, module=net, device=device, name="symbolic")

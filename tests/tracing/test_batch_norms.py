"""Statistics of batch and instance norm that PyTorch keeps with numbers, or beside the states.

x ─ layer ─ norm ─ loss
            └─ mean, variance: states
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graphsched as gs
from tests.tracing.steps import plain, run, worst

X = torch.randn(5, 2, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
Y = torch.randint(0, 3, (5,), generator=torch.Generator().manual_seed(2))
NORMS: dict[str, Callable[[], nn.Module]] = {
    "mean of all batches": lambda: nn.BatchNorm2d(3, momentum=None),
    "mean of all batches, no weight": lambda: nn.BatchNorm2d(3, momentum=None, affine=False),
    "instances": lambda: nn.InstanceNorm2d(3, affine=True, track_running_stats=True),
    "instances, no weight": lambda: nn.InstanceNorm2d(3, track_running_stats=True),
}


def network(norm: str) -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Conv2d(2, 3, 3), NORMS[norm](), nn.ReLU(), nn.Flatten(), nn.Linear(48, 3)).double()


def sgd(parameters: object) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)  # type: ignore[arg-type]


@pytest.mark.parametrize("grain", ["operator", "module"])
@pytest.mark.parametrize("norm", NORMS)
def test_three_steps(norm: str, grain: str) -> None:
    net = network(norm)
    net(X)  # the count does not start at 0
    work = gs.trace(net, X, target=Y, loss=F.cross_entropy, optimizer=sgd(net.parameters()), grain=grain)
    found, states = run(work, steps=3)
    loss, output, stepped = plain(net, sgd, F.cross_entropy, X, Y, 3)
    assert worst(found, {"loss": loss, "output": output}) < 1e-12
    assert worst({**net.state_dict(), **states}, dict(stepped.state_dict())) < 1e-12


@pytest.mark.parametrize("norm", NORMS)
def test_outside_of_training(norm: str) -> None:
    net = network(norm)
    net(X)
    found, states = run(gs.trace(net.eval(), X))
    assert worst(found, {"output": net(X)}) < 1e-12
    assert worst({**net.state_dict(), **states}, dict(net.state_dict())) == 0.0


def test_a_trace_leaves_the_layer_as_it_was() -> None:
    net = network("mean of all batches")
    before = copy.deepcopy(net.state_dict())
    gs.trace(net, X)
    assert "forward" not in vars(net[1])
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())

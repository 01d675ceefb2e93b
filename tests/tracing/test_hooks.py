"""What parameters and modules carry beside their numbers: hooks on gradients, tensors in attributes.

x ─ layers ─ loss ─ gradient ─ hook ─ update
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graphsched as gs
from graphsched.errors import TraceError
from tests.tracing.steps import run, worst

X = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
Y = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def _tripled(parameter: Any) -> None:
    parameter.grad.mul_(3)


HOOKS: dict[str, Callable[[nn.Linear, nn.Linear], object]] = {
    "of a parameter": lambda first, _: first.weight.register_hook(lambda gradient: gradient * 2),
    "two, in their order": lambda first, _: [
        first.weight.register_hook(lambda gradient: gradient * 2),
        first.weight.register_hook(lambda gradient: gradient + 1),
    ],
    "after the gradient": lambda first, _: first.weight.register_post_accumulate_grad_hook(_tripled),
    "of a module": lambda _, last: last.register_full_backward_hook(lambda _, gradients, __: (gradients[0] * 0.5,)),
}


@pytest.mark.parametrize("hook", HOOKS)
def test_hooks_on_gradients(hook: str) -> None:
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    other = copy.deepcopy(net)
    for each in (net, other):
        HOOKS[hook](each[0], each[2])
    sgd, beside = (torch.optim.SGD(each.parameters(), lr=0.1) for each in (net, other))
    _, states = run(gs.trace(net, X, target=Y, loss=F.mse_loss, optimizer=sgd), steps=2)
    for _ in range(2):
        beside.zero_grad()
        F.mse_loss(other(X), Y).backward()
        beside.step()
    assert worst(states, dict(other.named_parameters())) < 1e-12


class Remembers(nn.Module):
    """Adds its last output to its input."""

    def __init__(self, reads: bool) -> None:
        super().__init__()
        self.layer, self.last, self.reads = nn.Linear(4, 4), torch.zeros(6, 4).double(), reads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x + self.last if self.reads else x)
        self.last = y.detach()
        return y


def test_a_tensor_that_an_attribute_keeps_for_the_next_step() -> None:
    """In every run it would be what it was at the trace."""
    net = Remembers(reads=True).double()
    with pytest.raises(TraceError, match=r"reads and assigns 'last' of Remembers.*register_buffer"):
        gs.trace(net, X)
    assert torch.equal(net.last, torch.zeros(6, 4).double())


def test_a_tensor_that_an_attribute_keeps_for_others() -> None:
    net = Remembers(reads=False).double()
    found, _ = run(gs.trace(net, X))
    assert worst(found, {"output": net(X)}) < 1e-12


def test_a_layer_of_torch_that_fails_is_named() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Conv2d(4, 4, 3))).double()
    with pytest.raises(TraceError, match=r"in module '1.0': RuntimeError"):
        gs.trace(net, X)

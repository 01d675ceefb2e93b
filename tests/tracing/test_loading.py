"""States of a traced step back in the network, as docs/tracing.md says.

net ─ trace ─ steps ─ program.state() ─ load_state_dict ─ the outputs of the network that PyTorch has trained
"""

from __future__ import annotations

import copy
import functools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graphsched as gs
from graphsched.partition import data_parallel, pipeline, tensor
from tests.executors.programs import by_hand, machine
from tests.tracing.steps import HERE, Optimizer, plain, run, worst


class Net(nn.Module):
    """A shared weight, batch norm, a layer that the step does not use, and a buffer that no file holds."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 4, bias=False), nn.Linear(4, 4)
        self.two.weight = self.one.weight
        self.norm, self.unused = nn.BatchNorm1d(4), nn.Linear(2, 2)
        self.register_buffer("scale", torch.full((4,), 0.5), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(torch.tanh(self.norm(self.one(x)))) * self.scale


OPTIMIZERS: dict[str, tuple[Optimizer, set[str]]] = {
    "SGD": (functools.partial(torch.optim.SGD, lr=0.05), set()),
    "momentum": (functools.partial(torch.optim.SGD, lr=0.05, momentum=0.9), {"momentum_buffer"}),
    "AdamW": (functools.partial(torch.optim.AdamW, lr=1e-2), {"step", "exp_avg", "exp_avg_sq"}),
}
"""With the keys of what each keeps for a parameter."""


def case() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(3)
    return Net().double(), torch.randn(6, 4, dtype=torch.float64), torch.randn(6, 4, dtype=torch.float64)


def output(net: nn.Module, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """In evaluation, by running statistics."""
    with torch.no_grad():
        return {"output": net.eval()(x)}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_network_computes_what_pytorch_has_trained(optimizer: str) -> None:
    net, x, y = case()
    make, keys = OPTIMIZERS[optimizer]
    _, _, trained = plain(net, make, F.mse_loss, x, y, 3)
    assert worst(output(net, x), output(trained, x)) > 1e-3
    plan = by_hand(
        gs.trace(net.train(), x, target=y, loss=F.mse_loss, optimizer=make(net.parameters())), HERE, "cpu/w0"
    )
    with gs.Program(plan) as program:
        for _ in range(3):
            program.run()
        states = program.state()
        loaded = net.load_state_dict(program.state(), strict=False)
    assert worst(output(net, x), output(trained, x)) < 1e-12
    assert worst(net.state_dict(), trained.state_dict()) < 1e-12
    assert set(loaded.missing_keys) == {"two.weight", "unused.weight", "unused.bias"}
    parameters = {"one.weight", "two.bias", "norm.weight", "norm.bias"}
    kept = {f"{parameter}/{key}" for parameter in parameters for key in keys}
    others = set(loaded.unexpected_keys) - {"scale"} - kept
    assert set(states) >= kept | {"scale"}
    assert others
    assert all(name.startswith("constant") for name in others)


def test_a_program_begins_with_what_the_network_then_holds() -> None:
    """The second program of a plan goes on where the first ended; no program changes the network itself."""
    net, x, y = case()
    make = OPTIMIZERS["SGD"][0]
    _, _, trained = plain(net, make, F.mse_loss, x, y, 4)
    plan = by_hand(gs.trace(net, x, target=y, loss=F.mse_loss, optimizer=make(net.parameters())), HERE, "cpu/w0")
    for _ in range(2):
        before = copy.deepcopy(net.state_dict())
        with gs.Program(plan) as program:
            for _ in range(2):
                program.run()
            assert worst(net.state_dict(), before) == 0.0
            net.load_state_dict(program.state(), strict=False)
    assert worst(net.state_dict(), trained.state_dict()) < 1e-12


def test_a_network_that_has_changed_is_split_again() -> None:
    """By tensor; splits of the batch and by layers begin with what the network then holds."""
    net, devices = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 4)).double(), ["worker:0", "worker:1"]
    x, y = torch.randn(6, 4, dtype=torch.float64), torch.randn(6, 4, dtype=torch.float64)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    work = gs.trace(net, x, target=y, loss=F.mse_loss, optimizer=sgd)
    before = data_parallel(work, devices), pipeline(work, devices, micro_batches=2)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(2)
        wanted = F.mse_loss(net(x), y)
    for split_work in (*before, tensor(work, devices)):
        with gs.Program(gs.schedule(split_work, machine(*devices), scheduler="one_stream")) as program:
            assert worst(program.run(), {"loss": wanted}) < 1e-12


def test_states_of_two_networks_begin_with_the_name_of_theirs() -> None:
    torch.manual_seed(3)
    body, head = nn.Linear(4, 5).double(), nn.Linear(5, 3).double()
    x, y = torch.randn(6, 4, dtype=torch.float64), torch.randn(6, 3, dtype=torch.float64)
    sgd = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        sgd.zero_grad()
        F.mse_loss(head(torch.tanh(body(x))), y).backward()
        sgd.step()

    _, states = run(gs.trace(step, x, y))
    step(x, y)
    trained = nn.ModuleDict({"body": body, "head": head})
    other = nn.ModuleDict({"body": nn.Linear(4, 5), "head": nn.Linear(5, 3)}).double()
    assert not other.load_state_dict(states, strict=False).missing_keys
    assert worst(other.state_dict(), trained.state_dict()) < 1e-12


def test_another_learning_rate_in_another_trace() -> None:
    """Two steps at 0.05, two at 0.01: the second program begins with the states of the first, momentum and all."""
    net, x, y = case()
    _, _, trained = plain(net, functools.partial(Halfway, lr=0.05, momentum=0.9), F.mse_loss, x, y, 4)
    sgd = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    states: dict[str, Any] = {}
    for rate in (0.05, 0.01):
        sgd.param_groups[0]["lr"] = rate
        work = gs.trace(net, x, target=y, loss=F.mse_loss, optimizer=sgd)
        with gs.Program(by_hand(work, HERE, "cpu/w0")) as program:
            program.reset(states)
            for _ in range(2):
                program.run()
            states = program.state()
    net.load_state_dict(states, strict=False)
    assert worst(net.state_dict(), trained.state_dict()) < 1e-12


class Halfway(torch.optim.SGD):
    """Goes on at 0.01 after two steps."""

    taken = 0

    def step(self, closure: Any = None) -> Any:
        self.taken += 1
        if self.taken > 2:
            self.param_groups[0]["lr"] = 0.01
        return super().step(closure)

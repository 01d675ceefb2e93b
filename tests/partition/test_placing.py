from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

import graphsched as gs
from graphsched.errors import WorkloadError
from graphsched.partition.chain import chain_of
from graphsched.partition.pipeline import pipeline
from graphsched.partition.placing import Placing
from tests.partition.pipelines import OPTIMIZERS, WORKERS, plain, residual, run, traced
from tests.tracing.steps import worst

DEVICES = ["worker:0", "worker:1"]


def test_backward_tasks_and_updates_are_with_their_forward_tasks() -> None:
    made = pipeline(traced(residual, OPTIMIZERS["AdamW"]), WORKERS, micro_batches=2)
    homes = {value.name: value.device for value in made.values.values() if value.kind == "state"}
    for task in made.tasks:
        node = made.graph.nodes[task.name]
        assert task.devices == (WORKERS[node["stage"]],)
        if "forward" in node:
            assert task.devices == made[node["forward"]].devices
        if node["phase"] == "update":
            for read in task.reads:
                assert read.value.kind != "state" or homes[read.value.root] == task.devices[0]
    assert {device for name, device in homes.items() if not name.startswith("constant")} == set(WORKERS)


def test_an_update_that_reads_a_gradient_alone_is_with_its_parameter() -> None:
    """maximize: gradient ─ neg ─ add to the parameter, in each stage."""
    ascent = traced(
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1, maximize=True), dtype=torch.float64
    )
    results, states = run(pipeline(ascent, DEVICES, micro_batches=3), steps=2)
    wanted, wanted_states = plain(ascent, steps=2, micro_batches=3)
    assert worst(results, wanted) < 1e-12
    assert worst(states, wanted_states) < 1e-12


def test_stages_of_one_device_may_share_an_update() -> None:
    """Four stages on two devices; one update for all parameters would concern both devices."""
    work = traced(optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1, foreach=True))
    chain = chain_of(work)
    with pytest.raises(WorkloadError, match=r"parameters of stages 0, 1, 2 at once.*foreach=False"):
        Placing(chain, [0, 2, 4, 6, 7], DEVICES)
    assert Placing(chain, [0, 2, 4, 6, 7], DEVICES[:1]).device(3) == "worker:0"


def test_a_constant_of_two_stages_is_there_twice() -> None:
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = torch.tanh(layer(x)) + torch.arange(6.0)
            return x

    net = Shifted()
    x = torch.rand(4, 6)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    work = gs.trace(net, x, target=torch.ones_like(x), loss=functional.mse_loss, optimizer=sgd)
    made = pipeline(work, DEVICES, micro_batches=2)
    constants = {name: v.device for name, v in made.values.items() if v.spec is not None and v.spec.shape == (6,)}
    shifts = {name: device for name, device in constants.items() if name.startswith("constant")}
    assert shifts == {"constant": "worker:0", "constant/worker:1": "worker:1"}


def test_a_state_that_two_stages_change_is_refused() -> None:
    """One batch norm after each of two layers: its running statistics would be changed on both devices."""

    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two, self.norm = nn.Linear(6, 6), nn.Linear(6, 6), nn.BatchNorm1d(6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.two(self.norm(self.one(x))))

    net = Shared()
    x = torch.rand(4, 6)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    work = gs.trace(net, x, target=torch.ones_like(x), loss=functional.mse_loss, optimizer=sgd)
    with pytest.raises(WorkloadError, match=r"stage 1 changes 'norm\.\w+', which lives with stage 0"):
        pipeline(work, DEVICES, micro_batches=2)


def test_a_gradient_that_no_input_changes_is_refused() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    work = gs.trace(net, torch.rand(4, 4), loss=lambda output: output.mean(), optimizer=sgd)
    with pytest.raises(WorkloadError, match=r"gradient of '1\.bias' does not depend on the inputs"):
        pipeline(work, DEVICES, micro_batches=2)

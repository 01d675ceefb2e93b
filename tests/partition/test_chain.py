from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

import graphsched as gs
from graphsched.costs import Costs, TaskCost
from graphsched.errors import WorkloadError
from graphsched.partition.chain import StageMemory, chain_of, pass_seconds


class Skip(nn.Module):
    """x -> one -> tanh -> two -> + -> (loss), and from tanh straight to +. All of (4, 8) floats: 128 bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.one(x))
        return self.two(hidden) + hidden


@pytest.fixture
def work() -> gs.Workload:
    net = Skip()
    x = torch.rand(4, 8)
    adam = torch.optim.AdamW(net.parameters())
    return gs.trace(net, x, target=torch.ones_like(x), loss=functional.mse_loss, optimizer=adam)


LAYERS = ["one/mm", "tanh", "two/mm", "output", "loss"]


def test_layers_are_forward_tasks_with_the_backward_tasks_of_their_gradients(work: gs.Workload) -> None:
    chain = chain_of(work)
    assert list(chain.forward) == LAYERS
    named = {name: chain.forward[layer] for name, layer in chain.layer_of.items() if "backward" in name}
    assert named == {
        "network.backward/mse_loss_backward": "loss",
        "two.backward/mm": "two/mm",
        "two.backward/mm.2": "two/mm",
        "two.backward/add": "two/mm",
        "network.backward/tanh_backward": "tanh",
        "one.backward/mm": "one/mm",
    }


def test_bytes_that_cross_a_cut_go_both_ways(work: gs.Workload) -> None:
    """Before two/mm: tanh forward and the sum of its gradients back; before +: tanh, two/mm and one gradient."""
    assert chain_of(work).crossing_bytes() == [0, 2 * 128, 2 * 128, 3 * 128, 2 * 128]


def test_states_live_with_the_first_layer_that_uses_them(work: gs.Workload) -> None:
    homes = chain_of(work).home_of
    for parameter, layer in (("one.weight", 0), ("two.weight", 2)):
        for name in ("", "/exp_avg", "/exp_avg_sq", "/step"):
            assert homes[parameter + name] == layer
    assert [value.name for value in chain_of(work).gradients] == ["one.backward/mm", "two.backward/mm"]


def test_seconds_of_a_layer_are_those_of_both_passes(work: gs.Workload) -> None:
    chain = chain_of(work)
    assert chain.seconds(dict.fromkeys(chain.layer_of, 1.0)) == [2.0, 2.0, 4.0, 1.0, 2.0]


def test_a_stage_holds_parameters_inputs_and_what_its_backward_tasks_read(work: gs.Workload) -> None:
    memory = StageMemory(chain_of(work), {"x": 1000, "target": 2000})
    held = 4 * 256 + 8  # parameter, gradient, two moments; and the count of steps
    assert memory.nbytes(0, 1, 1) == held + 1000
    assert memory.nbytes(0, 2, 1) == held + 1000 + 128
    assert memory.nbytes(0, 2, 3) == held + 1000 + 3 * 128
    assert memory.nbytes(1, 3, 3) == held + 3 * 128  # both layers read what tanh made
    assert memory.nbytes(3, 5, 2) == 2000 + 4 + 2 * 128  # with the constant that the backward pass begins with


def test_seconds_are_measured_ones_first_then_of_the_whole_batch_then_estimates(work: gs.Workload) -> None:
    part = work.source.again(inputs={name: tensor[:2] for name, tensor in work.source.inputs.items()}).trace()
    tasks = [part[name] for name in LAYERS]
    costs = {(part["loss"].signature, "H200"): TaskCost(5.0), (work["tanh"].signature, "H200"): TaskCost(8.0)}
    other = {(part["loss"].signature, "A100"): TaskCost(7.0)}
    seconds = pass_seconds(tasks, work, 2, Costs(other | costs), "cuda:0")
    assert (seconds["loss"], seconds["tanh"]) == (5.0, 4.0)
    assert 0.0 < seconds["output"] < 1e-3
    assert seconds["output"] == pass_seconds(tasks, work, 2, None, "cuda:3")["output"]


def test_a_forward_task_after_the_update_is_refused() -> None:
    net = nn.Linear(4, 2)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        net(x).square().mean().backward()
        sgd.step()
        return net(x)

    with pytest.raises(WorkloadError, match=r"'output' reads 'bias' after 'update/bias/add'"):
        chain_of(gs.trace(step, torch.rand(4, 4)))


def test_gradients_that_the_step_changes_itself_are_refused() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = net(x).square().mean()
        loss.backward()
        nn.utils.clip_grad_value_(net.parameters(), 0.1)
        sgd.step()
        return loss

    with pytest.raises(WorkloadError, match=r"task 'clamp' reads .*without clipping or scaling in between"):
        chain_of(gs.trace(step, torch.rand(4, 4)))

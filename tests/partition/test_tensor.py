"""Layers split over workers, beside the unsplit network in plain PyTorch.

Two layers in a row, by columns and then by rows, exchange nothing between::

           ┌─ W1[:h/2] ─ relu ─ W2[:, :h/2] ─┐
        x ─┤                                 + ─ y
           └─ W1[h/2:] ─ relu ─ W2[:, h/2:] ─┘
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graphsched as gs
from graphsched.errors import WorkloadError
from graphsched.partition import gathered, tensor
from models.lenet import LeNet
from models.mlp import mlp
from models.resnet import Residual
from models.transformer import EncoderBlock
from tests.executors.programs import machine
from tests.tracing.steps import plain, worst
from tests.tracing.steps import run as run_whole


def workers(k: int) -> list[str]:
    return [f"worker:{i}" for i in range(k)]


def convolutions() -> nn.Sequential:
    """AlexNet in small: grouped convolutions, pools, dropout."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, stride=2),
        nn.Conv2d(8, 12, 3, padding=1, groups=2), nn.ReLU(), nn.MaxPool2d(3, stride=2),
        nn.Conv2d(12, 10, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(10, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 10),
    )  # fmt: skip


def residual() -> nn.Sequential:
    stem = [nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU()]
    return nn.Sequential(
        *stem, Residual(6, 6), Residual(6, 8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)
    )


def encoder() -> nn.Sequential:
    return nn.Sequential(
        nn.Flatten(1, 2), EncoderBlock(12, heads=4, hidden=10, dropout=0.1), nn.Flatten(), nn.Linear(144, 10)
    )


def packed() -> nn.Sequential:
    """PyTorch's own layer: queries, keys and values from one weight."""
    layer = nn.TransformerEncoderLayer(12, 4, 10, 0.0, activation="gelu", batch_first=True)
    return nn.Sequential(nn.Flatten(1, 2), layer, nn.Flatten(), nn.Linear(144, 10))


def flat() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), mlp(144, 11, 9, 10))


NETWORKS = {
    "MLP": flat, "convolutions": convolutions, "residual": residual, "encoder": encoder, "packed": packed,
    "functional": LeNet,
}  # fmt: skip


def momentum(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=0.01)


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.01)


def example(name: str, dtype: torch.dtype = torch.float64) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(3)
    side = 28 if name == "functional" else 12
    return NETWORKS[name]().to(dtype), torch.rand(5, 1, side, side, dtype=dtype), torch.arange(5)


def traced(net: nn.Module, x: Any, y: Any, optimizer: Any = momentum) -> gs.Workload:
    return gs.trace(net, x, target=y, loss=F.cross_entropy, optimizer=optimizer(net.parameters()))


def run(work: gs.Workload, k: int, steps: int = 1) -> tuple[dict[str, Any], dict[str, Any]]:
    """Results of the last of `steps` runs on workers, and the states after it as those of the unsplit workload."""
    plan = gs.schedule(work, machine(*workers(k)), scheduler="one_stream")
    plan.check()
    with gs.Program(plan) as program:
        torch.manual_seed(7)
        for _ in range(steps):
            results = program.run()
        return results, gathered(program.state(), work)


def assert_trains_as(
    net: nn.Module, found: tuple[Mapping[str, Any], Mapping[str, Any]], wanted: Any, near: float
) -> None:
    """Loss, output, parameters and buffers as plain PyTorch's."""
    results, states = found
    loss, output, trained = wanted
    assert list(results) == ["output", "loss"]
    assert worst(results, {"output": output, "loss": loss}) < near
    expected = trained.state_dict()
    assert worst(states, {name: thing.double() for name, thing in expected.items()}) < near
    net.load_state_dict({name: states[name] for name in expected})  # every name, every shape


def moved_bytes(work: gs.Workload) -> int:
    """Of the edges between devices, a value once to each device."""
    at = {task.name: task.devices for task in work.tasks}
    edges = [(at[b], values) for a, b, values in work.graph.edges(data="values") if at[a] != at[b]]
    return sum(work.values[name].nbytes for _, name in {(to, name) for to, values in edges for name in values})


def exchanges(work: gs.Workload, phase: str = "forward") -> list[str]:
    return [
        kind for _, node in work.graph.nodes(data=True) if node["phase"] == phase and (kind := node.get("exchange"))
    ]


@pytest.mark.parametrize(
    ("name", "k", "split"),
    [
        ("MLP", 4, "columns"), ("MLP", 3, "rows"), ("convolutions", 2, "auto"), ("convolutions", 3, "columns"),
        ("convolutions", 4, "rows"), ("residual", 2, "auto"), ("residual", 3, "columns"), ("encoder", 3, "auto"),
        ("encoder", 2, "columns"), ("packed", 2, "auto"), ("functional", 4, "auto"),
    ],
)  # fmt: skip
def test_one_step_equals_that_of_the_unsplit_network(name, k, split):
    net, x, y = example(name)
    before = copy.deepcopy(net.state_dict())
    work = tensor(traced(net, x, y), workers(k), split=split)
    assert {device for task in work.tasks for device in task.devices} == set(workers(k))
    found = run(work, k)
    assert all(torch.equal(net.state_dict()[key], thing) for key, thing in before.items())
    assert_trains_as(net, found, plain(net, momentum, F.cross_entropy, x, y, 1), 1e-12)


@pytest.mark.parametrize(("name", "k", "optimizer"), [("MLP", 3, adamw), ("convolutions", 2, momentum)])
def test_ten_steps_in_single_precision(name, k, optimizer):
    net, x, y = example(name, torch.float32)
    found = run(tensor(traced(net, x, y, optimizer), workers(k)), k, steps=10)
    assert_trains_as(net, found, plain(net, optimizer, F.cross_entropy, x, y, 10), 1e-4)


@pytest.mark.parametrize("optimizer", [momentum, adamw])
def test_moments_go_with_their_parameters(optimizer):
    """An optimiser that has taken a step before: what it keeps is split as it is, and again whole after."""
    net, x, y = example("MLP")
    stepper = optimizer(net.parameters())
    F.cross_entropy(net(x), y).backward()
    stepper.step()
    unsplit = gs.trace(net, x, target=y, loss=F.cross_entropy, optimizer=stepper)
    expected = run_whole(unsplit, steps=2)[1]
    states = run(tensor(unsplit, workers(2)), 2, steps=2)[1]
    assert any("/" in name for name in states)
    assert states.keys() == expected.keys()
    assert worst(states, expected) < 1e-12


def test_columns_then_rows_exchange_nothing_between():
    """x ─ columns ─ relu ─ rows ─ sum: the sum is all that is exchanged, forward and backward."""
    _, x, y = example("MLP")
    net = nn.Sequential(nn.Flatten(), mlp(144, 8, 10)).double()
    work = tensor(traced(net, x, y), workers(2))
    assert exchanges(work) == ["add"]
    assert exchanges(work, "backward") == []
    assert [str(work.values[f"1.2.{i}.weight"].spec) for i in range(2)] == ["float64[10,4]"] * 2
    assert [str(work.values[f"1.0.{i}.weight"].spec) for i in range(2)] == ["float64[4,144]"] * 2


def test_heads_stay_whole():
    """Four heads of three on three devices: six, three and three columns."""
    net, x, y = example("encoder")
    work = tensor(traced(net, x, y), workers(3))
    assert [work.values[f"1.attention.query.{i}.weight"].spec.shape for i in range(3)] == [(6, 12), (3, 12), (3, 12)]
    sums = [kind for kind in exchanges(work) if kind != "clone"]  # clones: what dropout keeps, drawn whole
    assert sums[:4] == ["add"] * 4  # two after attention, two after the dense layers


def test_summands_are_added_in_the_order_of_the_devices():
    net, x, y = example("MLP")
    work = tensor(traced(net, x, y), workers(3))
    sums = [task for task in work.tasks if work.graph.nodes[task.name].get("exchange") == "add"][:2]
    assert [[read.value.name for read in task.reads] for task in sums] == [
        ["1.2.0/addmm", "1.2.1/addmm"],
        [sums[0].name, "1.2.2/addmm"],
    ]
    assert {device for task in sums for device in task.devices} == {"worker:0"}


def test_groups_of_convolutions_read_only_their_own_channels():
    """As AlexNet's halves: nothing is exchanged before the third convolution."""
    net, x, y = example("convolutions")
    work = tensor(traced(net, x, y), workers(2))
    first = next(i for i, (_, node) in enumerate(work.graph.nodes(data=True)) if node.get("exchange"))
    assert [task.name for task in work.tasks[:first]][-1] == "6.1/convolution"
    assert work["3.0/convolution"].operation.args[8] == 1


def test_batch_norm_is_split_with_its_channels():
    net, x, y = example("residual")
    work = tensor(traced(net, x, y), workers(3))
    assert [work.values[f"1.{i}.running_mean"].spec.shape for i in range(3)] == [(2,)] * 3
    assert [work.values[f"1.{i}.running_mean"].device for i in range(3)] == workers(3)


def test_only_named_layers_are_split():
    net, x, y = example("MLP")
    work = tensor(traced(net, x, y), workers(2), layers={"1.2": "rows"})
    states = {value.name for value in work.values.values() if value.kind == "state"}
    assert {"1.0.weight", "1.2.0.weight", "1.2.1.weight", "1.4.weight"} <= states
    assert work.values["1.2.1.weight"].spec.shape == (9, 5)
    assert work.values["1.2.bias"].device == "worker:0"


def test_layers_and_parameters_may_be_called_as_constants_are():
    """Only tensors that no task changes are copied to each device."""

    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.constant = nn.Parameter(torch.randn(8, 6))
            self.constant_too = nn.Linear(8, 3)

        def forward(self, x):
            return self.constant_too(torch.tanh(F.linear(x, self.constant)))

    net, x, y = Named().double(), torch.randn(12, 6).double(), torch.randint(0, 3, (12,))
    work = tensor(traced(net, x, y), workers(2))
    assert {"constant.0", "constant.1", "constant_too.0.weight", "constant_too.1.weight"} <= set(work.values)
    assert_trains_as(net, run(work, 2, steps=2), plain(net, momentum, F.cross_entropy, x, y, 2), 1e-12)


def test_complex_numbers_between_layers():
    """Positions as rotations, and a spectrum: views of complex tensors are of whole ones."""

    class Rotated(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(6, 12), nn.Linear(14, 3)
            self.register_buffer("turns", torch.polar(torch.ones(6), torch.arange(6.0)).to(torch.complex128))

        def forward(self, x):
            turned = torch.view_as_complex(self.one(x).unflatten(1, (6, 2))) * self.turns
            spectrum = torch.fft.rfft(torch.view_as_real(turned).flatten(1))
            return self.two(torch.cat([spectrum.real, spectrum.imag], 1))

    net, x, y = Rotated().double(), torch.randn(5, 6).double(), torch.arange(5) % 3
    work = tensor(traced(net, x, y), workers(2))
    results, states = run(work, 2)
    loss, output, trained = plain(net, momentum, F.cross_entropy, x, y, 1)
    assert worst(results, {"output": output, "loss": loss}) < 1e-12
    assert worst(states, dict(trained.named_parameters())) < 1e-12


def test_functional_networks_are_split_by_names_of_weights():
    net, x, y = example("functional")
    work = tensor(traced(net, x, y), workers(2), layers=["W3", "W4"])
    assert [work.values[f"{name}.1"].spec.shape for name in ("W3", "W4")] == [(800, 64), (64, 10)]
    assert "W1" in work.values


@pytest.mark.parametrize("name", ["functional", "convolutions"])
def test_what_the_forward_pass_has_brought_together_is_used_again(name):
    net, x, y = example(name)
    work = tensor(traced(net, x, y), workers(2), split="columns")
    assert "cat" in exchanges(work)
    assert "cat" not in exchanges(work, "backward")


def test_a_state_is_brought_together_again_after_it_has_changed():
    """Sums of the split weight before and after the step."""
    net, x = nn.Linear(4, 6).double(), torch.rand(3, 4).double()
    stepper = momentum(net.parameters())

    def step(x: torch.Tensor) -> dict[str, torch.Tensor]:
        output = net(x)
        before = net.weight.detach().sum()
        output.square().sum().backward()
        stepper.step()
        return {"before": before, "output": output, "after": net.weight.detach().sum()}

    work = gs.trace(step, x)
    expected = run_whole(work)[0]
    assert expected["before"] != expected["after"]
    results, _ = run(tensor(work, workers(2), split="columns"), 2)
    assert worst(results, expected) < 1e-12


def test_forward_alone_and_in_evaluation():
    net, x, _ = example("residual")
    net.eval()
    work = tensor(gs.trace(net, x), workers(2), split="columns")
    results, states = run(work, 2)
    assert worst(results, {"output": net(x).detach()}) < 1e-12
    assert worst(net.state_dict(), states) == 0


def test_gradients_come_back_whole():
    net, x, y = example("MLP")
    work = tensor(gs.trace(net, x, target=y, loss=F.cross_entropy), workers(3))
    results, _ = run(work, 3)
    F.cross_entropy(net(x), y).backward()
    assert worst(results, {f"grad/{name}": parameter.grad for name, parameter in net.named_parameters()}) < 1e-12


@pytest.mark.parametrize("k", [2, 3, 4])
def test_bytes_between_devices(k):
    """Of two layers with an output of (5, 10): each further device gives a summand and reads its gradient."""
    _, x, y = example("MLP")
    unsplit = traced(nn.Sequential(nn.Flatten(), mlp(144, 8, 10)).double(), x, y)
    assert moved_bytes(unsplit) == 0
    assert moved_bytes(tensor(unsplit, workers(k))) == 2 * (k - 1) * 5 * 10 * 8


def test_the_same_split_each_time():
    net, x, y = example("convolutions")
    digests = {tensor(traced(net, x, y), workers(2)).digest() for _ in range(2)}
    assert len(digests) == 1


def test_backward_tasks_name_their_forward_tasks():
    net, x, y = example("MLP")
    work = tensor(traced(net, x, y), workers(2))
    named = {name: node["forward"] for name, node in work.graph.nodes(data=True) if "forward" in node}
    assert named["1.1.backward.1/threshold_backward"] == "1.1.1/relu"
    assert all(name in work.graph for name in named.values())


class Wide(nn.Module):
    """Tensors of over a megabyte, which a trace does not make constants of."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.second = nn.Linear(4, 600), nn.Dropout(0.5), nn.Linear(600, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        return self.second(self.drop(torch.maximum(h, torch.zeros_like(h))))


def test_only_the_drawn_numbers_of_dropout_are_moved():
    net, x, y = Wide().double(), torch.rand(300, 4).double(), torch.arange(300) % 10
    work = tensor(traced(net, x, y), workers(2))
    assert sorted(exchanges(work)) == ["add", "clone"]  # the sum of the second layer; what the second device keeps
    assert_trains_as(net, run(work, 2), plain(net, momentum, F.cross_entropy, x, y, 1), 1e-12)


class Tied(nn.Module):
    """A weight that is used whole before it is used as a layer's."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x * self.layer.weight.sum())


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.w


def by_hand() -> gs.Workload:
    work = gs.Workload("by hand")
    work.task(torch.neg, work.input("x", torch.ones(2)), name="y")
    return work


def amsgrad(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.01, amsgrad=True)


def test_what_an_update_copies_into_a_split_state() -> None:
    """The largest second moment so far: maximum ─ copy_."""
    net, x, y = example("MLP")
    found = run(tensor(traced(net, x, y, amsgrad), workers(2)), 2, steps=3)
    assert_trains_as(net, found, plain(net, amsgrad, F.cross_entropy, x, y, 3), 1e-12)


def foreach(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, foreach=True)


def net42() -> gs.Workload:
    return gs.trace(nn.Linear(4, 2), torch.rand(3, 4), name="net42")


@pytest.mark.parametrize(
    ("work", "devices", "options", "message"),
    [
        (by_hand, 2, {}, "was not traced"),
        (net42, 1, {}, r"devices are \['worker:0'\]: name two or more"),
        (net42, 2, {"split": "diagonal"}, "split is 'diagonal': one of auto, columns, rows"),
        (net42, 2, {"layers": {"weight": "both"}}, "layer 'weight' is to be split by 'both'"),
        (net42, 2, {"layers": ["fc9"]}, "layer 'fc9' cannot be split: there is no dense layer"),
        (net42, 3, {"layers": ["weight"]}, "layer 'weight' cannot be split: it has 2 outputs for 3 devices"),
        (net42, 3, {}, "nothing to split in workload 'net42': 'weight': it has 2 outputs for 3 devices"),
        (net42, 5, {"split": "rows"}, "'weight': it has 4 inputs for 5 devices"),
        (net42, 2, {"layers": []}, "nothing to split"),
        (lambda: gs.trace(Tied(), torch.rand(3, 4)), 2, {"layers": ["layer"]}, "its weight is needed whole before"),
        (lambda: gs.trace(Scale(), torch.rand(3, 4)), 2, {}, "it has no dense layer and no convolution"),
        (lambda: gs.trace(nn.Linear(4, 2), torch.rand(3, 4), grain="module"), 2, {}, "grain='operator'"),
    ],
)
def test_what_cannot_be_split(work, devices, options, message):
    with pytest.raises(WorkloadError, match=message):
        tensor(work(), workers(devices), **options)


def test_an_optimizer_that_works_on_all_parameters_at_once():
    net, x, y = example("MLP")
    with pytest.raises(WorkloadError, match="foreach or fused"):
        tensor(traced(net, x, y, foreach), workers(2))


def test_states_of_another_workload_are_not_gathered():
    work = net42()
    with pytest.raises(WorkloadError, match="was not split by tensor"):
        gathered({}, work)
    with pytest.raises(WorkloadError, match=r"the states have no 'bias\.0'"):
        gathered({}, tensor(work, workers(2)))

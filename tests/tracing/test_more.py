"""Steps of more kinds beside plain PyTorch, and what they must leave as it was.

x ─ layers ─ loss ─ gradients ─ update, with what no operator shows: assigned buffers, shared memory, seeds.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import graphsched as gs
from graphsched.errors import TraceError
from tests.tracing.steps import Optimizer, plain, run, worst

X = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
Y = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def small() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()


# -- optimisers --------------------------------------------------------------------------------------

# What these keep starts from other numbers than zeros. Numbers of theirs that PyTorch keeps in single precision are
# here in double.
STARTS: dict[str, Optimizer] = {
    "nadam": functools.partial(torch.optim.NAdam, lr=0.01),
    "asgd": functools.partial(torch.optim.ASGD, lr=0.01),
    "rprop": functools.partial(torch.optim.Rprop, lr=0.01),
    "a rate in a tensor": functools.partial(torch.optim.Adam, lr=torch.tensor(0.01)),
}


@pytest.mark.parametrize("optimizer", STARTS)
def test_what_an_optimizer_keeps_starts_as_it_starts_it(optimizer: str) -> None:
    net, make = small(), STARTS[optimizer]
    work = gs.trace(net, X, target=Y, loss=F.mse_loss, optimizer=make(net.parameters()))
    _, states = run(work, steps=3)
    assert worst(states, dict(plain(net, make, F.mse_loss, X, Y, 3)[2].named_parameters())) < 1e-7


# Their plain forms read a number of steps from a tensor, or write to out=.
WITHOUT_NUMBERS: dict[str, Optimizer] = {
    "adagrad": functools.partial(torch.optim.Adagrad, lr=0.01, lr_decay=0.1, weight_decay=0.1),
    "adagrad from 0.1": functools.partial(torch.optim.Adagrad, lr=0.01, initial_accumulator_value=0.1),
    "adamax": functools.partial(torch.optim.Adamax, lr=0.01),
}


@pytest.mark.parametrize("optimizer", WITHOUT_NUMBERS)
def test_a_step_that_pytorch_takes_with_numbers_of_tensors(optimizer: str) -> None:
    net, make = small(), WITHOUT_NUMBERS[optimizer]
    work = gs.trace(net, X, target=Y, loss=F.mse_loss, optimizer=make(net.parameters()))
    assert all(len(task.updates) <= 1 for task in work.tasks)  # a task for each parameter, which a split can place
    _, states = run(work, steps=3)
    assert worst(states, dict(plain(net, make, F.mse_loss, X, Y, 3)[2].named_parameters())) < 1e-12


def test_a_first_step_unlike_the_others() -> None:
    """Dampening: the first momentum is the whole gradient, later ones get a part of it."""
    net, make = small(), functools.partial(torch.optim.SGD, lr=0.05, momentum=0.9, dampening=0.3)
    optimizer = make(net.parameters())
    with pytest.raises(TraceError, match="first step of SGD is unlike the later ones"):
        gs.trace(net, X, target=Y, loss=F.mse_loss, optimizer=optimizer)
    assert not optimizer.state
    F.mse_loss(net(X), Y).backward()
    optimizer.step()
    _, states = run(gs.trace(net, X, target=Y, loss=F.mse_loss, optimizer=optimizer))
    optimizer.zero_grad()
    F.mse_loss(net(X), Y).backward()
    optimizer.step()
    assert worst(states, dict(net.named_parameters())) < 1e-12


def test_an_optimizer_that_needs_a_closure() -> None:
    net = small()
    with pytest.raises(TraceError, match=r"LBFGS cannot take its step.*another optimizer"):
        gs.trace(net, X, target=Y, loss=F.mse_loss, optimizer=torch.optim.LBFGS(net.parameters()))


# -- layouts, types and random numbers -----------------------------------------------------------------


@pytest.mark.parametrize("turned", [X.t(), torch.ones(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)])
def test_dropout_draws_in_the_order_of_memory(turned: torch.Tensor) -> None:
    found, _ = run(gs.trace(lambda x: F.dropout(x.view_as(x), 0.5), turned))
    torch.manual_seed(7)
    assert torch.equal(found["output"], F.dropout(turned, 0.5))


def test_dropout_in_a_transformer() -> None:
    torch.manual_seed(3)
    net = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True).double()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    make = functools.partial(torch.optim.SGD, lr=0.05)
    _, states = run(gs.trace(net, x, target=x, loss=F.mse_loss, optimizer=make(net.parameters())))
    assert worst(states, dict(plain(net, make, F.mse_loss, x, x, 1)[2].named_parameters())) < 1e-12


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_rows_of_padding_are_what_the_layers_compute() -> None:
    """x, and which rows are padding ─ encoder outside of training, for which PyTorch has a fast path"""
    torch.manual_seed(3)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    net, x = nn.TransformerEncoder(layer, 2).eval(), torch.randn(2, 5, 8)
    padding = torch.arange(5) >= torch.tensor([[5], [3]])

    @torch.no_grad()
    def encode(x: torch.Tensor, padding: torch.Tensor) -> Any:
        return net(x, src_key_padding_mask=padding)

    found = run(gs.trace(encode, x, padding))[0]["output"]
    fast = encode(x, padding)
    assert torch.allclose(found[~padding], fast[~padding], atol=1e-5)
    assert not fast[padding].any()
    assert found[padding].abs().min() > 0.0


def test_constants_in_bfloat16() -> None:
    net, make = small().bfloat16(), functools.partial(torch.optim.SGD, lr=0.05)
    x, y = X.bfloat16(), Y.bfloat16()
    found, states = run(gs.trace(net, x, target=y, loss=F.mse_loss, optimizer=make(net.parameters())))
    loss, _, stepped = plain(net, make, F.mse_loss, x, y, 1)
    assert torch.equal(found["loss"], loss)
    assert worst(states, dict(stepped.named_parameters())) == 0.0


@pytest.mark.parametrize("grain", ["operator", "module"])
def test_a_tensor_made_of_numbers_begins_with_them_in_every_run(grain: str) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        total, table = torch.tensor(1.0, dtype=x.dtype), x.new_tensor([[1.0, 2.0], [3.0, 4.0]])
        for row in x:
            total += row.sum()
        table[0].add_(total)
        return total, table, table.T.mul_(2)

    found, _ = run(gs.trace(function, X, grain=grain), steps=3)
    assert all(torch.equal(found[f"output.{i}"], tensor) for i, tensor in enumerate(function(X)))


def test_tensors_that_a_step_makes_are_on_the_cpu_whatever_the_default_device_is() -> None:
    """As after ``torch.set_default_device("cuda")``: a plan says where tasks run."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * torch.ones(4, dtype=x.dtype) + torch.zeros_like(x).add_(torch.arange(4))

    with torch.device("meta"):
        work = gs.trace(function, X)
    assert torch.equal(run(work)[0]["output"], function(X))


# -- what no operator shows ------------------------------------------------------------------------------


class Assigns(nn.Module):
    """Buffers that get other tensors: a running mean, and two that change places."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        for i, name in enumerate(("mean", "one", "other")):
            self.register_buffer(name, torch.full((3,), float(i)))
        self.last: Any = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        self.last, self.mean = y, 0.9 * self.mean + 0.1 * y.mean(0)
        before, self.one, self.other = self.one, self.other, self.one
        return y - self.mean + before


def test_buffers_that_are_assigned() -> None:
    net = Assigns().double()
    work = gs.trace(lambda x: (net(x), net.one), X)
    assert net.last is None
    found, states = run(work, steps=3)
    for _ in range(3):
        output = net(X)
    assert worst(found, {"output.0": output, "output.1": net.one}) < 1e-12
    assert worst(states, dict(net.named_buffers())) < 1e-12


class NewParameter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.weight = nn.Parameter(self.weight * 2)
        return x * self.weight


def data_of(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    for parameter in net.parameters():
        parameter.data = parameter.data * 2
    return net(x)


def seeded(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return net(x) + torch.rand(3)


def recomputed(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    loss = checkpoint(lambda x: F.dropout(net(x), 0.5), x, use_reentrant=False).sum()
    loss.backward()
    return loss


def into_one(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        net.get_parameter("weight").mul_(2)
    return net(x)


def shared() -> nn.Module:
    net = nn.Linear(4, 4).double()
    net.register_buffer("again", net.weight.data[1:])
    return net


def watched() -> nn.Module:
    """An attribute that is no buffer looks into the memory of a parameter."""
    net = nn.Linear(4, 4).double()
    net.row = net.weight.detach()[1]
    return net


@pytest.mark.parametrize(
    ("make", "function", "message"),
    [
        (NewParameter, lambda net, x: net(x), "assigns 'weight'.*copy_"),
        (small, data_of, "assigns .data of '0.weight'.*copy_"),
        (small, seeded, "draws random numbers and sets them back"),
        (small, recomputed, "draws random numbers and sets them back"),
        (shared, into_one, "'weight' and 'again' share memory and change"),
        (watched, lambda net, x: into_one(net, x) + net.row, "'weight' and 'constant.0' share .* within the function"),
    ],
)
def test_what_a_workload_would_do_otherwise(make: Callable[[], Any], function: Any, message: str) -> None:
    net = make().double()
    before, random = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    with pytest.raises(TraceError, match=message):
        gs.trace(lambda x: function(net, x), X)
    assert worst(net.state_dict(), before) == 0.0
    assert torch.equal(torch.get_rng_state(), random)


def test_a_module_that_fails_is_as_it_was() -> None:
    net = nn.LSTM(4, 3).double()
    weights = list(net._flat_weights)

    def fails(x: torch.Tensor) -> None:
        net.note = net(x)[0]
        raise KeyError("x")

    with pytest.raises(TraceError, match="KeyError"):
        gs.trace(fails, X)
    assert all(a is b for a, b in zip(net._flat_weights, weights, strict=True))
    assert "note" not in vars(net)
    assert all(ref() is weight for ref, weight in zip(net._flat_weight_refs, weights, strict=True))


# -- names -----------------------------------------------------------------------------------------------


def test_an_input_that_bears_the_name_of_a_state() -> None:
    net = nn.Linear(4, 4)
    with pytest.raises(TraceError, match="input 'weight' bears the name of a state"):
        gs.trace(lambda weight: net(weight), torch.rand(3, 4))
    with pytest.raises(TraceError, match="result 'bias' bears the name of an input or a state"):
        gs.trace(lambda x: {"bias": net(x)}, torch.rand(3, 4))


def test_constants_and_parameters_of_one_name() -> None:
    """A list of parameters called ``constant``, tensors from outside, and a result called like a task."""
    net = nn.Module()
    net.constant = nn.ParameterList([torch.full((4,), 2.0), torch.full((4,), 3.0)])
    one, two = torch.full((4,), 5.0), torch.full((4,), 7.0)

    def forward(x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x * net.constant[0] * net.constant[1]
        return {"mul": y + one, "add": y * two}

    x = torch.rand(3, 4)
    found, _ = run(gs.trace(forward, x))
    assert all(torch.equal(found[name], tensor.detach()) for name, tensor in forward(x).items())


def test_inputs_of_another_trace_go_by_name() -> None:
    source = gs.trace(lambda a, b: a - b, X, 2 * X).source
    found, _ = run(source.again(inputs={"b": X[:2], "a": 3 * X[:2]}).trace())
    assert torch.equal(found["output"], 3 * X[:2] - X[:2])
    with pytest.raises(TraceError, match="inputs are c: a, b are needed"):
        source.again(inputs={"c": X})


@pytest.mark.parametrize(
    ("arguments", "given", "message"),
    [
        (((X, {"b": 3}),), {}, "input 'a.1.b' is a int"),
        ((X.to_sparse(),), {}, "'a' is sparse, nested or quantized"),
        ((X,), {"optimizer": [1]}, "optimizer is a list"),
        ((X,), {"module": [nn.Linear(2, 2)]}, "module holds a list"),
    ],
)
def test_arguments_of_other_types(arguments: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        gs.trace(lambda a: a * 2, *arguments, **given)


# -- batch norm ------------------------------------------------------------------------------------


def called_operators(net: nn.Module, x: torch.Tensor) -> list[str]:
    """Names of the operators of batch norm in a training step."""
    work = gs.trace(net, x, target=torch.zeros(len(x), 4, *x.shape[2:]), loss=nn.functional.mse_loss,
                    optimizer=torch.optim.SGD(net.parameters(), lr=0.1))  # fmt: skip
    names = [task.operation.name.split(".")[-2] for task in work.tasks if task.operation is not None]
    return [name for name in names if "batch_norm" in name]


def test_batch_norm_trains_by_the_operators_that_choose_on_each_device() -> None:
    """Two in a row: each gradient reads what its own forward kept."""
    net = nn.Sequential(nn.BatchNorm2d(4), nn.BatchNorm2d(4))
    kinds = ["_batch_norm_with_update"] * 2 + ["batch_norm_backward"] * 2
    assert called_operators(net, torch.randn(3, 4, 5, 5)) == kinds


@pytest.mark.parametrize("options", [{"affine": False}, {"track_running_stats": False}])
def test_batch_norm_without_weight_or_statistics_stays_as_it_is(options: dict[str, bool]) -> None:
    net = nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4, **options))
    assert all(name.startswith("native_") for name in called_operators(net, torch.randn(3, 4, 5, 5)))


@pytest.mark.parametrize("trains", [True, False])
@pytest.mark.parametrize("grain", ["operator", "module"])
def test_a_network_that_begins_with_batch_norm_trains(trains: bool, grain: str) -> None:
    """Nobody wants the gradient of its input, which some kernels leave out and others do not."""
    net = nn.Sequential(nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1))
    net[0].train(trains)
    x, y = torch.randn(3, 4, 5, 5), torch.zeros(3, 4, 5, 5)
    sgd = functools.partial(torch.optim.SGD, lr=0.1)
    work = gs.trace(net, x, target=y, loss=F.mse_loss, optimizer=sgd(net.parameters()), grain=grain)
    _, states = run(work, 3)
    _, _, stepped = plain(net, sgd, F.mse_loss, x, y, 3)
    assert worst(states, dict(stepped.named_parameters())) < 1e-6

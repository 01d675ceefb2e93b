"""Names of the user's beside those that a trace gives.

x ─ mul ─ add ─ output, where ``mul`` or ``constant`` is a parameter, a buffer, an argument or a result too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graphsched as gs
from graphsched.errors import TraceError
from tests.tracing.steps import run, worst

X = torch.rand(3, 4, generator=torch.Generator().manual_seed(1))
Y = torch.rand(3, 4, generator=torch.Generator().manual_seed(2))
OUTSIDE = [torch.full((4,), float(i)) for i in range(2, 6)]

GIVEN = ["constant", "constant.0", "constant.2", "mul", "aminmax", "aminmax.1", "update/mul/add"]
"""Names that the trace of `compute` would give if no-one else had them."""


def compute(x: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
    """Comes to `last` after it has needed constants, tensors from outside and tasks of its own."""
    x = x * torch.ones(4) * torch.arange(4.0) + OUTSIDE[0]
    least, most = torch.aminmax(x, dim=1, keepdim=True)
    for outside in OUTSIDE:
        x = x * outside
    return (x - least * most) * last


class Named(nn.Module):
    """One tensor of this name, put under the module ``a`` before a dot."""

    def __init__(self, name: str, is_buffer: bool) -> None:
        super().__init__()
        holder: nn.Module = self
        *path, name = name.split(".")
        for part in path:
            holder.add_module(part, nn.Module())
            holder = holder.get_submodule(part)
        tensor = torch.full((4,), 0.5)
        holder.register_buffer(name, tensor) if is_buffer else holder.register_parameter(name, nn.Parameter(tensor))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return compute(x, next(iter((*self.parameters(), *self.buffers()))))


@pytest.mark.parametrize("grain", ["operator", "module"])
@pytest.mark.parametrize("is_buffer", [False, True], ids=["parameter", "buffer"])
@pytest.mark.parametrize("name", GIVEN)
def test_a_tensor_of_a_module_keeps_its_name(name: str, is_buffer: bool, grain: str) -> None:
    net = Named(name, is_buffer)
    work = gs.trace(net, X, grain=grain)
    assert work.values[name].kind == "state"
    found, states = run(work)
    assert worst(found, {"output": net(X)}) < 1e-6
    assert torch.equal(states[name], net.state_dict()[name])


@pytest.mark.parametrize("name", GIVEN)
def test_a_parameter_of_such_a_name_is_trained(name: str) -> None:
    net = Named(name, is_buffer=False)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    _, states = run(gs.trace(net, X, target=Y, loss=F.mse_loss, optimizer=sgd))
    F.mse_loss(net(X), Y).backward()
    sgd.step()
    assert worst(states, dict(net.named_parameters())) < 1e-6


@pytest.mark.parametrize("name", GIVEN)
def test_a_result_keeps_its_name(name: str) -> None:
    found, _ = run(gs.trace(lambda x: {name: compute(x, x), "other": x * 2}, X))
    assert worst(found, {name: compute(X, X), "other": X * 2}) < 1e-6


def test_arguments_keep_their_names() -> None:
    def function(constant: torch.Tensor, mul: torch.Tensor, aminmax: torch.Tensor) -> torch.Tensor:
        return compute(constant, mul) + aminmax

    work = gs.trace(function, X, Y, X)
    assert [v.name for v in work.values.values() if v.kind == "input"] == ["constant", "mul", "aminmax"]
    assert worst(run(work)[0], {"output": function(X, Y, X)}) < 1e-6


# -- names that only the user can change -----------------------------------------------------------------


class Targeted(nn.Module):
    def forward(self, x: torch.Tensor, target: Any = None) -> torch.Tensor:
        return x if target is None else x * target


@pytest.mark.parametrize(
    ("function", "given", "message"),
    [
        (Named("x", False), {}, "input 'x' bears the name of a state: rename the parameter or buffer, or the argument"),
        (Named("target", True), {"target": Y, "loss": F.mse_loss}, "always called 'target'"),
        (Named("output", False), {}, "result 'output' bears .* parameter or buffer, or return a dict with another key"),
        (Named("loss", False), {"target": Y, "loss": F.mse_loss}, "result 'loss' bears .* a training step's loss"),
        (lambda output: output * 2, {}, "result 'output' bears .* rename that argument"),
    ],
    ids=["x", "target", "output", "loss", "argument"],
)
def test_names_that_are_taken_say_what_to_rename(function: Callable[..., Any], given: Any, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        gs.trace(function, X, **given)


def test_an_argument_called_target_beside_a_target() -> None:
    """It would be taken for the loss's target, and the module would compute without it."""
    with pytest.raises(TraceError, match=r"an argument 'target' itself.*rename the argument"):
        gs.trace(Targeted(), X, X, target=Y, loss=F.mse_loss)
    assert torch.equal(run(gs.trace(Targeted(), X, Y))[0]["output"], X * Y)

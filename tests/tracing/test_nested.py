"""Inputs and results in tuples, lists and dicts.

batch.image ─┐
             ├─ layers ─ output.scores, output.hidden.0
batch.pair.0 ┘
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graphsched as gs
from graphsched.errors import TraceError
from graphsched.partition import data_parallel
from tests.partition.replicas import of_replica, parameters, run_split, workers
from tests.tracing.steps import run, worst

IMAGE = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
SHIFT = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
Y = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


class Pair(NamedTuple):
    shift: torch.Tensor
    scale: torch.Tensor


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, batch: dict[str, Any], scale: torch.Tensor) -> dict[str, Any]:
        hidden = self.layer(batch["image"]) + batch["pair"].shift * batch["pair"].scale
        return {"scores": hidden * scale, "more": (hidden, None, [hidden.sum()])}


def arguments() -> tuple[dict[str, Any], torch.Tensor]:
    return {"image": IMAGE, "pair": Pair(SHIFT, SHIFT + 1)}, torch.full((), 2.0).double()


def small() -> nn.Module:
    torch.manual_seed(3)
    return Net().double()


def loss(output: dict[str, Any], target: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(output["scores"], target)


def test_names_are_those_of_the_places() -> None:
    net = small()
    work = gs.trace(net, *arguments())
    inputs = ["batch.image", "batch.pair.0", "batch.pair.1", "scale"]
    assert [v.name for v in work.values.values() if v.kind == "input"] == inputs
    found, _ = run(work, **{"batch.image": 2 * IMAGE})
    given = arguments()
    wanted = net({**given[0], "image": 2 * IMAGE}, given[1])
    assert (
        worst(found, {"scores": wanted["scores"], "more.0": wanted["more"][0], "more.2.0": wanted["more"][2][0]}) == 0.0
    )
    assert len(found) == 3


@pytest.mark.parametrize(
    ("batch", "name"), [({"a.b": IMAGE, "a": {"b": IMAGE}}, "batch.a.b"), ({1: IMAGE, "1": IMAGE}, "batch.1")]
)
def test_two_inputs_of_one_name_are_refused(batch: dict[Any, Any], name: str) -> None:
    """One of them would be lost."""
    with pytest.raises(TraceError, match=f"two inputs bear the name '{name}': change a key"):
        gs.trace(lambda batch: IMAGE, batch)


@pytest.mark.parametrize("k", [1, 2])
def test_a_step_and_its_parts(k: int) -> None:
    net = small()
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    work = gs.trace(net, *arguments(), target=Y, loss=loss, optimizer=sgd)
    inputs = dict(work.source.inputs)
    _, states = run_split(data_parallel(work, workers(k)), inputs, k, steps=2)
    for _ in range(2):
        sgd.zero_grad()
        loss(net(*arguments()), Y).backward()
        sgd.step()
    assert worst(parameters(of_replica(states, 0)), dict(net.named_parameters())) < 1e-12


def test_a_recurrent_layer_by_itself() -> None:
    """It takes and returns states in a tuple."""
    torch.manual_seed(3)
    net = nn.LSTM(4, 3).double()
    state = torch.rand(1, 3).double(), torch.rand(1, 3).double()
    found, _ = run(gs.trace(net, IMAGE, state))
    output, (hidden, cell) = net(IMAGE, state)
    assert worst(found, {"output.0": output, "output.1.0": hidden, "output.1.1": cell}) < 1e-12

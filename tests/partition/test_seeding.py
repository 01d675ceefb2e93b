"""Shares of gradients that cost nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graphsched as gs
from graphsched.errors import TraceError, WorkloadError
from graphsched.partition import data_parallel, pipeline, split
from graphsched.partition.batches import rows_of
from graphsched.partition.seeding import traced_part, with_share
from tests.executors.programs import machine
from tests.partition.replicas import small
from tests.tracing.steps import run


def _changes(work: gs.Workload) -> dict[str, Any]:
    before = {name: tensor.detach().clone() for name, tensor in work.tensors.items()}
    return {name: tensor - before[name] for name, tensor in run(work)[1].items() if not name.startswith("constant")}


def test_a_share_of_the_gradients_from_the_same_tasks() -> None:
    work, _ = small()
    part = with_share(work.source, 0.25).trace()
    assert [t.name for t in part.tasks] == [t.name for t in work.tasks]
    assert torch.equal(run(part)[0]["loss"], run(work)[0]["loss"])
    for name, change in _changes(work).items():
        assert torch.allclose(_changes(part)[name], change / 4, rtol=1e-9, atol=1e-16)


def _by_hand(differentiate: Callable[[torch.Tensor, list[Any]], Any]) -> gs.Workload:
    """A step that computes gradients and updates as `differentiate` and plain arithmetic do."""
    torch.manual_seed(3)
    net = nn.Linear(4, 3).double()

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(net(x), y)
        parameters = list(net.parameters())
        gradients = differentiate(loss, parameters) or [p.grad for p in parameters]
        with torch.no_grad():
            for p, gradient in zip(parameters, gradients, strict=True):
                p -= 0.1 * gradient
        return loss

    return gs.trace(step, torch.randn(6, 4).double(), torch.randint(0, 3, (6,)))


def _twice(loss: torch.Tensor, _: Any) -> None:
    loss.backward(retain_graph=True)
    loss.backward()


def _of_another(loss: torch.Tensor, _: Any) -> None:
    loss.backward(retain_graph=True)
    (loss * 0.5).backward()


def _both(loss: torch.Tensor, _: Any) -> None:
    torch.autograd.backward([loss, loss * 0.5])


@pytest.mark.parametrize(
    "backward",
    [lambda loss, _: loss.backward(), lambda loss, _: torch.autograd.backward(loss), _twice, _of_another, _both],
)
def test_steps_that_call_backward_themselves(backward: Callable[..., Any]) -> None:
    work = _by_hand(backward)
    part = with_share(work.source, 0.25).trace()
    assert [t.name for t in part.tasks] == [t.name for t in work.tasks]
    for name, change in _changes(work).items():
        assert torch.allclose(_changes(part)[name], change / 4, rtol=1e-9, atol=1e-16)


def _detached(loss: torch.Tensor, parameters: list[Any]) -> list[Any]:
    return [gradient.detach() for gradient in torch.autograd.grad(loss, parameters, create_graph=True)]


def _of_a_function(loss: torch.Tensor, parameters: list[Any]) -> list[Any]:
    return [torch.func.grad(lambda p: (p * loss.detach()).sum())(p.detach()) for p in parameters]


@pytest.mark.parametrize("differentiate", [
    torch.autograd.grad,
    lambda loss, parameters: torch.autograd.grad(loss, parameters, create_graph=True),
    _detached,
    _of_a_function,
])  # fmt: skip
def test_gradients_that_no_share_could_be_given_are_refused(differentiate: Callable[..., Any]) -> None:
    work = _by_hand(differentiate)
    with pytest.raises(TraceError, match=r"call loss\.backward\(\) instead"):
        with_share(work.source, 0.25).trace()


def test_the_whole_share_is_the_source_itself() -> None:
    work, _ = small()
    assert with_share(work.source, 1.0) is work.source


# -- inputs that are no batch ----------------------------------------------------------------------


def _with_table(rows: int) -> tuple[gs.Workload, nn.Module, dict[str, torch.Tensor]]:
    """A step whose scores are times the mean of a table of six numbers."""
    torch.manual_seed(3)
    net = nn.Linear(4, 3).double()
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x: torch.Tensor, target: torch.Tensor, table: torch.Tensor) -> dict[str, torch.Tensor]:
        sgd.zero_grad()
        loss = F.cross_entropy(net(x) * table.mean(), target)
        loss.backward()
        sgd.step()
        return {"loss": loss}

    table = torch.arange(6.0).double()
    given = {"x": torch.randn(rows, 4).double(), "target": torch.randint(0, 3, (rows,)), "table": table}
    return gs.trace(step, *given.values()), net, given


def test_an_input_with_as_many_rows_as_the_batch_goes_whole_where_it_is_said_to() -> None:
    """x, target ─ cut ─ step of a part ─ sum, and table ─ step of every part."""
    work, net, given = _with_table(rows=6)
    wanted = float(F.cross_entropy(net(given["x"]) * given["table"].mean(), given["target"]).detach())
    two = machine("worker:0", "worker:1")
    for made, inputs in (
        (data_parallel(work, ["worker:0", "worker:1"], whole=["table"]), split(given, 2, whole=["table"])),
        (pipeline(work, ["worker:0"], micro_batches=2, whole=["table"]), given),
    ):
        with gs.Program(gs.schedule(made, two, scheduler="one_stream")) as program:
            assert float(program.run(**inputs)["loss"]) == pytest.approx(wanted, rel=1e-12)
    with pytest.raises(WorkloadError, match="whole= names 'tabel', which is no input: there are x, target, table"):
        data_parallel(work, ["worker:0", "worker:1"], whole=["tabel"])


def test_the_first_input_may_go_whole() -> None:
    """Without a target the next one tells how long the batch is; the output has a row for each of its rows."""
    torch.manual_seed(3)
    net, table = nn.Linear(4, 3).double(), torch.arange(6.0).double()
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(table: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        sgd.zero_grad()
        output = net(x) * table.mean()
        loss = F.mse_loss(output, y)
        loss.backward()
        sgd.step()
        return {"loss": loss, "output": output}

    given = {"table": table, "x": torch.randn(8, 4).double(), "y": torch.randn(8, 3).double()}
    work = gs.trace(step, *given.values())
    wanted = (net(given["x"]) * table.mean()).detach()
    made = pipeline(work, ["worker:0"], micro_batches=2, whole=["table"])
    split_up = data_parallel(work, ["worker:0", "worker:1"], whole=["table"])
    machines = machine("worker:0", "worker:1")
    with gs.Program(gs.schedule(made, machines, scheduler="one_stream")) as program:
        torch.testing.assert_close(program.run(**given)["output"], wanted)
    with gs.Program(gs.schedule(split_up, machines, scheduler="one_stream")) as program:
        found = program.run(**split(given, 2, whole=["table"]))
        torch.testing.assert_close(torch.cat([found["0/output"], found["1/output"]]), wanted)


def test_a_step_that_cannot_do_with_a_part_names_the_inputs_that_were_cut() -> None:
    torch.manual_seed(3)
    net, x, scale = nn.Linear(4, 3).double(), torch.randn(4, 4).double(), torch.ones(4).double()

    def step(x: torch.Tensor, target: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(net(x * scale), target)
        loss.backward()
        return loss

    work = gs.trace(step, x, torch.arange(4) % 3, scale)
    with pytest.raises(TraceError) as caught:
        traced_part(work.source, 0.5, rows_of(work.source.inputs, 0, 2))
    assert re.search(r"test_seeding.py:\d+: `loss = F.cross_entropy\(net\(x \* scale\), target\)`", str(caught.value))
    assert "cut as the batch were x, target, scale: name one that is no batch in whole=" in str(caught.value)

"""Networks on parts of the batch: what calls other operators there is refused, what only looks so is split.

x ─ layers ─ loss ─ gradients ─ update, traced for all rows and for those of a part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graphsched as gs
from graphsched.errors import WorkloadError
from graphsched.partition import data_parallel, pipeline, split
from tests.executors.programs import machine
from tests.partition.replicas import of_replica, parameters, sgd, workers
from tests.tracing.steps import run, worst

Layer = Callable[[torch.Tensor], torch.Tensor]


class Between(nn.Module):
    """Two dense layers and `layer` after them."""

    def __init__(self, layer: Layer, width: int = 4) -> None:
        super().__init__()
        self.one, self.two, self.layer = nn.Linear(4, width), nn.Linear(width, 3), layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(self.two(torch.tanh(self.one(x))))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells, self.head = nn.LSTM(4, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.cells(x)[0][:, -1])


def traced(net: nn.Module, shape: tuple[int, ...], grain: str = "operator") -> gs.Workload:
    torch.manual_seed(3)
    for parameter in net.parameters():
        nn.init.uniform_(parameter, -1, 1)
    x, y = torch.rand(shape, dtype=torch.float64), torch.randint(0, 3, shape[:1])
    optimizer = sgd(net.double().parameters())
    return gs.trace(net, x, target=y, loss=F.cross_entropy, optimizer=optimizer, grain=grain)


def halves(work: gs.Workload, way: str) -> gs.Workload:
    return data_parallel(work, workers(2)) if way == "data" else pipeline(work, workers(2), micro_batches=2)


def trained(work: gs.Workload, devices: int, **inputs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    with gs.Program(gs.schedule(work, machine(*workers(devices)), scheduler="one_stream")) as program:
        results = program.run(**inputs)
        return results, program.state()


# -- refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("grain", ["operator", "module"])
@pytest.mark.parametrize("way", ["data", "pipeline"])
@pytest.mark.parametrize(
    ("layer", "odd"),
    [
        (lambda y: torch.relu(y) if len(y) > 3 else y * 1, r"'output' \(aten.mul.Tensor for 'output' instead of aten"),
        (lambda y: torch.relu(y).exp() if len(y) > 3 else torch.relu(y), r"\(aten.relu.default for 'output' instead"),
        (
            lambda y: y * 2 if len(y) > 3 else (y * 2).exp(),
            r"\(aten.mul.Tensor instead of aten.mul.Tensor for 'output'",
        ),
    ],
    ids=["another", "fewer", "more"],
)
def test_other_operators_on_fewer_rows_are_refused(layer: Layer, odd: str, way: str, grain: str) -> None:
    work = traced(Between(layer), (6, 4), grain)
    with pytest.raises(WorkloadError, match=rf"with 3 of the rows the network computes otherwise.*first in .*{odd}"):
        halves(work, way)


def test_a_step_that_ends_sooner_is_refused() -> None:
    """Only a buffer that counts tells: the last operator is one that no result names."""

    class Counts(nn.Linear):
        def __init__(self) -> None:
            super().__init__(4, 3)
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if len(x) > 3:
                self.seen += 1
            return super().forward(x)

    with pytest.raises(WorkloadError, match=r"\(aten.addmm.default for 'output' instead of aten.add_.Tensor\)"):
        halves(traced(Counts(), (6, 4)), "pipeline")


# -- split -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["data", "pipeline"])
def test_constants_above_a_size_are_tasks_of_the_whole_batch_only(way: str) -> None:
    """``zeros_like`` of 1.5 MiB, of parts 0.75 MiB; what is made of it alone is left out with it."""
    work = traced(Between(lambda y: torch.maximum(y, torch.zeros_like(y).neg() - 1)), (1 << 16, 4))
    assert {"layer/zeros_like", "zeros_like"} & {task.name for task in work.tasks}
    made = halves(work, way)
    assert not any("zeros_like" in task.name for task in made.tasks)
    wanted, after = run(work)
    inputs = work.source.inputs
    found, states = trained(made, 2, **(split(inputs, 2) if way == "data" else inputs))
    assert worst(found, {"loss": wanted["loss"]}) < 1e-12
    assert worst(of_replica(states, 0) if way == "data" else states, parameters(after)) < 1e-12


@pytest.mark.parametrize("rows", [2, 3])
def test_parts_of_one_row(rows: int) -> None:
    """PyTorch calls ``addmm`` for an LSTM's one row, and ``mm`` and ``add`` for several: both give the same."""
    work = traced(Recurrent(), (rows, 5, 4))
    wanted, after = run(work)
    replicas, (one, two) = data_parallel(work, workers(rows)), workers(2)
    found, states = trained(replicas, rows, **split(work.source.inputs, rows))
    assert "addmm" in repr(replicas["0/cells/addmm"].operation)
    assert worst(found, {"loss": wanted["loss"]}) < 1e-12
    assert worst(of_replica(states, rows - 1), parameters(after)) < 1e-12
    found, states = trained(pipeline(work, [one, two], micro_batches=rows), 2)
    assert worst(found, {"loss": wanted["loss"]}) < 1e-12
    assert worst(states, parameters(after)) < 1e-12


def test_parts_of_one_row_are_judged_by_two() -> None:
    work = traced(Between(lambda y: torch.relu(y) if len(y) > 3 else y * 1), (6, 4))
    with pytest.raises(WorkloadError, match="with 2 of the rows the network computes otherwise"):
        data_parallel(work, workers(6))


def test_shards_with_other_tasks_than_each_other_are_refused() -> None:
    work = traced(Recurrent(), (3, 5, 4))
    with pytest.raises(WorkloadError, match=r"shards of 2 and 1 rows have other tasks, first 'cells.*of equal sizes"):
        data_parallel(work, workers(2))

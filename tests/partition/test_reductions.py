"""Losses of a batch and of its parts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graphsched as gs
from graphsched.errors import WorkloadError
from graphsched.partition import data_parallel, pipeline, split
from graphsched.partition.reductions import check_loss
from tests.executors.programs import machine

WEIGHTS = torch.tensor([1.0, 5.0, 0.1])


def traced(loss: Callable[..., Any], target: torch.Tensor | None = None, rows: int = 6) -> gs.Workload:
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
    target = torch.arange(rows) % 3 if target is None else target
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    return gs.trace(net, torch.rand(rows, 4), target=target, loss=loss, optimizer=sgd)


@pytest.mark.parametrize("sizes", [(6,), (3, 3), (2, 2, 2), (4, 2), (1, 5)])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_means_and_sums_over_rows(reduction: str, sizes: tuple[int, ...]) -> None:
    check_loss(traced(functools.partial(F.cross_entropy, reduction=reduction)), sizes, reduction)


@pytest.mark.parametrize(
    "loss",
    [
        functools.partial(F.cross_entropy, weight=WEIGHTS),
        functools.partial(F.cross_entropy, ignore_index=0),
        functools.partial(F.cross_entropy, reduction="sum"),
        lambda scores, target: F.cross_entropy(scores, target).sqrt(),
        lambda scores, target: (scores @ scores.T).mean(),
    ],
)
def test_other_losses_are_refused_before_anything_is_made(loss: Callable[..., Any]) -> None:
    work = traced(loss, torch.tensor([0, 1, 1, 2, 0, 0]))
    with pytest.raises(WorkloadError, match=r"the loss is no mean over rows: .* for all 6 rows"):
        data_parallel(work, ["worker:0", "worker:1"])
    with pytest.raises(WorkloadError, match="the loss is no mean over rows"):
        pipeline(work, ["worker:0", "worker:1"], micro_batches=2)


def test_the_other_reduction_is_right() -> None:
    work = traced(functools.partial(F.cross_entropy, reduction="sum"))
    assert len(data_parallel(work, ["worker:0", "worker:1"], reduction="sum"))


def test_a_loss_of_something_else_is_taken_as_it_is_said_to_be() -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.fc(x), x

    net = Pair()
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    work = gs.trace(net, torch.rand(6, 4), loss=lambda pair: pair[0].square().mean(), optimizer=sgd)
    check_loss(work, (3, 3), "mean")
    assert len(data_parallel(work, ["worker:0", "worker:1"]))


@pytest.mark.parametrize("shards", [[4.0, 2.0], True, 2.0])
def test_shards_are_whole_numbers(shards: Any) -> None:
    with pytest.raises(WorkloadError, match="whole number"):
        split({"x": torch.zeros(6)}, shards)


def test_inputs_to_be_split_are_tensors() -> None:
    with pytest.raises(WorkloadError, match="input 'x' is a list: give a tensor"):
        split({"x": [1, 2]}, 2)


def test_a_device_twice_is_refused() -> None:
    with pytest.raises(WorkloadError, match="each once"):
        data_parallel(traced(F.cross_entropy), ["worker:0", "worker:0"])


@pytest.mark.parametrize("way", ["data", "pipeline"])
def test_a_split_plan_goes_to_a_file(way: str, tmp_path: Path) -> None:
    work, devices = traced(F.cross_entropy), ["worker:0", "worker:1"]
    split_work = data_parallel(work, devices) if way == "data" else pipeline(work, devices, micro_batches=3)
    plan = gs.schedule(split_work, machine(*devices), scheduler="one_stream")
    gs.save_plan(plan, tmp_path / "split.plan")
    with gs.Program(plan) as first, gs.Program(gs.load_plan(tmp_path / "split.plan")) as second:
        assert torch.equal(first.run()["loss"], second.run()["loss"])
        ours, theirs = first.state(), second.state()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())

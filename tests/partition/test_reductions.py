"""Losses of a batch and of its parts."""

from __future__ import annotations

import functools
import math
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
from graphsched.partition.reductions import _losses, check_loss
from tests.executors.programs import machine

WEIGHTS = torch.tensor([1.0, 5.0, 0.1])


def traced(loss: Callable[..., Any], target: torch.Tensor | None = None, rows: int = 6) -> gs.Workload:
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
    target = torch.arange(rows) % 3 if target is None else target
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    return gs.trace(net, torch.rand(rows, 4), target=target, loss=loss, optimizer=sgd)


@pytest.mark.parametrize("sizes", [(6,), (3, 3), (2, 2, 2), (4, 2), (1, 5)])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_means_and_sums_over_rows(reduction: str, sizes: tuple[int, ...]) -> None:
    work = traced(functools.partial(F.cross_entropy, reduction=reduction))
    check_loss(work, sizes, reduction)
    assert len(_losses(work, sizes)) == 2  # it was looked at, in both orders of the target


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


@pytest.mark.parametrize("loss", [
    functools.partial(F.cross_entropy, weight=WEIGHTS),
    functools.partial(F.cross_entropy, ignore_index=0),
    lambda scores, target: (F.cross_entropy(scores, target, reduction="none") * target).sum() / target.sum(),
])  # fmt: skip
def test_a_target_whose_parts_are_alike_by_chance(loss: Callable[..., Any]) -> None:
    """Both halves of the traced target have the same classes; its rows in another order tell."""
    with pytest.raises(WorkloadError, match=r"the loss is no mean over rows: .* for all 8 rows"):
        check_loss(traced(loss, torch.tensor([0, 1, 2, 1] * 2), rows=8), (4, 4), "mean")


MANY = torch.randn(256, 3, generator=torch.Generator().manual_seed(1))
SHARES = MANY.sigmoid()


def single(loss: Callable[..., Any]) -> Callable[..., Any]:
    """`loss` as one that works in single precision alone."""
    return lambda scores, target: loss(scores.float(), target.float())


MEANS = [F.mse_loss, F.l1_loss, F.huber_loss, F.binary_cross_entropy_with_logits]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("loss", MEANS)
def test_means_over_many_rows(loss: Callable[..., Any], exact: bool) -> None:
    work = traced(loss if exact else single(loss), SHARES, rows=256)
    check_loss(work, (128, 64, 64), "mean")
    assert [seen.tolerance < 1e-5 for seen in _losses(work, (128, 64, 64))] == [True, True]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(
    "loss",
    [
        lambda scores, target: F.mse_loss(scores, target).sqrt(),
        lambda scores, target: 10 * F.mse_loss(scores, target).log10(),
        lambda scores, target: 1 - F.cosine_similarity(scores.flatten(), target.flatten(), 0),
        lambda scores, target: F.mse_loss(scores, target) + 0.1 * scores.var(0).sum(),
        lambda scores, target: F.mse_loss(scores, target) + scores.softmax(1).mean(0).square().sum(),
    ],
)
def test_other_losses_over_many_rows(loss: Callable[..., Any], exact: bool) -> None:
    """Parts of random rows of one kind would all look alike."""
    with pytest.raises(WorkloadError, match=r"the loss is no mean over rows: .* for all 256 rows"):
        check_loss(traced(loss if exact else single(loss), MANY, rows=256), (128, 128), "mean")


def of_shares(loss: Callable[..., Any]) -> gs.Workload:
    net = nn.Sequential(nn.Linear(4, 3), nn.Sigmoid())
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    return gs.trace(net, torch.rand(256, 4), target=SHARES, loss=loss, optimizer=sgd)


def test_losses_of_shares() -> None:
    """They take outputs between 0 and 1 alone."""
    check_loss(of_shares(F.binary_cross_entropy), (128, 128), "mean")
    with pytest.raises(WorkloadError, match="the loss is no mean over rows"):
        check_loss(of_shares(lambda scores, y: F.binary_cross_entropy(scores, y).sqrt()), (128, 128), "mean")


def test_a_loss_that_is_not_finite_on_any_random_output_says_nothing() -> None:
    work = traced(lambda scores, y: F.cross_entropy(scores, y) * math.inf)
    check_loss(work, (3, 3), "mean")
    assert not _losses(work, (3, 3))


def written_out(net: nn.Module, loss: Callable[..., Any], x: torch.Tensor, y: torch.Tensor) -> gs.Workload:
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
        value = loss(net(x), target)
        value.backward()
        sgd.step()
        return {"loss": value}

    return gs.trace(step, x, y)


@pytest.mark.parametrize(
    ("loss", "what"),
    [
        (functools.partial(F.cross_entropy, ignore_index=-1), "ignore_index=-1.*leave ignore_index= out"),
        (functools.partial(F.cross_entropy, weight=torch.ones(3)), "weight=.*leave weight= out"),
        (lambda scores, y: F.nll_loss(scores.log_softmax(1), y, ignore_index=7), "ignore_index=7"),
        (functools.partial(F.cross_entropy, ignore_index=-1, label_smoothing=0.1), "ignore_index=-1"),
        (lambda scores, y: F.cross_entropy(scores.unsqueeze(2), y[:, None], ignore_index=-1), "ignore_index=-1"),
    ],
)
def test_rows_that_later_targets_may_ignore(loss: Callable[..., Any], what: str) -> None:
    """No row of the traced target is ignored: the operator tells, in a task of several and in a step by hand too."""
    work = traced(loss)
    layers, by_hand = work.source.again(grain="module").trace(), written_out(work.source.function, loss, *batch())
    for one in (work, layers, by_hand):
        with pytest.raises(WorkloadError, match=rf"nll_loss.*count by their class \({what}"):
            data_parallel(one, ["worker:0", "worker:1"])
        with pytest.raises(WorkloadError, match=r"use reduction='sum' in the loss and here"):
            pipeline(one, ["worker:0", "worker:1"], micro_batches=2)
        assert len(data_parallel(one, ["worker:0"]))


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.rand(6, 4, generator=torch.Generator().manual_seed(3)), torch.arange(6) % 3


def after_a_step(made: gs.Workload, inputs: dict[str, Any]) -> tuple[float, torch.Tensor]:
    """The loss of a step, whole or split over two devices, and the first weight after it."""
    is_split = "0/target" in made.values
    with gs.Program(gs.schedule(made, machine("worker:0", "worker:1"), scheduler="one_stream")) as program:
        loss = float(program.run(**(split(inputs, 2) if is_split else inputs))["loss"])
        return loss, program.state()["0/0.weight" if is_split else "0.weight"]


LATER = [torch.tensor([0, 1, 1, 2, -100, -100]), torch.tensor([-100, 1, 1, 2, 0, -100])]
"""Of three rows in each half are ignored: none and two; one and one."""


def both_ways(work: gs.Workload, reduction: str) -> list[gs.Workload]:
    two = ["worker:0", "worker:1"]
    return [
        data_parallel(work, two, reduction=reduction),
        pipeline(work, two, micro_batches=2, reduction=reduction),
    ]


def is_close(made: gs.Workload, work: gs.Workload, target: torch.Tensor) -> bool:
    inputs = {**work.source.inputs, "target": target}
    (loss, weight), (wanted, wanted_weight) = after_a_step(made, inputs), after_a_step(work, inputs)
    return abs(loss - wanted) < 1e-5 * abs(wanted) and torch.allclose(weight, wanted_weight, atol=1e-6)


@pytest.mark.parametrize("ignored", [-100, -1])
@pytest.mark.parametrize("later", LATER)
def test_a_sum_is_right_whichever_rows_a_target_ignores(later: torch.Tensor, ignored: int) -> None:
    work = traced(functools.partial(F.cross_entropy, reduction="sum", ignore_index=ignored))
    target = torch.where(later == -100, ignored, later)
    assert all(is_close(made, work, target) for made in both_ways(work, "sum"))


def test_rows_that_cross_entropy_ignores_unasked() -> None:
    """-100 in a later target: each half takes the mean over its own other rows, as DistributedDataParallel does.

    That is the mean over all where halves ignore equally many, another where they do not, and NaN where one
    ignores all of its rows.
    """
    work = traced(F.cross_entropy)
    net, x = work.source.function, work.source.inputs["input"]
    uneven, even = LATER
    none = torch.tensor([0, 1, 2, -100, -100, -100])
    with torch.no_grad():
        halves = [F.cross_entropy(net(x[rows]), uneven[rows]).item() for rows in (slice(0, 3), slice(3, 6))]
    for made in both_ways(work, "mean"):
        assert is_close(made, work, even)
        assert not is_close(made, work, uneven)
        assert after_a_step(made, {"input": x, "target": uneven})[0] == pytest.approx(sum(halves) / 2, rel=1e-5)
        assert math.isnan(after_a_step(made, {"input": x, "target": none})[0])


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

"""Operators of a layer as one function."""

from __future__ import annotations

import torch
from torch import nn

import graphsched as gs
from graphsched.tracing.blocks import Block
from graphsched.workload import Operation, Slot, operation_name
from tests.tracing.steps import run


def _block(alpha: int) -> Block:
    """$0 ─ neg ─ add alpha · $1"""
    negated = Operation("torch.neg", torch.neg, (Slot(0),))
    return Block((negated, Operation("torch.add", torch.add, (Slot(2), Slot(1)), {"alpha": alpha})), (3, 2))


def test_steps_read_arguments_and_earlier_results() -> None:
    total, negated = _block(3)(torch.ones(2), torch.full((2,), 5.0))
    assert total.tolist() == [14.0, 14.0]
    assert negated.tolist() == [-1.0, -1.0]


def test_the_name_tells_what_a_block_does() -> None:
    assert operation_name(_block(3)) == operation_name(_block(3))
    assert operation_name(_block(3)) != operation_name(_block(4))
    assert operation_name(_block(3)) == "block.a7eb07b98df986d1"


def test_a_layer_that_is_called_twice_is_two_tasks() -> None:
    """x ─ relu ─ fc ─ relu.2 ─ output"""
    relu, dense = nn.ReLU(), nn.Linear(4, 4)
    net = nn.Sequential(relu, dense, relu, nn.Softmax(1))
    work = gs.trace(net, torch.randn(3, 4), grain="module")
    assert [t.name for t in work.tasks] == ["0", "1", "0.2", "output"]
    found, _ = run(work)
    assert torch.allclose(found["output"], net(work.tensors["input"]).detach())

"""A step of an encoder, its attention fused or by products and a softmax, beside the same in plain PyTorch."""

from __future__ import annotations

import pytest
import torch

import graphsched as gs
from graphsched.errors import ExperimentError
from tests.experiments.small import SMALL, cases, hand_written

HOST = hand_written("worker", 1)
WHERE = "4 tokens, float32, 1 worker"


def test_attention_is_one_operator_or_several() -> None:
    made = cases("attention", HOST)
    assert len(made) == 2 * 3
    called = {}
    for label in (f"fused, {WHERE}", f"products and softmax, {WHERE}"):
        work = made[label].work
        assert work is not None
        called[label] = {task.operation.name for task in work.tasks if task.operation is not None}
    fused, several = called.values()
    assert {name for name in fused - several if "attention" in name} == {
        "torch.ops.graphsched.attention.default",
        "torch.ops.graphsched.attention_backward.default",
    }
    assert "torch.ops.aten._softmax.default" in several - fused or "torch.ops.aten._safe_softmax.default" in several


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_all_take_the_same_step(kind: str) -> None:
    made = cases("attention", HOST)
    where = f"4 tokens, {kind}, 1 worker"
    plain = made[f"plain PyTorch, {where}"].baseline
    assert plain is not None
    wanted = plain()
    for way in ("fused", "products and softmax"):
        work = made[f"{way}, {where}"].work
        assert work is not None
        with gs.Program(gs.schedule(work, HOST, scheduler="one_stream")) as program:
            losses = [program.run()["loss"] for _ in range(2)]
        torch.testing.assert_close(losses[0], wanted, rtol=0.02, atol=0.02)
        assert losses[1] < losses[0]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"tokens": (0,)}, "tokens"),
        ({"types": ("float8",)}, "float8"),
        ({"width": -1}, "width"),
        ({"heads": 3}, "a multiple of 8 numbers"),
        ({"heads": 4}, "choose a width that is a multiple of 32"),
    ],
)
def test_what_is_refused(given: dict[str, object], reason: str) -> None:
    with pytest.raises(ExperimentError, match=reason):
        cases("attention", HOST, **SMALL["attention"] | given)

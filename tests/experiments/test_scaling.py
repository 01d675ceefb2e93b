"""Steps on paper: estimates of a step, the time with sums, tables and files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from experiments._scaling import Row, step_of, table
from experiments._step_estimate import StepEstimate, estimated_step
from graphsched.errors import ExperimentError, OutputError, PlatformError, WorkloadError
from graphsched.estimates import LAUNCH_S
from graphsched.platform import Device, Platform
from models.resnet import resnet18
from tests.experiments.small import SMALL, hand_written, load

GPU = Device("cuda:0", "cuda", flop_per_s=1e6, bytes_per_s=1e18)


def test_a_step_is_its_arithmetic_and_gradients_come_last_layer_first() -> None:
    """Two dense layers of 100 × 100 on 10 rows: 2·10·100·100 operations a product, one forward and two backward.

    The first layer's input needs no gradient: five products in all, two of them forward; the last layer's backward
    makes both of its gradients at once.
    """
    step = estimated_step(lambda: nn.Sequential(*(nn.Linear(100, 100, bias=False) for _ in range(2))), (10, 100), GPU)
    product_s = 2 * 10 * 100 * 100 / 1e6
    assert step.seconds == pytest.approx(5 * product_s, rel=0.01)
    assert [nbytes for _, nbytes in step.ready] == [40_000, 40_000]
    assert [ready_s for ready_s, _ in step.ready] == pytest.approx([4 * product_s, 5 * product_s], rel=0.001)
    assert step.seconds > 5 * product_s + 5 * LAUNCH_S["cuda"]


def test_bytes_are_those_of_the_network_and_nothing_is_computed() -> None:
    step = step_of("ResNet-18", 1, GPU)
    assert step.nbytes == 4 * sum(p.numel() for p in resnet18().parameters())
    assert torch.get_default_device().type == "cpu"


@pytest.mark.parametrize(
    ("sum_s", "expected"),
    [(0.0, 4.0), (1.0, 5.0), (2.0, 6.0), (3.0, 8.0)],
)
def test_sums_hide_behind_backward_and_follow_one_another(sum_s: float, expected: float) -> None:
    """Two buckets, complete after 2 s and 4 s.

    ::

        backward ──2──┬──────4──┐
        sums          └─ first ─┴─ second
    """
    assert StepEstimate(4.0, ((2.0, 40), (4.0, 40))).with_sums(sum_s, 2) == expected


def test_buckets_are_of_equal_bytes() -> None:
    step = StepEstimate(3.0, ((1.0, 10), (2.0, 60), (3.0, 10)))
    assert step.buckets(1) == [3.0]
    assert step.buckets(4) == [2.0, 2.0, 2.0, 3.0]


def test_the_table_names_the_fastest() -> None:
    rows = [
        Row("two_level", "net", k, way, 1.0, 0.5, latency_s, step_s)
        for k, way, latency_s, step_s in ((8, "ring", 0.1, 1.25), (8, "tree", 0.2, 2.0), (16, "ring", 0.3, 4.0))
    ]
    rows.append(Row("two_level", "net", 16, "tree", 1.0, 0.5, 0.2, 2.0))
    head, names, first, second = table(rows, {"net": StepEstimate(1.0, ((1.0, 4_000_000),))}, 2).splitlines()
    assert head == "net, two_level: 4 MB of gradients in 2 buckets; computing alone 1 s"
    assert names.split() == ["GPUs", "ring", "tree", "fastest"]
    assert first.split() == ["8", "1.25", "s", "(100", "ms)", "2", "s", "(200", "ms)", "ring,", "80%", "computing"]
    assert second.endswith("tree, 50% computing")


def cases(platform: Platform, **params: Any) -> list[str]:
    """Labels of the cases at a small size."""
    return [case.label for case in load("scaling").cases(platform, **(SMALL["scaling"] | params))]


def test_cases_are_sums_on_the_devices_here(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    labels = cases(hand_written("worker", 2), folder=str(tmp_path))
    assert labels == [f"{way}, one bucket of ResNet-18, 2 workers" for way in ("ring", "tree", "sharded")]
    printed = capsys.readouterr().out
    assert "ResNet-18, rail_optimised: 44.7 MB of gradients" in printed
    assert "rail_optimised, 16 GPUs: off the simulation of all transfers by" in printed
    rows = json.loads((tmp_path / "on-paper.json").read_text())
    assert [(row["gpus"], row["way"]) for row in rows][:2] == [(8, "ring"), (8, "tree")]
    assert all(row["step_s"] >= row["compute_s"] for row in rows)
    assert (tmp_path / "on-paper.png").stat().st_size > 10_000


def test_ways_between_hosts_only_leave_one_case() -> None:
    assert cases(hand_written("cuda", 2), ways=("rails",)) == ["sharded, one bucket of ResNet-18, 2 GPUs"]


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"networks": ("VGG",)}, ExperimentError, "no network 'VGG': there are ResNet-18, transformer"),
        ({"topologies": ("torus",)}, ExperimentError, "no topology 'torus'"),
        ({"ways": ("star",)}, ExperimentError, "no way to sum 'star'"),
        ({"ways": ()}, ExperimentError, "nothing to predict"),
        ({"gpus": (12,)}, WorkloadError, "12 GPUs of hosts of 8"),
        ({"check": (12,)}, WorkloadError, "12 GPUs of hosts of 8"),
        ({"nics": 3}, PlatformError, "3 NICs do not serve 8 accelerators"),
        ({"folder": "/proc/nowhere"}, OutputError, "cannot write into folder"),
        ({"host": "nowhere"}, PlatformError, "no platform 'nowhere'"),
        ({"oversubscription": 0.5}, PlatformError, "oversubscription is 0.5: at least 1"),
    ],
)
def test_wrong_requests(
    params: dict[str, Any], error: type[Exception], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is predicted."""
    with pytest.raises(error, match=message):
        cases(hand_written("worker", 1), **params)
    assert not capsys.readouterr().out

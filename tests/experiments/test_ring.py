"""Sums of gradients by ring and by other ways: which cases there are, what they send, and that the sums are right."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from experiments.ring import PIPELINED, WAYS, gradients, measured, plain_all_reduce, summed
from graphsched.cases import Case
from graphsched.errors import ExperimentError
from tests.experiments.small import hand_written, load

WORKERS = hand_written("worker", 3)


def cases(gpus: int, **params: Any) -> dict[str, Case]:
    """By label, at a small size."""
    made = load("ring").cases(hand_written("cuda", gpus), **({"mbytes": (0.004,)} | params))
    return {case.label: case for case in made}


def test_every_way_is_a_case_for_every_number_of_devices_that_there_are() -> None:
    found = [label for label in cases(3) if "allreduce" not in label and "NCCL" not in label]
    assert found == [
        "gather, 0.004 MB, 1 GPU",
        *(f"{way}, 0.004 MB, 2 GPUs" for way in WAYS),
        *(f"{way}, 0.004 MB, 3 GPUs" for way in WAYS),
    ]
    assert "the text's allreduce, 0.004 MB, 3 GPUs" in cases(3)
    assert [label for label in cases(3) if "NCCL" in label] == ["NCCL, 0.004 MB, 2 GPUs", "NCCL, 0.004 MB, 3 GPUs"]


@pytest.mark.parametrize("way", WAYS)
def test_sums_are_right_and_bytes_those_of_the_way(way: str) -> None:
    """x0, x1, x2 of 1,200 bytes ──▶ sums on three workers."""
    devices = WORKERS.accelerators()
    found = measured(summed(WORKERS, devices, 0.0012, way, 1), WORKERS, devices)
    sends = dict.fromkeys(WAYS, 4 / 3) | {"auto": 2, "gather": 2, "cpu": 3, "server": 2, "tree": 2, "halving": 2}
    if way != "library":  # which sends as it likes
        assert found["busiest_sends_gradients"] == pytest.approx(sends[way], rel=0.02)
        assert found["busiest_sends_bytes"] == pytest.approx(1200 * sends[way], rel=0.02)
    assert found["max_abs_difference"] < 1e-6


def test_blocks_are_those_of_each_device() -> None:
    devices = WORKERS.accelerators()
    for way in PIPELINED:
        one, four = (len(summed(WORKERS, devices, 0.012, way, blocks)) for blocks in (1, 4))
        assert four > 3 * (one - 6)


def test_the_texts_all_reduce() -> None:
    """The first call sums; the sums are on all devices."""
    devices = WORKERS.accelerators()
    expected = sum(gradients(devices, 0.001))
    found = plain_all_reduce(devices, 0.001)()
    assert all(torch.equal(one, expected) for one in found)


@pytest.mark.parametrize("parameter", ["mbytes", "devices", "blocks"])
def test_nothing_to_do_is_a_wrong_request(parameter: str) -> None:
    values = load("ring").values(**{parameter: "0"})
    with pytest.raises(ExperimentError, match=f"parameter '{parameter}' is 0"):
        list(load("ring").cases(WORKERS, **values))


def test_an_unknown_way() -> None:
    with pytest.raises(ExperimentError, match="no way 'star': there are gather, cpu"):
        cases(2, ways=("star",))

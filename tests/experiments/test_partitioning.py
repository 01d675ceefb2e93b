"""Three ways to split a step: the same parameters after it, and what crosses between devices."""

from __future__ import annotations

import pytest
import torch

import graphsched as gs
from experiments.partitioning import NETWORKS, step
from graphsched.errors import ExperimentError
from graphsched.partition import gathered, split
from tests.experiments.small import SMALL, cases, hand_written, load, plan_of
from tests.tracing.steps import run, worst

WORKERS = hand_written("worker", 2)
LABELS = {
    "whole": "LeNet, whole, 1 worker",
    "data": "LeNet, data parallel, 2 workers",
    "pipeline": "LeNet, pipeline of 2, 2 workers",
    "tensor": "LeNet, tensor parallel, 2 workers",
}


def test_all_ways_are_of_one_group() -> None:
    made = cases("partitioning", WORKERS)
    assert sorted(made) == sorted(LABELS.values())
    assert {case.group for case in made.values()} == {"LeNet, batch 8"}


@pytest.mark.parametrize("way", LABELS)
def test_the_same_parameters_after_a_step(way: str) -> None:
    """whole ─ step; data, pipeline, tensor ─ the same step in parts, put together again"""
    _, wanted = run(step("LeNet", 8))
    case = cases("partitioning", WORKERS)[LABELS[way]]
    assert case.work is not None
    with gs.Program(plan_of(case, WORKERS)) as program:
        loss, states = program.run()["loss"], program.state()
    if way == "tensor":
        states = gathered(states, case.work)
    if way in ("whole", "data"):
        states = {name.removeprefix("0/"): tensor for name, tensor in states.items()}
    parameters = {name: tensor for name, tensor in wanted.items() if not name.startswith("constant")}
    assert worst(states, parameters) < 1e-5
    assert torch.allclose(loss, run(step("LeNet", 8))[0]["loss"], rtol=1e-5)


def test_what_crosses_between_devices() -> None:
    """Data parallel moves gradients, each to the other worker, and half of the images to each."""
    whole = step("LeNet", 8)
    gradients = sum(t.nbytes for name, t in whole.tensors.items() if name[0] in "Wb")
    inputs = sum(whole.tensors[name].nbytes for name in ("x", "target"))
    case = cases("partitioning", WORKERS)[LABELS["data"]]
    assert case.metrics is not None
    figures = case.metrics()
    assert figures["moved_bytes"] == pytest.approx(2 * gradients + inputs, abs=64)
    assert figures["peak_bytes"] > 2 * gradients


def test_inputs_are_split_for_the_replicas() -> None:
    case = cases("partitioning", WORKERS)[LABELS["data"]]
    assert case.work is not None
    given = {v.name for v in case.work.values.values() if v.kind == "input"}
    assert given == split({"x": torch.zeros(8, 1), "target": torch.zeros(8)}, 2).keys()


@pytest.mark.parametrize("network", NETWORKS)
def test_every_network_is_split_in_every_way(network: str) -> None:
    found = list(load("partitioning").cases(WORKERS, **(SMALL["partitioning"] | {"networks": (network,)})))
    assert len(found) == 4


def test_what_does_not_exist_is_named() -> None:
    with pytest.raises(ExperimentError, match="no network 'VGG': there are LeNet"):
        cases("partitioning", WORKERS, networks=("VGG",))
    with pytest.raises(ExperimentError, match="no way 'expert': there are data"):
        cases("partitioning", WORKERS, ways=("expert",))

"""Gradients through key-value stores: which cases there are, that sums are right, and what priorities do."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

import graphsched as gs
from experiments.kvstore import ORDERS, WAYS, Running, first_layer_s, gradients, measured, plain, shapes, stored
from graphsched.cases import Case
from graphsched.errors import ExperimentError
from tests.executors.programs import machine
from tests.experiments.small import hand_written, load

DEVICES = ["worker:0", "worker:1", "worker:2"]


def cases(gpus: int, **params: Any) -> dict[str, Case]:
    """By label, for LeNet alone."""
    made = load("kvstore").cases(hand_written("cuda", gpus), **({"networks": ("LeNet",), "devices": (1, 2)} | params))
    return {case.label: case for case in made}


def test_every_way_and_order_is_a_case_beside_two_baselines() -> None:
    assert list(cases(2)) == [
        "plain PyTorch, LeNet, 1 GPU",
        "running store, LeNet, 1 GPU",
        "one server, as backward makes them, LeNet, 1 GPU",
        "one server, first layers first, LeNet, 1 GPU",
        "plain PyTorch, LeNet, 2 GPUs",
        "running store, LeNet, 2 GPUs",
        *(f"{way}, {order}, LeNet, 2 GPUs" for way, order in itertools.product(WAYS.values(), ORDERS.values())),
    ]
    assert {case.group for case in cases(2).values()} == {"LeNet, 1 GPU", "LeNet, 2 GPUs"}


def test_keys_are_the_parameters_of_the_networks() -> None:
    assert list(shapes("LeNet")) == ["W1", "b1", "W2", "b2", "W3", "b3", "W4", "b4"]
    assert sum(shape.numel() for shape in shapes("ResNet-18").values()) == 11_175_818


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("way", WAYS)
def test_sums_are_those_of_plain_pytorch(way: str, order: str) -> None:
    """Gradients of three workers ──▶ servers ──▶ every worker."""
    work, _ = stored("LeNet", DEVICES, way, order, 64, 1)
    expected = plain("LeNet", DEVICES)()[-1]
    with gs.Program(gs.schedule(work, machine(*DEVICES), scheduler="one_stream")) as program:
        found = program.run()
    assert sorted({name.split("/")[1] for name in found}) == sorted(expected)
    assert all(torch.equal(tensor, expected[name.split("/")[1]]) for name, tensor in found.items())


def test_ways_use_the_servers_that_they_name() -> None:
    for way, servers, parts in (("one", 1, 8), ("keys", 3, 8), ("elements", 3, 24)):
        work, _ = stored("LeNet", DEVICES, way, "backward", 0, 4)
        adds = [task for task in work.tasks if "/add/" in task.name]
        assert len({task.devices for task in adds}) == servers
        assert len(adds) == parts if way != "elements" else 8 < len(adds) <= parts


@pytest.mark.parametrize("way", WAYS)
def test_by_priority_the_first_layer_is_there_first(way: str) -> None:
    """And as backward makes them, it is there last."""
    platform = hand_written("cuda", 3)
    found = []
    for order in ORDERS:
        work, first = stored("LeNet", platform.accelerators(), way, order, 64, 1)
        assert {work[name].outputs[0].spec.shape for name in first} == {(20, 1, 3, 3)}  # type: ignore[union-attr]
        timeline = gs.predict(gs.schedule(work, platform, scheduler="one_stream"))
        found.append(first_layer_s(timeline, first) / timeline.timed_makespan_s)
    backward, priority = found
    assert priority < 0.5 < backward


def test_figures_of_a_real_run() -> None:
    here = hand_written("worker", 2, lanes=1)
    work, first = stored("LeNet", here.accelerators(), "keys", "priority", 64, 4)
    found = measured(work, first, here)
    assert set(found) == {"first_layer_eager_s", "first_layer_eager_predicted_s", "max_abs_difference"}
    assert found["first_layer_eager_s"] > 0
    assert found["max_abs_difference"] < 1e-6


def test_the_running_store_gives_all_workers_the_sums() -> None:
    running = Running("LeNet", DEVICES)
    expected = plain("LeNet", DEVICES)()[0]
    for found in running():
        assert all(torch.equal(found[key], expected[key]) for key in expected)
    assert running.figures() == {"max_abs_difference": 0.0}


def test_gradients_of_workers_differ() -> None:
    first, second = (gradients("LeNet", worker)["W1"] for worker in range(2))
    assert torch.equal(first.flatten()[1:], second.flatten()[:-1])


@pytest.mark.parametrize(("parameter", "kind"), [("networks", "network"), ("ways", "way"), ("orders", "order")])
def test_unknown_names(parameter: str, kind: str) -> None:
    with pytest.raises(ExperimentError, match=f"no {kind} 'star': there are"):
        cases(2, **{parameter: ("star",)})

"""Tasks of one workload in another."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

import graphsched as gs
from graphsched.partition.copying import Copier
from tests.tracing.steps import run, worst


def _step() -> gs.Workload:
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    x, y = torch.randn(6, 4), torch.randint(0, 3, (6,))
    return gs.trace(net, x, target=y, loss=F.cross_entropy, optimizer=sgd)


def test_two_copies_of_a_step_are_two_steps() -> None:
    """0/x ─ 0/… ─ 0/loss and 1/x ─ 1/… ─ 1/loss, with states of their own"""
    work, twice = _step(), gs.Workload("twice")
    for i in range(2):
        copier = Copier(work, twice, lambda name, i=i: f"{i}/{name}", lambda task, i=i: None)  # type: ignore[misc]
        copier.add(work.tasks)
        twice.keep(copier.values["loss"])
    found, states = run(twice, steps=3)
    wanted, after = run(work, steps=3)
    for i in range(2):
        assert torch.equal(found[f"{i}/loss"], wanted["loss"])
        assert worst({n.removeprefix(f"{i}/"): t for n, t in states.items()}, after) == 0.0
    assert len(twice) == 2 * len(work)


def test_attributes_and_devices_come_along() -> None:
    work, other = _step(), gs.Workload("other")
    Copier(work, other, lambda name: f"a/{name}", lambda task: "cuda:1").add(work.tasks)
    node = other.graph.nodes["a/2.backward/mm"]
    assert (node["phase"], node["module"], node["forward"]) == ("backward", "2", "a/output")
    assert other["a/2.backward/mm"].devices == ("cuda:1",)
    assert other.values["a/0.weight/momentum_buffer"].device == "cuda:1"


def test_tasks_on_several_devices_leave_states_without_a_home() -> None:
    work, other = _step(), gs.Workload("other")
    Copier(work, other, str, lambda task: ("cuda:0", "cuda:1")).add(work.tasks)
    assert {task.devices for task in other.tasks} == {("cuda:0", "cuda:1")}
    assert {value.device for value in other.values.values() if value.kind == "state"} == {None}


def test_values_that_are_there_are_used() -> None:
    work, other = _step(), gs.Workload("other")
    shared = other.input("x", torch.ones(6, 4))
    Copier(work, other, lambda name: name, lambda task: None, {"input": shared}).add(work.tasks[:1])
    assert [v.name for v in other.values.values() if v.kind == "input"] == ["x"]

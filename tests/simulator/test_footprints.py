"""Memory that graphs work on: inputs, states, results and copies by device, views not."""

from __future__ import annotations

import pytest
import torch

from graphsched.costs import CacheStates, Costs, TaskCost
from graphsched.plan import Placement, build_plan
from graphsched.platform import Device, Link, Platform
from graphsched.simulator.footprints import memory_of
from graphsched.workload import TensorSpec, Workload

HOST = Device("cpu", "cpu")
GPUS = tuple(Device(f"cuda:{k}", "cuda") for k in range(2))
LINKS = tuple(
    Link(source.name, target.name, memory, 0.0, 1e9)
    for source, target, memory in [(HOST, GPUS[0], "pinned"), (GPUS[0], GPUS[1], "peer")]
)
HERE = Platform("here", (HOST, *GPUS), LINKS)


def test_every_value_has_memory_of_its_own() -> None:
    """x, on the CPU, is copied to cuda:0 once ──▶ a, b; a ──▶ its view; b ──▶ c on cuda:1, which updates s there."""
    work = Workload()
    x = work.input("x", TensorSpec((2, 2)), device="cpu")
    s = work.state("s", torch.zeros(2, 4), device="cuda:1")
    a = work.task(torch.neg, x, name="a")
    work.task(torch.neg, work.task(torch.t, a, name="view"), name="d")
    b = work.task(torch.cat, [x, x], name="b", outputs=[TensorSpec((4, 2))])
    work.task(lambda s, b: None, s, b, name="c", updates=s, outputs=[])
    lanes = {name: "cuda:1/s0" if name == "c" else "cuda:0/s0" for name in work.graph}
    plan = build_plan(work, HERE, None, Placement(list(work.graph), lanes), scheduler="here")
    assert memory_of(plan) == {"cpu": 16, "cuda:0": 16 + 16 + 16 + 32, "cuda:1": 32 + 32}


def test_a_copy_that_was_asked_for_counts_once() -> None:
    work = Workload()
    x = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    work.copy(x, to="cuda:1", name="copy")
    plan = build_plan(work, HERE, None, Placement(["copy"], {}), scheduler="here")
    assert memory_of(plan) == {"cuda:0": 16, "cuda:1": 16}


@pytest.mark.parametrize("model", ["GPU", ""])
def test_a_workspace_of_a_size_counts_once_on_each_lane(model: str) -> None:
    """x on cuda:0 ──▶ a (1,000 bytes), b, c (as b's: 200), d on another lane (200); e's cost is not known."""
    work = Workload()
    x = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    for name, function in {"a": torch.neg, "b": torch.abs, "c": torch.abs, "d": torch.abs, "e": torch.exp}.items():
        work.task(function, x, name=name)
    costs = Costs(
        {(work[name].signature, model): TaskCost(1.0, workspace_bytes=n) for name, n in (("a", 1000), ("b", 200))}
    )
    here = Platform("here", (HOST, Device("cuda:0", "cuda", model)))
    lanes = {name: f"cuda:0/s{int(name == 'd')}" for name in work.graph}
    placement = Placement(list(work.graph), lanes)
    plan = build_plan(work, here, costs, placement, scheduler="here")
    assert memory_of(plan) == {"cuda:0": 6 * 16 + 1000 + 200 + 200}
    assert memory_of(build_plan(work, here, None, placement, scheduler="here")) == {"cuda:0": 6 * 16}


def test_what_an_operation_pushes_out_counts_beyond_what_it_works_on() -> None:
    """x on cuda:0 ──▶ a, a again: each as a fill of 1,000 bytes does, of which its workspace, x and result are 232."""
    work = Workload()
    x = work.input("x", TensorSpec((2, 2)), device="cuda:0")
    for name in ("a", "again"):
        work.task(torch.neg, x, name=name)
    lanes = dict.fromkeys(work.graph, "cuda:0/s0")
    here = Platform("here", (HOST, Device("cuda:0", "cuda", "GPU")))
    found = []
    for pushed in (1000, 100, 0):
        cost = TaskCost(1.0, workspace_bytes=200, cache=CacheStates(pushed_bytes=pushed))
        costs = Costs({(work["a"].signature, "GPU"): cost})
        plan = build_plan(work, here, costs, Placement(list(work.graph), lanes), scheduler="here")
        found.append(memory_of(plan)["cuda:0"])
    assert found == [3 * 16 + 200 + 2 * (1000 - 232), 3 * 16 + 200, 3 * 16 + 200]

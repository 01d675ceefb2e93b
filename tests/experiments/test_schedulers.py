"""The ranking of schedulers: what may run where, which options they get, and results equal to those of one lane."""

from __future__ import annotations

from dataclasses import replace
from importlib import metadata
from typing import Any

import pytest
import torch

import experiments.schedulers as module
import graphsched as gs
from experiments._unbound import LIGHT_BYTES, WORKLOADS, Sizes, anywhere, is_light, unbound
from graphsched.errors import ExperimentError
from graphsched.plan import allowed_devices
from graphsched.platform import Platform
from graphsched.schedulers import registry, schedulers
from tests.experiments.small import cases, hand_written, load

SMALL = Sizes(batch=4, shrink=16, size=16, width=4, steps=3)
GPUS = hand_written("cuda", 4)
LARGE = ("ResNet-18", "transformer")  # it takes seconds to trace their steps


def made(**given: Any) -> dict[str, gs.Case]:
    return cases("schedulers", GPUS, **given)


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name not in LARGE])
def test_every_task_may_run_on_every_device(name: str) -> None:
    work = unbound(name, ("cuda:0", "cuda:1"), SMALL)
    runs = [task for task in work.tasks if task.kind == "run"]
    assert {allowed_devices(task, GPUS, work) for task in runs} == {("cuda:0", "cuda:1")}
    assert not any(value.device for value in work.values.values() if value.kind == "state")


@pytest.mark.parametrize("name", ["LeNet", "inception", "stencil", "fft", "random", "random-layers"])
def test_light_tasks_may_run_on_the_cpu_too(name: str) -> None:
    sizes = replace(SMALL, steps=8)
    alone, beside = (unbound(name, ("cuda:0",), sizes, with_cpu=cpu) for cpu in (False, True))
    assert not any("cpu" in task.devices for task in alone.tasks)
    there = [task for task in beside.tasks if "cpu" in task.devices]
    assert there
    assert all(is_light(task) for task in there)
    assert not any("mm" in task.signature.partition("(")[0] or "convolution" in task.signature for task in there)


def test_workloads_without_light_tasks_are_not_tried_beside_the_cpu() -> None:
    """Points of a tree read one other: all are products."""
    assert list(made(networks=("tree",), schedulers=("heft",), devices=(1,))) == ["tree, heft, 1 GPU"]


def test_a_task_that_moves_much_is_not_light() -> None:
    work = gs.Workload()
    for number in (LIGHT_BYTES // 8, LIGHT_BYTES // 8 + 1):
        x = work.input(f"x{number}", torch.empty(number, device="meta"))
        work.task(torch.relu, x, name=f"y{number}")
    assert [is_light(task) for task in work.tasks] == [True, False]


@pytest.mark.parametrize("name", ["LeNet", *(pytest.param(name, marks=pytest.mark.slow) for name in LARGE)])
def test_a_replica_for_each_device(name: str) -> None:
    """The parameters of each are its own, and so are its images."""
    one, two = (unbound(name, [f"cuda:{i}" for i in range(count)], SMALL) for count in (1, 2))
    states = [sum(value.kind == "state" for value in work.values.values()) for work in (one, two)]
    assert states[1] == 2 * states[0]
    assert one.values["0/target"].spec == two.values["1/target"].spec == two.values["0/target"].spec


def test_nothing_but_places_changes() -> None:
    """x ─ y ─ z, all on cuda:0 ─ the same functions of the same inputs and states"""
    work = gs.Workload("w")
    x, w = work.input("x", torch.ones(2, 2), device="cuda:0"), work.state("w", torch.ones(2, 2), device="cuda:0")
    y = work.task(torch.mm, x, w, name="y", device="cuda:0")
    work.task(torch.relu, y, name="z", device="cuda:0")
    work.keep(y)
    freed = anywhere(work, ["cuda:1"])
    assert [task.signature for task in freed.tasks] == [task.signature for task in work.tasks]
    assert list(freed.graph.edges) == list(work.graph.edges)
    assert freed.kept == work.kept
    assert freed.values["x"].device == "cuda:0"


def test_labels_and_groups_name_the_place() -> None:
    found = made(networks=("stencil",), schedulers=("heft",), devices=(1, 4), with_cpu=(2,))
    assert list(found) == [f"stencil, heft, {where}" for where in ("1 GPU", "4 GPUs", "CPU and 2 GPUs")]
    assert [case.group for case in found.values()] == ["stencil, 1 GPU", "stencil, 4 GPUs", "stencil, CPU and 2 GPUs"]
    assert all(case.optional for case in found.values())


def test_all_schedulers_and_workloads_unless_some_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = unbound("tree", ("cuda:0",), SMALL)
    monkeypatch.setattr(module, "unbound", lambda *_, **__: tiny)
    found = module.schedulers.cases(GPUS, devices=(1,), with_cpu=())
    assert {case.scheduler for case in found} == set(schedulers())
    assert {case.group for case in found} == {f"{name}, 1 GPU" for name in WORKLOADS}


def test_workers_get_small_workloads_and_no_cpu_beside_them() -> None:
    here = hand_written("worker", 2)
    found = load("schedulers").cases(here, schedulers="heft")
    assert not any("CPU" in case.label for case in found)
    assert len(found) == 4 * 2
    assert all(value.nbytes < 1 << 20 for case in found for value in case.work.values.values())  # type: ignore[union-attr]


def test_options_leave_a_choice_and_keep_searches_short() -> None:
    """On one device four lanes; the budgets go to those that know them."""
    asked = ("heft", "one_stream", "streams", "auto", "search", "optimal")
    found = made(networks=("stencil",), schedulers=asked, devices=(1, 2), with_cpu=(), solver_s=0.25)
    assert {label: dict(case.options) for label, case in found.items()} == {
        "stencil, heft, 1 GPU": {"lanes": 4},
        "stencil, one_stream, 1 GPU": {},
        "stencil, streams, 1 GPU": {"simulations": 2},
        "stencil, auto, 1 GPU": {"simulations": 2},
        "stencil, search, 1 GPU": {"lanes": 4, "iterations": 20},
        "stencil, optimal, 1 GPU": {"lanes": 4, "seconds": 0.25},
        "stencil, heft, 2 GPUs": {},
        "stencil, one_stream, 2 GPUs": {},
        "stencil, streams, 2 GPUs": {"simulations": 2},
        "stencil, auto, 2 GPUs": {"simulations": 2},
        "stencil, search, 2 GPUs": {"iterations": 20},
        "stencil, optimal, 2 GPUs": {"seconds": 0.25},
    }


def test_a_scheduler_that_cannot_be_loaded_has_a_case_that_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why is told where it is asked."""
    lost = metadata.EntryPoint("lost", "no_such_package:scheduler", registry.GROUP)
    monkeypatch.setattr(registry, "_entry_points", lambda: {"lost": (lost,)})
    found = made(networks=("stencil",), devices=(1,), with_cpu=(), schedulers=("heft", "lost"))
    assert list(found) == ["stencil, heft, 1 GPU", "stencil, lost, 1 GPU"]
    assert found["stencil, lost, 1 GPU"].optional
    assert found["stencil, lost, 1 GPU"].options == {}


def results(work: gs.Workload, platform: Platform, scheduler: str, **options: Any) -> dict[str, torch.Tensor]:
    with gs.Program(gs.schedule(work, platform, scheduler=scheduler, **options)) as program:
        return {**program.run(), **program.state()}


@pytest.mark.parametrize("name", ["LeNet", "inception", "random-layers"])
@pytest.mark.parametrize("scheduler", ["round_robin", "heft", "max_min", "lookahead"])
def test_results_are_those_of_one_lane(name: str, scheduler: str) -> None:
    """Of replicas torn apart, too: parameters after a step, and what is returned."""
    here = hand_written("worker", 2)
    work = unbound(name, here.accelerators(), SMALL)
    expected, found = results(work, here, "one_stream"), results(work, here, scheduler)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[key], expected[key]) for key in expected)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"networks": "LeNot"}, "no workload 'LeNot'"),
        ({"schedulers": "hefty"}, r"no scheduler 'hefty': did you mean 'heft'\? There are auto, "),
        ({"batch": "-1"}, "parameter 'batch' is -1"),
    ],
)
def test_a_wrong_request_is_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(ExperimentError, match=message):
        load("schedulers").cases(GPUS, **given)

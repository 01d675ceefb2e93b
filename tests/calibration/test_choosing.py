"""Costs that were kept before operations were measured inside CUDA graphs: measured again for graph mode, and once."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.calibration import cuda_operations, profile, profiling
from graphsched.calibration.choosing import missing
from graphsched.calibration.cost_cache import keep_costs, kept_costs
from graphsched.calibration.graph_company import Code
from graphsched.calibration.graph_fetches import Hindered
from graphsched.calibration.host_costs import HostCosts
from graphsched.calibration.kernels import Launched, kernel_of
from graphsched.costs import CacheStates, Costs, Kernel, Multiprocessors, TaskCost
from graphsched.errors import ScheduleError, TaskFailedError
from graphsched.platform import Device, Platform
from graphsched.schedulers import schedule
from graphsched.workload import Task, Workload

ONE = Platform("one", (Device("cpu", "cpu", "EPYC"), Device("cuda:0", "cuda", "H200")))
PROCESSORS = Multiprocessors(132, 65536, 2048, 233472, 32)
OLD = TaskCost(1e-5)
KERNELS = (kernel_of([4], [32], 16, 0),)
RELIEVED = tuple(replace(kernel, relief=0.9) for kernel in KERNELS)
"""Of a time when there were no figures about graphs."""


def product(device: str = "cuda") -> Workload:
    """x ──▶ y"""
    work = Workload()
    x = work.input("x", torch.ones(2, 2), device="cuda:0" if device == "cuda" else "cpu")
    work.task(torch.mm, x, x, name="y", device=device)
    return work


def costs_of(work: Workload, cost: TaskCost, model: str = "H200") -> Costs:
    return Costs({(work["y"].signature, model): cost})


@pytest.mark.parametrize(
    ("known", "device", "wanted"),
    [
        (OLD, "cuda", {"cuda:0": ["y"]}),
        (replace(OLD, graph_nodes=2), "cuda", {"cuda:0": ["y"]}),
        (replace(OLD, graph_tried=True), "cuda", {}),
        (replace(OLD, graph_s=9e-6), "cuda", {}),
        (replace(OLD, graph_s=0.0), "cuda", {}),
        (TaskCost(1e-3), "cuda", {}),
        (OLD, "cpu", {}),
    ],
)
def test_what_graph_mode_measures_again(known: TaskCost, device: str, wanted: dict[str, list[str]]) -> None:
    """Nothing that is known, cannot be captured, takes a millisecond, or runs on a CPU; eager mode nothing at all."""
    work = product(device)
    costs = costs_of(work, known, "H200" if device == "cuda" else "EPYC")
    found = missing(work, ONE, costs, "graph")
    assert {name: [task.name for task in tasks] for name, tasks in found.items()} == wanted
    assert missing(work, ONE, costs) == missing(work, ONE, costs, "eager") == {}


def test_a_curve_that_was_left_out_is_measured_when_it_is_asked_for() -> None:
    work = product()
    costs = costs_of(work, replace(OLD, curve_left_out=True))
    assert [task.name for task in missing(work, ONE, costs)["cuda:0"]] == ["y"]
    assert missing(work, ONE, costs, concurrency=False) == {}


def test_costs_of_the_host_that_were_left_out_are_measured_for_other_modes() -> None:
    work = product()
    costs = costs_of(work, replace(OLD, graph_tried=True, host_left_out=True))
    assert missing(work, ONE, costs, "graph") == {}
    for mode in ("eager", "distributed"):
        assert [task.name for task in missing(work, ONE, costs, mode)["cuda:0"]] == ["y"]


def test_a_given_duration_is_not_measured_for_graphs() -> None:
    work = Workload()
    work.task(torch.rand, 4, name="y", device="cuda", duration_s=1e-5)
    assert missing(work, ONE, costs_of(work, OLD), "graph") == {}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """Tasks that were measured, call by call; none can be captured. Costs are kept in a folder of their own."""
    calls: list[list[str]] = []

    def measure(
        work: Workload, platform: Platform, device: str, tasks: Sequence[Task], known: Costs, how: Any
    ) -> Generator[Any, None, None]:
        calls.append([task.name for task in tasks])
        hosts = how.mode != "graph"
        cost = TaskCost(2e-5, dispatch_s=7e-6 if hosts else 0.0, graph_tried=True, host_left_out=not hosts)
        yield from ((task.signature, cost) for task in tasks)

    monkeypatch.setenv("GRAPHSCHED_CACHE", str(tmp_path))
    monkeypatch.setattr(profiling, "check_is_here", lambda platform, name: None)
    monkeypatch.setattr(profiling, "_measured_on", measure)
    return calls


def test_old_costs_are_measured_again_for_graph_mode_and_only_once(asked: list[list[str]]) -> None:
    """What could not be captured is not tried again."""
    work = product()
    keep_costs(costs_of(work, OLD))
    assert profile(work, ONE)[work["y"].signature, "H200"] == OLD
    assert asked == []
    for _ in range(2):
        assert profile(work, ONE, mode="graph")[work["y"].signature, "H200"].device_s == 2e-5
    assert asked == [["y"]]
    assert kept_costs(ONE)[work["y"].signature, "H200"].graph_tried


def test_graph_mode_leaves_out_what_calls_cost_and_eager_mode_measures_it(asked: list[list[str]]) -> None:
    work = product()
    key = (work["y"].signature, "H200")
    assert profile(work, ONE, mode="graph")[key].host_left_out
    for _ in range(2):
        assert profile(work, ONE)[key].dispatch_s == 7e-6
        assert len(asked) == 2
    assert not profile(work, ONE, mode="graph")[key].host_left_out


def test_a_plan_knows_its_mode(asked: list[list[str]]) -> None:
    work = product()
    keep_costs(costs_of(work, OLD))
    for mode, calls in (("eager", 0), ("graph", 1)):
        profile(schedule(work, ONE, mode=mode), concurrency=False)
        assert len(asked) == calls


def test_a_mode_that_does_not_exist() -> None:
    with pytest.raises(ScheduleError, match="no mode 'graphs': there is eager, graph"):
        profile(product(), ONE, mode="graphs")


def test_that_it_was_tried_is_kept() -> None:
    costs = Costs({("mm", "H200"): TaskCost(1.0, graph_tried=True)})
    assert Costs.from_dict(json.loads(json.dumps(costs.to_dict()))) == costs
    (row,) = costs.to_dict()
    del row["graph_tried"]
    assert not Costs.from_dict([row])["mm", "H200"].graph_tried


@pytest.mark.parametrize("found", [(), ((100, 9e-6),), ((100, 9e-6), (300, 1e-5))])
@pytest.mark.parametrize("kernels", [(), KERNELS])
def test_a_measurement_tries_whatever_comes_of_it(
    found: tuple[tuple[int, float], ...], kernels: tuple[Kernel, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    host = HostCosts(**dict.fromkeys(HostCosts.__dataclass_fields__, 0.0))
    for name, figure in {
        "_workspace_bytes": 0, "_sets": 1, "_alone": ([1e-5], 6e-6), "host_costs": host, "in_graph": found,
        "cache_states": CacheStates(1e-6, 2e-6), "code_of": Code(5e-7, 0.25), "_input_bytes": 8,
        "launched": Launched(3, kernels), "multiprocessors": PROCESSORS, "bind": print, "cache_bytes": 10**6,
    }.items():  # fmt: skip
        monkeypatch.setattr(cuda_operations, name, lambda *_, figure=figure: figure)
    monkeypatch.setattr(torch.cuda, "device", contextlib.nullcontext)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    step: Any = SimpleNamespace(
        bound=lambda: print, task=SimpleNamespace(outputs=(), operation=SimpleNamespace(function=print)), tensors=()
    )
    spinner: Any = SimpleNamespace(device=0)
    company: Any = SimpleNamespace()
    cost = cuda_operations.measure_on_cuda(step, spinner, 1, concurrency=False, company=company)
    assert (cost.graph_tried, cost.graph_s, cost.launches) == (True, found[0][1] if found else None, 3)
    assert cost.graph_memory == found
    assert cost.cache == (CacheStates(1e-6, 2e-6, 5e-7, 0.25) if found else None)
    assert (cost.kernels, cost.processors) == (kernels, PROCESSORS if kernels else None)
    assert not cost.host_left_out
    without = cuda_operations.measure_on_cuda(step, spinner, 1, concurrency=False, company=None)
    assert (without.host_left_out, without.graph_s) == (True, cost.graph_s)
    relieved = RELIEVED[: len(kernels)]
    for name, figure in {"_curve": (), "with_reliefs": relieved}.items():
        monkeypatch.setattr(cuda_operations, name, lambda *_, figure=figure: figure)
    assert cuda_operations.measure_on_cuda(step, spinner, 1, concurrency=True, company=None).kernels == relieved


def played_run(work: Workload, platform: Platform, device: str, tasks: Sequence[Task]) -> SimpleNamespace:
    """A serial run of which nothing is carried out."""
    steps = [SimpleNamespace(task=task, device=device, bound=lambda: print) for task in tasks]
    return SimpleNamespace(steps=lambda: iter(steps))


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_of_what_lacks_its_curve_nothing_else_is_measured_again(
    mode: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """x ──▶ y, z, w: the curve of y was left out, for eager mode the host's part too; w is not known."""
    work = product()
    for name, function in (("z", torch.relu), ("w", torch.exp)):
        work.task(function, work["y"].reads[0].value, name=name, device="cuda")
    alone = replace(OLD, graph_tried=True, curve_left_out=True, kernels=KERNELS, processors=PROCESSORS)
    y, z = (replace(alone, host_left_out=which) for which in (True, False))
    monkeypatch.setenv("GRAPHSCHED_CACHE", str(tmp_path))
    keep_costs(Costs({(work[name].signature, "H200"): cost for name, cost in (("y", y), ("z", z))}))
    monkeypatch.setattr(profiling, "check_is_here", lambda platform, name: None)
    monkeypatch.setattr(profiling, "SerialRun", played_run)
    monkeypatch.setattr("graphsched.calibration.cuda_clock.Spinner", lambda index: SimpleNamespace(device=index))
    monkeypatch.setattr("graphsched.calibration.host_costs.company_on", contextlib.nullcontext)
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: contextlib.nullcontext())
    whole, curve = TaskCost(3e-5, graph_tried=True), ((1, 1.0), (2, 1.5))
    monkeypatch.setattr(cuda_operations, "measure_on_cuda", lambda step, *_, **__: whole)
    monkeypatch.setattr(cuda_operations, "_rough", lambda *_: (1e-5, 6e-6, False))
    monkeypatch.setattr(cuda_operations, "_curve", lambda *_: curve)
    monkeypatch.setattr(cuda_operations, "with_reliefs", lambda *_: RELIEVED)
    monkeypatch.setattr(cuda_operations, "new_stream", lambda device: None)
    monkeypatch.setattr(torch.cuda, "device", contextlib.nullcontext)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
    costs = profile(work, ONE, mode=mode)
    found = {name: costs[work[name].signature, "H200"] for name in "yzw"}
    more = {"concurrency": curve, "kernels": RELIEVED, "curve_left_out": False}
    assert found["z"] == replace(z, **more)
    assert found["y"] == (replace(y, **more) if mode == "graph" else whole)
    assert found["w"] == whole
    assert missing(work, ONE, costs, mode) == {}


def test_a_long_operation_has_no_curve_to_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    long = TaskCost(cuda_operations.CURVE_BELOW_S, curve_left_out=True)
    step: Any = None
    assert cuda_operations.with_curve(long, step, step) == replace(long, curve_left_out=False)


def test_code_and_what_is_pushed_out_are_measured_of_what_an_operation_works_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """8 bytes are read, 32 returned and 100 needed, on GPU 3, in 10 µs."""
    asked: list[tuple[Any, ...]] = []
    for name, figure in {"cache_states": CacheStates(), "_input_bytes": 8, "bind": print, "writing": []}.items():
        monkeypatch.setattr(cuda_operations, name, lambda *_, figure=figure: figure)
    monkeypatch.setattr(cuda_operations, "code_of", lambda *given: asked.append(given) or Code(5e-7, 0.25, 1e-7))
    monkeypatch.setattr(cuda_operations, "pushed_bytes", lambda *given: asked.append(given) or 5000)
    monkeypatch.setattr(cuda_operations, "hindered", lambda *given: asked.append(given) or Hindered(2e-6, 3e-6))
    step: Any = SimpleNamespace(task=None, tensors=())
    assert cuda_operations._states(step, 1, 3, 1e-5, 32, 100) == CacheStates(
        company_s=5e-7, footprint=0.25, code_lost_s=1e-7, pushed_bytes=5000, beside_s=2e-6, beside_lost_s=3e-6
    )
    assert asked == [(print, [], 3, 1e-5, 40), (print, 3, 1e-5, 140), (print, [], 3, 1e-5, 40, 6e-7)]


def test_code_that_cannot_be_measured_leaves_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise TaskFailedError("out of memory")

    for name, figure in {"cache_states": CacheStates(1e-6, 2e-6), "_input_bytes": 8, "bind": print}.items():
        monkeypatch.setattr(cuda_operations, name, lambda *_, figure=figure: figure)
    monkeypatch.setattr(cuda_operations, "code_of", fails)
    step: Any = SimpleNamespace(task=None, tensors=())
    assert cuda_operations._states(step, 1, 0, 1e-5, 8, 0) == CacheStates(1e-6, 2e-6)
    monkeypatch.setattr(cuda_operations, "code_of", lambda *_: Code(5e-7, 0.25, 1e-7))
    monkeypatch.setattr(cuda_operations, "pushed_bytes", fails)
    monkeypatch.setattr(cuda_operations, "hindered", lambda *_: pytest.fail("it came before"))
    found = CacheStates(1e-6, 2e-6, company_s=5e-7, footprint=0.25, code_lost_s=1e-7)
    assert cuda_operations._states(step, 1, 0, 1e-5, 8, 0) == found
    monkeypatch.setattr(cuda_operations, "cache_states", lambda *_: None)
    assert cuda_operations._states(step, 1, 0, 1e-5, 8, 0) is None

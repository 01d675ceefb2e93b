"""Collectives measured alone: what is chosen, kept and used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import graphsched as gs
from graphsched.calibration import collectives as module
from graphsched.calibration.collectives import measure_collectives, unmeasured_collectives
from graphsched.collectives import choose
from graphsched.costs import Costs, TaskCost
from graphsched.workload import Task, Value, Workload
from tests.executors.fake_cuda import FakeCuda
from tests.executors.programs import machine

WORKERS = ("worker:0", "worker:1")
HERE = machine(*WORKERS)


def sums() -> Workload:
    """a, b: one collective twice; c: another one; d: its duration is given.  x ──▶ y reads what a gives."""
    work = Workload()
    small, large = ([work.input(f"{n}{k}", torch.ones(n), device=w) for k, w in enumerate(WORKERS)] for n in (4, 8))
    first, _ = work.collective("all_reduce", small, devices=WORKERS, name="a")
    work.collective("all_reduce", small, devices=WORKERS, name="b")
    work.collective("all_reduce", large, devices=WORKERS, name="c")
    work.collective("all_gather", small, devices=WORKERS, name="d", duration_s=1.0)
    work.task(torch.neg, first, name="y", device=WORKERS[0])
    return work


def test_each_is_measured_once_and_not_where_its_duration_is_known() -> None:
    work = sums()
    assert [task.name for task in unmeasured_collectives(work, HERE, Costs())] == ["a", "c"]
    known = Costs({(work["a"].signature, "processor"): TaskCost(1.0)})
    assert [task.name for task in unmeasured_collectives(work, HERE, known)] == ["c"]


def test_they_are_measured_in_a_row() -> None:
    work = sums()
    found = measure_collectives(HERE, [work["a"]], 5)
    (cost,) = (found[key] for key in found)
    assert list(found) == [("all_reduce(float32[4] on 2 devices)", "processor")]
    assert cost.device_s > 0.0
    assert cost.samples >= 5
    assert cost.dispatch_s == 0.0
    assert cost.quartiles_s is not None
    assert cost.quartiles_s[0] <= cost.device_s <= cost.quartiles_s[1]


GPUS = ("cuda:0", "cuda:1")


def sum_on_gpus() -> Task:
    work = Workload()
    work.collective("all_reduce", [work.input(f"x{k}", torch.ones(4), device=g) for k, g in enumerate(GPUS)],
                    devices=GPUS, name="a")  # fmt: skip
    return work["a"]


def test_on_gpus_they_come_behind_long_tasks_on_each() -> None:
    """x0, page0 ──▶ busy0 ──┐
                          ├──▶ all_reduce0, …1, …2, …3
    x1, page1 ──▶ busy1 ──┘
    """
    plan = module._plan(machine(*GPUS), sum_on_gpus())
    assert list(plan.names) == ["busy0", "busy1", "all_reduce0", "all_reduce1", "all_reduce2", "all_reduce3"]
    assert [plan.names[j] for j in plan.waits[plan.index_of["all_reduce0"]]] == ["busy0", "busy1"]
    assert [plan.lanes[plan.lane_of[i]].name for i in (0, 1)] == ["cuda:0/s0", "cuda:1/s0"]


def test_what_the_thread_takes_for_them_goes_with_its_yardstick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine yardsticks, one of them the two stamps', however fast the thread is; the middle one took 6 µs."""
    units = iter([4e-6, 6e-6, 8e-6])
    here = machine(*GPUS)
    dispatch = replace(here.dispatch, call_s=5e-6, timed_record_s=2.5e-6, timed_gap_s=3e-6)

    class Thread:
        def __init__(self, gpu: int) -> None:
            assert gpu == 0

        def sample_s(self) -> float:
            return next(units)

        def close(self) -> None: ...

    def runs(plan: gs.Plan, repeats: int, unit_s: Callable[[], float]) -> list[Any]:
        return [module._Run([1.3e-5] * 3, [9 * unit] * 3, unit) for unit in (unit_s(), unit_s(), unit_s())]

    monkeypatch.setattr(module, "Yardstick", Thread)
    monkeypatch.setattr(module, "_runs", runs)
    found = measure_collectives(replace(here, dispatch=dispatch), [sum_on_gpus()], 9)
    (cost,) = (found[key] for key in found)
    assert cost.device_s == pytest.approx(1e-5)
    assert cost.dispatch_s == pytest.approx(8 * 6e-6)
    assert cost.call_s == 6e-6


def test_on_gpus_that_are_played_they_can_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUSY", 4)
    monkeypatch.setattr(module, "Yardstick", lambda gpu: SimpleNamespace(sample_s=lambda: 6e-6, close=lambda: None))
    FakeCuda(2).install(monkeypatch)
    found = measure_collectives(machine(*GPUS), [sum_on_gpus()], 5)
    (cost,) = (found[key] for key in found)
    assert cost.samples == 6
    assert cost.call_s == 6e-6
    assert cost.dispatch_s > 0.0


@pytest.mark.multigpu
def test_the_thread_is_ahead_of_the_gpus_of_this_host() -> None:
    """So that what a small sum takes them holds nothing of its launch."""
    from graphsched.executors.timed_runs import Clocks, on_host_clock

    here = gs.Platform.load("h200-x2")
    plan = module._plan(here, sum_on_gpus())
    with gs.Program(plan) as program:
        for _ in range(3):
            program.time_once()
        clocks = Clocks(program)
        stamps, _, _ = program.time_spans()
        clocks.finish()
        start, _ = on_host_clock(program, stamps, clocks)
    assert start[plan.index_of["all_reduce0"]] > stamps.issue_end[plan.index_of["all_reduce3"]]


def test_a_profile_has_them_and_a_prediction_uses_them(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    work = sums()
    costs = gs.profile(work, HERE, repeats=3)
    assert {(work[name].signature, "processor") for name in ("a", "c", "y")} == set(costs)
    assert gs.predict(gs.schedule(work, HERE, costs)).estimated == ()
    ranks = gs.predict(gs.schedule(work, HERE, costs, mode="distributed"))
    assert set(ranks.estimated) == {"a", "b", "c"}  # Gloo is something else


def _values(work: Workload) -> list[Value]:
    return [work.input(f"x{k}", torch.ones(4), device=w) for k, w in enumerate(WORKERS)]


def test_auto_takes_the_library_where_it_was_measured() -> None:
    values = _values(Workload())
    signature = "all_reduce(float32[4] on 2 devices)"
    for seconds, wins in ((1e-9, True), (1.0, False)):
        costs = Costs({(signature, "processor"): TaskCost(seconds)})
        work = Workload()
        values = _values(work)
        found = choose(work, values, platform=HERE, costs=costs)
        assert (found.algorithm == "library") == wins
        assert found.seconds["library"] >= seconds
    assert "library" not in choose(work, values, platform=HERE).seconds

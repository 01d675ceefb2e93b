"""Collectives measured alone: what is chosen, kept and used."""

from __future__ import annotations

import pytest
import torch

import graphsched as gs
from graphsched.calibration.collectives import measure_collectives, unmeasured_collectives
from graphsched.collectives import choose
from graphsched.costs import Costs, TaskCost
from graphsched.workload import Value, Workload
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

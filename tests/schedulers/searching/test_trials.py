"""Placements tried by simulation."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from graphsched.costs import Costs
from graphsched.errors import ScheduleError
from graphsched.plan import Placement, build_plan
from graphsched.platform import Dispatch
from graphsched.schedulers.searching import trials as module
from graphsched.schedulers.searching.trials import Trial, Trials, best_of, fewest_lanes
from graphsched.simulator import Model, predict
from tests.schedulers.graphs import graph, machine

WORK, WHERE = graph([("a", "b")], a=1.0, b=2.0), machine(1, lanes=2)
ONE = Placement(["a", "b"], {"a": "cuda:0/s0", "b": "cuda:0/s0"})
TWO = Placement(["a", "b"], {"a": "cuda:0/s0", "b": "cuda:0/s1"})
NONE = Placement(["a", "b"], {"a": "cuda:0/s0", "b": "cuda:9/s1"})


def begun(left: int, mode: str = "eager") -> Trials:
    """Trials of a chain of two on one GPU."""
    return Trials(WORK, WHERE, Costs(), mode, left)


def of(lanes: str, makespan_s: float) -> Trial:
    """A trial of tasks on these lanes."""
    return Trial(Placement([], {str(i): lane for i, lane in enumerate(lanes.split())}), makespan_s)


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_seconds_are_those_of_predict(mode: str) -> None:
    """In the mode that the plan is for."""
    plan = build_plan(WORK, WHERE, Costs(), TWO, scheduler="by hand", mode=mode)
    assert begun(1, mode).trial(TWO).makespan_s == predict(plan).makespan_s > 3.0 - 1e-9


def test_another_model_counts_where_whoever_asks_says_so() -> None:
    """A launch of 1 s before each task counts, unless dispatch is left out; afterwards it counts again."""
    slow = replace(WHERE, dispatch=Dispatch(run_s=1.0))
    tried = []
    for model in (module.UNTIMED, module.WITHOUT_DISPATCH):
        with module.tried_by(model):
            tried.append(Trials(WORK, slow, Costs(), "eager", 1).makespan_s(ONE))
    tried.append(Trials(WORK, slow, Costs(), "eager", 1).makespan_s(ONE))
    assert tried == pytest.approx([4.0, 3.0, 4.0], abs=1e-3)


def test_each_is_simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same lanes and order again cost nothing, another wait or another lane for copies does."""
    plans = []
    monkeypatch.setattr(module, "predict", lambda plan, **more: plans.append(plan) or predict(plan, **more))
    trials = begun(4)
    again = Placement(("a", "b"), dict(ONE.lanes))
    for placement in (ONE, TWO, again, replace(ONE, wait_after={"a"}), replace(ONE, copies="compute")):
        assert trials.trial(placement).makespan_s == pytest.approx(3.0)
    assert (len(plans), trials.left) == (4, 0)


def test_what_hangs_on_chance_counts_for_what_may_be_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """a (cuda:0), b (cuda:1) ──▶ c, on three GPUs or on one: chance only where that is not far longer than the best."""
    models: list[Model] = []
    average = replace(module.UNTIMED, chance=False)
    monkeypatch.setattr(module, "predict", lambda plan, model: models.append(model) or predict(plan, model=model))
    here = replace(machine(3), dispatch=replace(Dispatch(), graph_other_device_s=0.25))
    work = graph([("a", "c"), ("b", "c")], a=1.0, b=1.0, c=1.0)
    lanes = [("cuda:0/s0", "cuda:1/s0", "cuda:2/s0"), ("cuda:0/s0", "cuda:0/s0", "cuda:1/s0"), ("cuda:0/s0",) * 3]
    apart, longer, one = (Placement(["a", "b", "c"], dict(zip("abc", names, strict=True))) for names in lanes)
    for first, others in ((longer, []), (apart, [longer, one])):
        models.clear()
        trials = Trials(work, here, Costs(), "graph", 4)
        plan = build_plan(work, here, Costs(), first, scheduler="by hand", mode="graph")
        assert trials.makespan_s(first) == predict(plan).makespan_s
        assert models == [average, module.UNTIMED]
        for other in others:
            assert trials.makespan_s(other) > module.WORTH * trials.makespan_s(first)
        assert models[2:] == [average] * len(others)


def test_no_simulation_is_left() -> None:
    """Infinite for new ones; those that are known, and those that must be, are still told."""
    trials = begun(1)
    assert trials.trial(ONE).makespan_s == trials.trial(ONE).makespan_s == pytest.approx(3.0)
    assert math.isinf(trials.trial(TWO).makespan_s)
    assert trials.makespan_s(TWO) == trials.trial(TWO).makespan_s == pytest.approx(3.0)


def test_placements_that_make_no_plan() -> None:
    """Infinite as a trial, and no reason to try again; an error where it must be one."""
    trials = begun(2)
    assert math.isinf(trials.trial(NONE).makespan_s)
    assert math.isinf(trials.trial(NONE).makespan_s)
    assert trials.left == 1
    with pytest.raises(ScheduleError, match="'b' may not run on lane 'cuda:9/s1'"):
        begun(2).makespan_s(NONE)


def test_best_and_fewest() -> None:
    """Equals: the fewest lanes a device, then the first."""
    wide, narrow, again = of("cuda:0/s0 cuda:0/s1 cuda:0/s1", 1.0), of("cuda:0/s0 cuda:1/s0", 1.0), of("cuda:0/s0", 1.0)
    slow = of("cuda:0/s0", 1.1)
    assert (wide.lanes_each, narrow.lanes_each, of("", 0.0).lanes_each) == (2, 1, 0)
    assert best_of([slow, wide, narrow, again]) is narrow
    assert fewest_lanes([wide, slow], 1.0) is wide
    assert fewest_lanes([wide, slow], 1.2) is slow
    assert fewest_lanes([wide, slow, again], 1.2) is again

"""Plans of cases on measured costs: when a scheduler is asked again."""

from __future__ import annotations

import pytest

from graphsched.cases import Case
from graphsched.cli.planning import measured_plan
from graphsched.costs import Beside, Costs, TaskCost
from graphsched.plan import Plan
from graphsched.platform import Platform
from graphsched.workload import Workload
from tests.builders import kernel, platform

HERE = platform(gpus=1)
FREE = ((2, 1.0), (4, 1.0), (8, 1.0))
"""As fast beside copies of itself as alone."""


def two_kinds() -> tuple[Workload, Costs]:
    """Two operations that nothing joins."""
    work = Workload()
    for kind in range(2):
        work.task(kernel, kind, name="ab"[kind], outputs=[], device="cuda")
    return work, Costs({(task.signature, "GPU"): TaskCost(1.0, concurrency=FREE) for task in work.tasks})


def lanes_of(plan: Plan) -> set[str]:
    return {plan.lanes[lane].name for lane in plan.lane_of}


class Measured:
    """`profile` played: both ways each slows the other so many times, one figure a call, the last again and again."""

    def __init__(self, patch: pytest.MonkeyPatch, *slowdowns: float) -> None:
        self.slowdowns, self.plans = list(slowdowns), list[Plan]()
        patch.setattr("graphsched.calibration.profile", self.profile)

    def profile(self, plan: Plan, here: Platform) -> Costs:
        self.plans.append(plan)
        found = Beside(self.slowdowns.pop(0) if len(self.slowdowns) > 1 else self.slowdowns[0])
        a, b = (plan.work[name].signature for name in "ab")
        return Costs(pairs={(a, b, "GPU"): found, (b, a, "GPU"): found} if len(lanes_of(plan)) > 1 else {})


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_streams_is_asked_again_with_the_pairs_of_its_first_plan(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their curves two lanes take half the time; measured side by side they take four times as long each."""
    (work, costs), measured = two_kinds(), Measured(monkeypatch, 4.0)
    plan = measured_plan(Case("c", work, scheduler="streams", mode=mode), HERE, costs)
    assert [len(lanes_of(each)) for each in (*measured.plans, plan)] == [2, 1, 1]
    assert len(plan.costs.pairs) == 2
    assert plan.mode == mode


def test_pairs_of_the_last_plan_are_measured_and_that_is_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other figures every time: two rounds, the plan of the second with the figures of the second."""
    (work, costs), measured = two_kinds(), Measured(monkeypatch, 1.1, 1.2, 1.3)
    plan = measured_plan(Case("c", work, scheduler="streams"), HERE, costs)
    assert len(measured.plans) == 2
    assert {pair.slowdown for pair in measured.plans[1].costs.pairs.values()} == {1.1}
    assert {pair.slowdown for pair in plan.costs.pairs.values()} == {1.2}


def test_streams_is_not_asked_again_with_what_it_knew(monkeypatch: pytest.MonkeyPatch) -> None:
    work, costs = two_kinds()
    measured = Measured(monkeypatch, 1.0)
    measured_plan(Case("c", work, scheduler="streams"), HERE, costs.merged(_free(work)))
    assert len(measured.plans) == 1


def _free(work: Workload) -> Costs:
    a, b = (work[name].signature for name in "ab")
    return Costs(pairs={(a, b, "GPU"): Beside(1.0), (b, a, "GPU"): Beside(1.0)})


def test_schedulers_that_do_not_simulate_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    (work, costs), measured = two_kinds(), Measured(monkeypatch, 4.0)
    case = Case("c", work, scheduler="round_robin", options={"lanes": 2})
    plan = measured_plan(case, HERE, costs)
    assert len(measured.plans) == 1
    assert (len(lanes_of(plan)), len(plan.costs.pairs)) == (2, 2)


def test_pairs_that_stay_unknown_are_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """a and b on two lanes; nothing is measured, then the pair."""
    work, costs = two_kinds()
    monkeypatch.setattr("graphsched.calibration.profile", lambda plan, here: Costs())
    measured_plan(Case("c", work, scheduler="streams"), HERE, costs)
    assert "1 of 1 pairs of operations that may run side by side are not measured" in capsys.readouterr().err
    Measured(monkeypatch, 1.1)
    measured_plan(Case("c", work, scheduler="streams"), HERE, costs)
    assert capsys.readouterr().err == ""

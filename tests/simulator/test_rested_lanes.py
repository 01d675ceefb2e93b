"""Tasks on CPU lanes by how long these have rested, in seconds that tests can work out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from graphsched.costs import Costs, TaskCost
from graphsched.plan import Plan
from graphsched.schedulers.bounds import lower_bound
from graphsched.simulator import Model, predict
from graphsched.simulator.predict import tabulated
from graphsched.simulator.substitution import Substitution
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, kernel, planned, platform
from tests.simulator.measured import as_measured

BRIEFLY, RESTED, LONG = 1.0, 4.0, 6.0
RESTS = ((1.0, BRIEFLY), (10.0, RESTED), (100.0, LONG))
COST = TaskCost(RESTED, rests=RESTS)


def chain(between_s: float, cost: TaskCost = COST) -> Plan:
    """a (CPU) ─▶ g (`between_s` on a GPU) ─▶ b (CPU), joined by values of no bytes."""
    work, none = Workload(), TensorSpec((0,), "uint8")
    a = work.task(kernel, 0, name="a", outputs=[none], device="cpu")
    g = work.task(kernel, a, 1, name="g", outputs=[none], device="cuda:0", duration_s=between_s)
    work.task(kernel, g, 2, name="b", outputs=[], device="cpu")
    costs = Costs({(work[name].signature, "CPU"): cost for name in "ab"})
    return planned(work, platform(), {"a": "cpu/w0", "g": "cuda:0/s0", "b": "cpu/w0"}, costs=costs)


def seconds(plan: Plan, model: Model | None = None) -> Mapping[str, float]:
    return {span.action: span.duration_s for span in predict(plan, model=model or Model())}


@pytest.mark.parametrize(
    ("rest_s", "taken_s"), [(0.5, BRIEFLY), (1.0, BRIEFLY), (10**0.5, 2.5), (10.0, RESTED), (1000.0, LONG)]
)
def test_a_task_takes_what_it_does_after_such_a_rest(rest_s: float, taken_s: float) -> None:
    plan = chain(rest_s)
    assert seconds(plan)["b"] == pytest.approx(taken_s, rel=1e-4)
    assert seconds(plan, Model(rests=False))["b"] == pytest.approx(RESTED)


def test_a_lanes_first_task_has_rested_since_the_beginning() -> None:
    assert seconds(chain(5.0))["a"] == BRIEFLY


def test_costs_without_rests_are_as_ever() -> None:
    plan = chain(5.0, TaskCost(RESTED))
    assert seconds(plan)["a"] == seconds(plan)["b"] == RESTED
    assert not tabulated(plan, 1, Model())[0].rested


def test_steps_in_a_row_go_on_at_once() -> None:
    """a, b of each step: a of the next one follows b without a rest; one b in each rests for 100 s."""
    assert predict(chain(100.0), steps=3).makespan_s == pytest.approx(3 * (BRIEFLY + 100.0 + LONG))


def test_the_lanes_pace_counts_for_all_of_it() -> None:
    """The yardstick takes twice as long as when the cost was measured."""
    cost = TaskCost(RESTED, product_s=1.0, rests=RESTS)
    plan = chain(1000.0, cost)
    here = platform(dispatch=replace(FREE, product_s=2.0))
    slow = planned(plan.work, here, {"a": "cpu/w0", "g": "cuda:0/s0", "b": "cpu/w0"}, costs=plan.costs)
    assert (seconds(slow)["a"], seconds(slow)["b"]) == pytest.approx((2 * BRIEFLY, 2 * LONG))


def test_measured_tasks_take_what_was_measured() -> None:
    plan = chain(1000.0)
    predicted = predict(plan)
    swap = Substitution(as_measured(predicted, plan))
    assert swap.makespan_s(("compute",)) == pytest.approx(swap.makespan_s(()))
    assert not swap.loaded(predicted)


def test_bounds_allow_for_every_rest() -> None:
    """A task may follow another at once, and take what it does after the briefest rest."""
    work = Workload()
    work.task(kernel, 0, name="a", outputs=[], device="cpu")
    costs = Costs({(work["a"].signature, "CPU"): COST})
    plan = planned(work, platform(), {"a": "cpu/w0"}, costs=costs)
    assert 0.0 < lower_bound(work, platform(), costs) <= predict(plan).makespan_s

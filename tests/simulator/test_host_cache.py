"""What tasks on CPU lanes find in the host's caches, in seconds that tests can work out by hand.

`make` (CPU, reads `held`, 100 bytes, writes 50, of which a GPU reads) ─▶ copy ─▶ `use` (GPU).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from graphsched.costs import Costs, TaskCost
from graphsched.plan import Plan
from graphsched.platform import Device, Link, Platform
from graphsched.schedulers.bounds import lower_bound
from graphsched.simulator import Model, predict
from graphsched.simulator.host_cache import host_bytes
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, kernel, planned

NEAR, FAR = 2.0, 6.0
NEAR_PIN, FAR_PIN = 5.0, 25.0
SWEEPS = ((100, 1.0), (300, 3.0))
HELD, MADE = 100, 50
THROUGH = HELD + 2 * MADE  # it is read, made, and copied into pinned memory
COST = TaskCost(FAR, near_s=NEAR)


def small(
    *, sweeps: Sequence[tuple[int, float]] = SWEEPS, threads: int = 2, cost: TaskCost = COST, more: int = 0
) -> Plan:
    """`more` bytes that another task on the CPU makes in no time."""
    work = Workload()
    held = work.input("held", TensorSpec((HELD,), "uint8"), device="cpu")
    made = work.task(kernel, held, name="make", outputs=[TensorSpec((MADE,), "uint8")], device="cpu")
    work.task(kernel, made, 1, name="use", outputs=[], device="cuda:0", duration_s=1.0)
    work.task(kernel, 2, name="more", outputs=[TensorSpec((more,), "uint8")], device="cpu", duration_s=0.0)
    links = (
        Link("cpu", "cuda:0", "pinned", 0.0, 1e9),
        Link("cpu", "cpu", "pinned", 0.0, MADE / FAR_PIN),
        Link("cpu", "cpu", "local", 0.0, MADE / NEAR_PIN),
    )
    devices = Device("cpu", "cpu", "CPU", threads=threads), Device("cuda:0", "cuda", "GPU")
    here = Platform("here", devices, links, dispatch=replace(FREE, sweeps=tuple(sweeps)))
    costs = Costs({(work["make"].signature, "CPU"): cost})
    return planned(work, here, {"make": "cpu/w0", "use": "cuda:0/s0", "more": "cpu/w0"}, costs=costs)


def make_s(plan: Plan, model: Model | None = None) -> float:
    (span,) = [span for span in predict(plan, model=model or Model()) if span.action == "make"]
    return span.duration_s


def test_a_run_goes_through_what_lies_on_the_host_and_what_is_copied_there_on_its_way() -> None:
    assert host_bytes(small()) == THROUGH
    assert host_bytes(small(more=30)) == THROUGH + 30


@pytest.mark.parametrize(("more", "uncached"), [(0, 0.5), (50, 0.75), (100, 1.0), (1000, 1.0)])
def test_a_task_and_its_way_into_pinned_memory_take_less_the_less_a_run_goes_through(
    more: int, uncached: float
) -> None:
    """Sweeps that go round 100 bytes take 1 s, 300 bytes 3 s; between them it is linear."""
    plan = small(more=more)
    expected = NEAR + uncached * (FAR - NEAR) + NEAR_PIN + uncached * (FAR_PIN - NEAR_PIN)
    assert make_s(plan) == pytest.approx(expected)
    assert make_s(plan, Model(host_cache=False)) == pytest.approx(FAR + FAR_PIN)


def test_what_caches_hold_takes_as_little_as_was_measured() -> None:
    assert make_s(small(sweeps=((THROUGH, 1.0), (300, 3.0)))) == pytest.approx(NEAR + NEAR_PIN)


@pytest.mark.parametrize(
    "unlike",
    [{"sweeps": ()}, {"sweeps": ((100, 1.0), (300, 1.04))}, {"threads": 1}],
    ids=["not measured", "caches do not matter", "one thread"],
)
def test_else_it_takes_what_it_does_in_no_cache(unlike: dict[str, object]) -> None:
    assert make_s(small(**unlike)) == pytest.approx(FAR + FAR_PIN)  # type: ignore[arg-type]


def test_a_cost_that_is_not_known_in_caches_stays_and_none_grows() -> None:
    for cost in (TaskCost(FAR), TaskCost(FAR, near_s=7.0)):
        assert make_s(small(cost=cost)) == pytest.approx(FAR + NEAR_PIN + 0.5 * (FAR_PIN - NEAR_PIN))


def test_rests_go_with_it() -> None:
    rests = ((1.0, FAR), (100.0, 2 * FAR))
    plan = small(sweeps=((THROUGH, 1.0), (300, 3.0)), cost=replace(COST, rests=rests))
    assert make_s(plan) == pytest.approx(NEAR + NEAR_PIN)  # it begins with the run


def test_no_bound_lies_above_it() -> None:
    plan = small(sweeps=((THROUGH, 1.0), (300, 3.0)))
    bound = lower_bound(plan.work, plan.platform, plan.costs)
    assert bound <= predict(plan).makespan_s
    assert bound == pytest.approx(NEAR + 1.0)

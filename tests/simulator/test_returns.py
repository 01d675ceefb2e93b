"""What the thread's return from a wait costs: it depends on what it was that ended last, and on whether it waited."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.plan import Plan
from graphsched.simulator import Model, predict
from graphsched.simulator.model import switched
from graphsched.simulator.path import chain
from graphsched.simulator.predict import tabulated
from graphsched.simulator.readings import Readings
from graphsched.simulator.timing_events import run_with_events
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, planned, platform, workload
from tests.simulator.measured import as_measured

COSTS = replace(FREE, sync_s=0.5, yield_s=2.0, result_s=0.25)
UNTIMED = Model(timing=False)


def two(gpu_s: float, cpu_s: float, *, wait: bool = False, run_s: float = 0.0, result_s: float = 0.25) -> Plan:
    """g on a GPU and c on a CPU lane, independent; with `wait`, a wait of the thread for both of them."""
    costs = replace(COSTS, run_s=run_s, result_s=result_s)
    work = workload({"c": cpu_s, "g": gpu_s})
    lanes = {"c": "cpu/w0", "g": "cuda:0/s0"}
    return planned(work, platform(dispatch=costs), lanes, wait_after=["g"] if wait else [])


@pytest.mark.parametrize(
    ("gpu_s", "cpu_s", "makespan_s"),
    [(4.0, 1.0, 5.5), (1.0, 4.0, 4.25)],  # polled between two yields; told by an event
)
def test_the_end_of_a_run_is_seen_as_what_ends_last_is_waited_for(gpu_s: float, cpu_s: float, makespan_s: float):
    """GPU lanes are polled with a yield between two questions: half of one on average. A CPU lane's end is an event."""
    assert predict(two(gpu_s, cpu_s)).makespan_s == makespan_s


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_a_thread_with_a_core_of_its_own_stays_awake(cores: int, mode: str):
    """It returns in an eighth of a second from a lane's task, and lets no lane run while it waits for a GPU."""
    costs = replace(COSTS, spun_s=0.125)
    spare = cores > 1
    for gpu_s, cpu_s, late_s in ((4.0, 1.0, 0.5 if spare else 1.5), (1.0, 4.0, 0.125 if spare else 0.25)):
        plan = two(gpu_s, cpu_s)
        where = platform(dispatch=costs, cores=cores)
        line = predict(replace(plan, platform=where), mode=mode)
        assert line.makespan_s == pytest.approx(4.0 + late_s, abs=2e-5)
    unknown = replace(where, dispatch=COSTS)
    assert predict(replace(plan, platform=unknown), mode=mode).makespan_s == pytest.approx(4.25, abs=2e-5)


@pytest.mark.parametrize("cores", [1, 2])
def test_where_dispatch_takes_no_time_a_thread_awake_takes_none(cores: int) -> None:
    """Whether it is switched off in the platform, as for files of schedules, or in the model."""
    costs = replace(COSTS, spun_s=0.125, slept_colds=((1000, 0.25),))
    plan, off = two(1.0, 4.0), Model(dispatch=False)
    plans = [replace(plan, platform=platform(dispatch=c, cores=cores)) for c in (costs, switched(costs, off))]
    assert predict(plans[0], model=off).makespan_s == predict(plans[1]).makespan_s == 4.0


@pytest.mark.parametrize(("cpu_s", "late_s"), [(1.0, 0.0), (2.5, 0.0625), (3.5, 0.5625)])
def test_lanes_that_rest_are_not_let_run(cpu_s: float, late_s: float):
    """g ends at 4 s, c before: of 2 s that began while c was at work, what is left on average (1.5²/4 after 0.5 s)."""
    plan = two(4.0, cpu_s)
    dispatch = replace(COSTS, yield_s=0.0, look_s=2.0)
    plan = replace(plan, platform=replace(plan.platform, dispatch=dispatch))
    assert predict(plan).makespan_s == pytest.approx(4.5 + late_s)
    assert predict(plan, model=Model(dispatch=False)).makespan_s == pytest.approx(4.0)


def test_a_lane_at_work_has_the_core_between_two_questions_about_a_gpu():
    """c (8 s) and g (4 s), a wait for g alone, then h: the thread goes on half of 2 s and a question after g."""
    work = workload({"c": 8.0, "g": 4.0, "h": 1.0})
    costs = replace(COSTS, yield_s=0.0, look_s=2.0)
    lanes = {"c": "cpu/w0", "g": "cuda:0/s0", "h": "cuda:0/s0"}
    plan = planned(work, platform(dispatch=costs), lanes, wait_after=["g"])
    waits = next(i for i, kind in enumerate(plan.kinds) if kind == "wait")
    alone = replace(plan, waits=[(plan.index_of["g"],) if i == waits else row for i, row in enumerate(plan.waits)])
    line = predict(alone, model=UNTIMED)
    assert line.start_s[plan.index_of["h"]] == pytest.approx(5.5)
    assert line.makespan_s == pytest.approx(8.25)


def test_a_wait_for_a_cpu_lane_returns_as_one_for_its_results():
    """c outlasts g: the wait is over 0.25 s after c, and the run 0.5 s (a question) later; g last: half a yield."""
    line = predict(two(1.0, 4.0, wait=True), model=UNTIMED)
    assert (line.end_s.max(), line.makespan_s) == (4.25, 4.75)
    line = predict(two(4.0, 1.0, wait=True), model=UNTIMED)
    assert (line.end_s.max(), line.makespan_s) == (5.5, 6.0)


def test_what_is_over_when_it_is_asked_for_costs_no_yield():
    """The thread needs 8 s to issue g, which is over by then, as c is."""
    assert predict(two(0.0, 1.0, run_s=8.0), model=UNTIMED).makespan_s == 8.5
    assert predict(two(0.0, 1.0, run_s=8.0, wait=True), model=UNTIMED).end_s.max() == 8.5


@pytest.mark.parametrize(("asked_s", "taken_s"), [(0.0, 0.5), (0.125, 0.125), (4.0, 0.5)])
def test_what_is_over_when_it_is_asked_for_takes_a_question(asked_s: float, taken_s: float):
    """x -> y -> host, a copy that blocks for 1 s: the run ends with a question, which takes no longer than a wait."""
    work = Workload()
    work.copy(work.input("x", TensorSpec((100,), "uint8"), device="cuda:0"), to="cpu", name="y")
    plan = planned(work, platform(dispatch=replace(COSTS, asked_s=asked_s), blocking=True), {})
    assert predict(plan).makespan_s == 1.0 + taken_s
    assert predict(plan, model=Model(dispatch=False)).makespan_s == 1.0


def test_where_returns_from_cpu_lanes_are_not_known_they_are_those_from_a_gpu_without_yields():
    assert predict(two(1.0, 4.0, result_s=0.0)).makespan_s == 4.5


def test_without_cpu_lanes_or_without_gpus_nothing_is_yielded():
    work = workload({"a": 1.0, "b": 0.0})
    here = platform(dispatch=COSTS)
    assert predict(planned(work, here, {"a": "cuda:0/s0", "b": "cuda:0/s1"})).makespan_s == 1.5
    assert predict(planned(work, here, {"a": "cpu/w0", "b": "cpu/w1"})).makespan_s == 1.25


@pytest.mark.parametrize("gpu_s", [0.0, 1.0, 2.5, 4.0])
@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize("figures", [{}, {"yield_s": 0.0, "look_s": 2.0}])
def test_chains_of_causes_and_readings_count_the_same(gpu_s: float, wait: bool, figures: dict[str, float]):
    """The chain adds up to the makespan; of a perfect prediction nothing is left for the thread's returns."""
    plan = two(gpu_s, 2.0, wait=wait)
    plan = replace(plan, platform=replace(plan.platform, dispatch=replace(plan.platform.dispatch, **figures)))
    columns, _ = tabulated(plan, 1, UNTIMED)
    _, engine, makespan_s = run_with_events(columns, plan)
    assert sum(stretch.seconds for stretch in chain(columns, engine)) == pytest.approx(makespan_s)
    found = Readings(plan, columns, as_measured(predict(plan), plan))
    assert found.return_s == pytest.approx(0.0)


def test_a_result_that_comes_while_the_thread_returns_from_another_holds_it_up_no_more():
    """c (4 s) and d (4.125 s) -> g: the thread returns from c at 4.25, and d is there; readings have it so too."""
    work = workload({"c": 4.0, "d": 4.125, "g": 1.0}, [("c", "g", 0), ("d", "g", 0)])
    plan = planned(work, platform(dispatch=COSTS), {"c": "cpu/w0", "d": "cpu/w1", "g": "cuda:0/s0"})
    line = predict(plan)
    assert line.start_s.tolist()[-1] == 4.25
    found = Readings(plan, tabulated(plan, 1, Model())[0], as_measured(line, plan))
    assert list(found.pause_s.values()) == [0.0]

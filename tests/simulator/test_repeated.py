"""Repeats: the first call, or launch, comes behind the wait that ended the run before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.costs import TaskCost
from graphsched.plan import Plan
from graphsched.platform import Dispatch
from graphsched.simulator import Model, predict
from graphsched.simulator.repeated import TINY_S
from tests.builders import FREE, operations, planned, platform, workload

COLD = replace(FREE, colds=((20, 4e-6), (200, 1e-5)))
KNOWN_US = 4.0 * TINY_S * 1e6 / 20  # what a run of a tiny task was measured with
COLD_US = {20: 4.0, 200: 10.0, 9000: 10 + 8e5 / 3e4}  # by the wait, which counts up to a millisecond


@pytest.mark.parametrize("work_us", COLD_US)
@pytest.mark.parametrize("wait", [False, True])
def test_a_run_is_later_by_what_its_first_call_takes_longer(work_us: float, wait: bool) -> None:
    """a -> b, and perhaps a wait at the end; with timing events nothing is."""
    work = workload({"a": work_us * 1e-6, "b": 0.0}, [("a", "b", 0)])
    waits = ["b"] if wait else []
    plan = planned(work, platform(dispatch=COLD), {"a": "cuda:0/s0", "b": "cuda:0/s0"}, wait_after=waits)
    line = predict(plan)
    assert line.makespan_s * 1e6 == pytest.approx(work_us + COLD_US[work_us] - KNOWN_US)
    assert line.timed_makespan_s * 1e6 == pytest.approx(work_us)
    assert line.interval_s is not None
    assert line.interval_s[0] <= line.makespan_s <= line.interval_s[1]
    assert predict(plan, model=Model(dispatch=False)).makespan_s * 1e6 == pytest.approx(work_us)


@pytest.mark.parametrize("work_us", [0.0, 2.0])
def test_a_run_of_a_tiny_task_has_its_own_wait_already(work_us: float) -> None:
    plan = planned(workload({"a": work_us * 1e-6}), platform(dispatch=COLD), {"a": "cuda:0/s0"})
    assert predict(plan).makespan_s * 1e6 == pytest.approx(work_us)


def test_a_run_that_the_thread_bounds_ends_without_a_wait() -> None:
    """Four calls of 100 µs each, of nothing: the next run's first call is as the others."""
    work, costs = operations(dict.fromkeys("abcd", 0), [TaskCost(0.0, dispatch_s=1e-4)])
    plan = planned(work, platform(dispatch=COLD), dict.fromkeys("abcd", "cuda:0/s0"), costs=costs)
    assert predict(plan).makespan_s == pytest.approx(4e-4)


@pytest.mark.parametrize("order", ["gc", "cg"])
def test_what_comes_first_in_the_plan_decides_nothing(order: str) -> None:
    """g on a GPU for 1 ms, c on the CPU for 1 µs, neither waits for the other: g's call is behind the wait of g."""
    work = workload({"g": 1e-3, "c": 1e-6})
    plan = planned(work, platform(dispatch=COLD), {"g": "cuda:0/s0", "c": "cpu/w0"}, order=list(order))
    assert predict(plan).makespan_s * 1e6 == pytest.approx(1000 + COLD_US[9000] - KNOWN_US)


@pytest.mark.parametrize("last_us", [0.0, 1.0])
def test_a_task_of_the_cpu_at_the_end_does_not_warm_the_thread(last_us: float) -> None:
    """g for 9 ms, a wait, c on the CPU: no call to a stream comes in between."""
    work = workload({"g": 9e-3, "c": last_us * 1e-6}, [("g", "c", 0)])
    plan = planned(work, platform(dispatch=COLD), {"g": "cuda:0/s0", "c": "cpu/w0"}, wait_after=["g"])
    assert predict(plan).makespan_s * 1e6 == pytest.approx(9000 + last_us + COLD_US[9000] - KNOWN_US)


@pytest.mark.parametrize("work_us", COLD_US)
def test_the_launch_of_a_graph_is_as_cold_as_a_call(work_us: float) -> None:
    """a -> b in one graph: the thread waits for both; with timing events, too."""
    work = workload({"a": work_us * 1e-6, "b": 0.0}, [("a", "b", 0)])
    plans = [planned(work, platform(dispatch=c), dict.fromkeys("ab", "cuda:0/s0")) for c in (COLD, FREE)]
    cold, free = (predict(plan, mode="graph") for plan in plans)
    waited_us = free.makespan_s * 1e6 - FREE.graph_launch_s * 1e6
    more_us = COLD.cold_after_s(waited_us * 1e-6) * 1e6 - KNOWN_US
    assert (cold.makespan_s - free.makespan_s) * 1e6 == pytest.approx(more_us)
    assert (cold.timed_makespan_s - free.timed_makespan_s) * 1e6 == pytest.approx(more_us)
    assert (cold.start_s - free.start_s) * 1e6 == pytest.approx([more_us, more_us])
    assert more_us > 0
    off = [predict(plan, mode="graph", model=Model(dispatch=False)).makespan_s for plan in plans]
    assert off[0] == off[1]


@pytest.mark.parametrize("gpus", [1, 2])
def test_launches_behind_waits_have_figures_of_their_own(gpus: int) -> None:
    """a (200 µs), b beside it, on one GPU or on two: all of a launch's wait counts, none is in its figures."""
    costs = replace(COLD, graph_colds=((20, 1e-6), (200, 3e-6)), graph_across_colds=((20, 2e-6), (200, 5e-6)))
    work, lanes = workload({"a": 2e-4, "b": 1e-6}), {"a": "cuda:0/s0", "b": f"cuda:{gpus - 1}/s1"}
    cold, free = (predict(planned(work, platform(gpus=2, dispatch=c), lanes), mode="graph") for c in (costs, FREE))
    more_s = costs.launch_cold_s(free.makespan_s - FREE.graph_launch_s, gpus)
    assert cold.makespan_s - free.makespan_s == pytest.approx(more_s)
    assert cold.timed_makespan_s - free.timed_makespan_s == pytest.approx(more_s)
    assert more_s > {1: 2.9e-6, 2: 4.9e-6}[gpus]


def test_a_launch_behind_a_task_of_the_cpu_has_the_figure_of_launches() -> None:
    """c on the CPU for 200 µs ──▶ h (1 µs): the thread waits for c, then launches the graph of h."""
    costs = replace(COLD, graph_colds=((20, 1e-6), (200, 3e-6)))
    work = workload({"c": 2e-4, "h": 1e-6}, [("c", "h", 0)])
    lanes = {"c": "cpu/w0", "h": "cuda:0/s0"}
    cold, free = (predict(planned(work, platform(dispatch=c), lanes), mode="graph") for c in (costs, FREE))
    assert cold.makespan_s - free.makespan_s == pytest.approx(3e-6, rel=0.05)


@pytest.mark.parametrize("gpus", [1, 2])
@pytest.mark.parametrize(("lane_s", "more_us"), [(1e-3, (40.0, 90.0)), (5e-4, (20.0, 45.0)), (4e-3, (60.0, 120.0))])
def test_a_launch_that_the_thread_has_slept_for_has_figures_of_its_own(
    gpus: int, lane_s: float, more_us: tuple[float, float]
) -> None:
    """c on the CPU ──▶ h (on each GPU, a graph): the thread sleeps for c, and at the end polls for some 10 µs."""
    slept = ((1000, 4e-5), (3000, 6e-5)), ((1000, 9e-5), (3000, 1.2e-4))
    costs = replace(COLD, graph_colds=((20, 1e-6),), graph_across_colds=((20, 1e-6),))
    costs = replace(costs, graph_slept_colds=slept[0], graph_across_slept_colds=slept[1])
    work = workload({"c": lane_s} | {f"h{k}": 1e-6 for k in range(gpus)}, [("c", f"h{k}", 0) for k in range(gpus)])
    lanes = {"c": "cpu/w0"} | {f"h{k}": f"cuda:{k}/s0" for k in range(gpus)}
    plans = [planned(work, platform(gpus=2, dispatch=c), lanes) for c in (costs, FREE)]
    cold, free = (predict(plan, mode="graph") for plan in plans)
    assert (cold.makespan_s - free.makespan_s) * 1e6 == pytest.approx(more_us[gpus - 1], rel=0.02, abs=0.5)
    assert (cold.timed_makespan_s - free.timed_makespan_s) * 1e6 == pytest.approx(more_us[gpus - 1], rel=0.02, abs=0.5)
    without = predict(plans[0], mode="graph", model=Model(slept=False))
    assert 0.0 < without.makespan_s - free.makespan_s < 1e-4
    assert without.makespan_s != cold.makespan_s


@pytest.mark.parametrize(("lane_s", "more_us"), [(1e-3, 40.0), (5e-4, 20.0), (4e-3, 60.0)])
@pytest.mark.parametrize("wait", [False, True])
def test_calls_behind_a_task_of_the_cpu_have_figures_of_their_own(lane_s: float, more_us: float, wait: bool) -> None:
    """c on the CPU ──▶ h ─▶ i, calls to a stream: all that both take longer is the first one's; or h after a wait."""
    costs = replace(COLD, slept_colds=((1000, 4e-5), (3000, 6e-5)))
    work = workload({"c": lane_s, "h": 1e-6, "i": 1e-6}, [("c", "h", 0), ("h", "i", 0)])
    lanes = {"c": "cpu/w0", "h": "cuda:0/s0", "i": "cuda:0/s0"}
    waits = ["c"] if wait else []
    plan = planned(work, platform(dispatch=costs), lanes, wait_after=waits)
    line, free = (predict(replace(plan, platform=platform(dispatch=c))) for c in (costs, FREE))
    timed_us = (line.timed_makespan_s - free.timed_makespan_s) * 1e6
    assert timed_us == pytest.approx(more_us, rel=0.02, abs=0.5)
    assert (line.start_s - free.start_s)[plan.index_of["h"]] * 1e6 == pytest.approx(timed_us)
    without = predict(plan, model=Model(slept=False)).timed_makespan_s
    cold_us = COLD.cold_after_s(lane_s) * 1e6 if wait else 0.0
    assert (without - free.timed_makespan_s) * 1e6 == pytest.approx(cold_us, rel=0.02)


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_a_brief_wait_behind_a_long_one_takes_nothing_back(mode: str) -> None:
    """c (1 ms, CPU), a wait for it, d (1 µs, CPU), a wait for that, h (GPU), which both waits count for."""
    costs = replace(COLD, graph_colds=((20, 4e-6), (200, 1e-5)))
    work = workload({"c": 1e-3, "d": 1e-6, "h": 1e-6})
    lanes = {"c": "cpu/w0", "d": "cpu/w0", "h": "cuda:0/s0"}
    plan = planned(work, platform(dispatch=costs), lanes, wait_after=["c", "d"])
    line = predict(plan, mode=mode)
    free = predict(replace(plan, platform=platform(dispatch=FREE)), mode=mode)
    more_s = line.timed_makespan_s - free.timed_makespan_s
    assert more_s == pytest.approx(costs.cold_after_s(1.001e-3), rel=0.02)


def test_a_run_that_ends_on_a_lane_begins_with_calls_behind_one() -> None:
    """g (1 µs, GPU) ──▶ c (1 ms, CPU): the next run's first call comes behind that."""
    costs = replace(COLD, slept_colds=((1000, 4e-5),))
    work = workload({"g": 1e-6, "c": 1e-3}, [("g", "c", 0)])
    plan = planned(work, platform(dispatch=costs), {"g": "cuda:0/s0", "c": "cpu/w0"})
    free = predict(replace(plan, platform=platform(dispatch=FREE)))
    assert predict(plan).makespan_s - free.makespan_s == pytest.approx(4e-5 - KNOWN_US * 1e-6, abs=1e-6)


def slept_costs() -> Dispatch:
    return replace(COLD, graph_colds=((20, 1e-6), (1000, 8e-6)), graph_slept_colds=((1000, 4e-5),))


def more_s(plan: Plan) -> float:
    """What the thread's sleep adds to a run in graph mode."""
    line, without = predict(plan, mode="graph"), predict(plan, mode="graph", model=Model(slept=False))
    timed = predict(plan, mode="graph").timed_makespan_s - without.timed_makespan_s
    assert timed == pytest.approx(line.makespan_s - without.makespan_s, abs=2e-6)
    return line.makespan_s - without.makespan_s


@pytest.mark.parametrize("brief_s", [0.0, 1e-6, 1e-5])
def test_a_brief_sleep_hides_no_longer_wait(brief_s: float) -> None:
    """c (1 ms, CPU), for which the thread waits; d (brief, CPU) ──▶ h: it is as cold as behind the longer of both."""
    work = workload({"c": 1e-3, "d": brief_s, "h": 1e-6}, [("d", "h", 0)])
    lanes = {"c": "cpu/w0", "d": "cpu/w1", "h": "cuda:0/s0"}
    plan = planned(work, platform(dispatch=slept_costs()), lanes, wait_after=["c"])
    assert more_s(plan) == pytest.approx(3.2e-5, abs=1e-6)


def test_sleeping_in_a_wait_counts_and_polling_does_not() -> None:
    """c (1 ms; on the CPU, or on the GPU), a wait for it, h (GPU)."""
    work = workload({"c": 1e-3, "h": 1e-6})
    for lane, more in (("cpu/w0", 3.2e-5), ("cuda:0/s1", 0.0)):
        lanes = {"c": lane, "h": "cuda:0/s0"}
        plan = planned(work, platform(dispatch=slept_costs()), lanes, wait_after=["c"])
        assert more_s(plan) == pytest.approx(more, abs=2e-6)


def test_a_run_that_ends_on_a_lane_of_the_cpu_begins_behind_a_sleep() -> None:
    """g (1 µs, GPU) ──▶ c (1 ms, CPU): the next run's graph is launched behind that."""
    work = workload({"g": 1e-6, "c": 1e-3}, [("g", "c", 0)])
    plan = planned(work, platform(dispatch=slept_costs()), {"g": "cuda:0/s0", "c": "cpu/w0"})
    assert more_s(plan) == pytest.approx(3.2e-5, abs=2e-6)


def test_a_result_that_is_there_before_the_thread_asks_has_cost_it_no_sleep() -> None:
    """c (1 µs, CPU) beside g (1 ms), for which the thread waits ──▶ h, which reads what c gave."""
    costs = replace(COLD, graph_colds=((20, 1e-6),), graph_slept_colds=((1000, 4e-5),))
    work = workload({"c": 1e-6, "g": 1e-3, "h": 1e-6}, [("c", "h", 0)])
    lanes = {"c": "cpu/w0", "g": "cuda:0/s0", "h": "cuda:0/s0"}
    plan = planned(work, platform(dispatch=costs), lanes, wait_after=["g"])
    awake = predict(replace(plan, platform=platform(dispatch=replace(costs, graph_slept_colds=()))), mode="graph")
    assert predict(plan, mode="graph").makespan_s == awake.makespan_s


def test_the_launch_of_a_graph_behind_a_task_of_the_cpu_is_cold() -> None:
    """g (1 µs) ──▶ c on the CPU for 200 µs ──▶ h (1 µs): the thread waits for c, and at the end hardly at all."""
    work = workload({"g": 1e-6, "c": 2e-4, "h": 1e-6}, [("g", "c", 0), ("c", "h", 0)])
    lanes = {"g": "cuda:0/s0", "c": "cpu/w0", "h": "cuda:0/s0"}
    cold, free = (predict(planned(work, platform(dispatch=c), lanes), mode="graph") for c in (COLD, FREE))
    waited_s = free.end_s[cold.plan.index_of["c"]] - free.issue_end_s[cold.plan.index_of["g"]]
    more_s = COLD.cold_after_s(waited_s)
    assert cold.makespan_s - free.makespan_s == pytest.approx(more_s, rel=0.05)
    assert more_s > 1e-5


def test_without_gpus_nothing_is_cold() -> None:
    plan = planned(workload({"a": 1e-3}), platform(dispatch=COLD), {"a": "cpu/w0"})
    assert predict(plan).makespan_s == pytest.approx(1e-3)

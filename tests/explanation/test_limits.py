"""Lower bounds of this plan, in closed form and below every prediction."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.costs import Beside, Costs, TaskCost
from graphsched.explanation import Limit, explain
from graphsched.platform import Dispatch
from graphsched.schedulers import schedule
from graphsched.simulator import predict
from graphsched.workload import Workload
from tests.builders import FREE, kernel, operations, planned, platform, workload
from tests.explanation.hand import charged, predicted
from tests.simulator.test_properties import NOISY, random_plan


def test_each_kind_has_its_largest() -> None:
    """a(2) ─ 300 bytes ─▶ b(1) on the other GPU, c(2) after a on its lane; a bus of 60 B/s."""
    line = predicted(
        {"a": 2.0, "c": 2.0, "b": 1.0},
        {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": "cuda:0/s0"},
        [("a", "b", 300)],
        where=platform(shared={"bus": 60.0}, dispatch=charged(run_s=0.25)),
    )
    mine = [limit for limit in explain(line).limits if limit.scope == "this plan"]
    assert mine == [
        Limit("work", "this plan", "cuda:0", 4.0),
        Limit("link", "this plan", "bus", 5.0),
        Limit("lane", "this plan", "cuda:0>cuda:1", 5.0),
        Limit("path", "this plan", "", 8.0),
        Limit("dispatch", "this plan", "host/py", 0.75),
    ]
    anyone = {limit.kind: limit.seconds for limit in explain(line).limits if limit.scope == "any plan"}
    assert anyone == {  # two GPUs, 32 lanes of the CPU
        "work": pytest.approx(5.0 / 34),
        "path": 3.0,
        "intervals": 3.0,
        "link": 0.0,
    }


def test_what_the_scheduler_has_proven_is_a_bound() -> None:
    """A plan that says that none takes less than 2.5 s."""
    line = predicted({"a": 2.0}, {"a": "cuda:0/s0"}, [])
    proven = replace(line, plan=replace(line.plan, bound_s=2.5))
    assert Limit("scheduler", "any plan", "", 2.5) in explain(proven).limits
    assert "scheduler" not in {limit.kind for limit in explain(line).limits}


def test_a_wait_of_the_thread_makes_the_path_longer() -> None:
    lanes = {"a": "cuda:0/s0", "b": "cuda:1/s0"}
    line = predicted({"a": 2.0, "b": 1.0}, lanes, wait_after=["a"])
    assert next(x.seconds for x in explain(line).limits if (x.kind, x.scope) == ("path", "this plan")) == 3.0


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from([FREE, NOISY, replace(FREE, run_s=0.5, copy_s=0.25, sync_s=0.125)]))
def test_no_prediction_is_below_a_bound(seed: int, dispatch: Dispatch) -> None:
    line = predict(random_plan(seed, dispatch))
    for limit in explain(line).limits:
        assert limit.seconds <= line.timed_makespan_s * (1 + 1e-9), limit


def test_tasks_that_do_not_slow_each_other_take_up_less() -> None:
    """a and b, 1 s each, at once on one GPU: as measured together, no slower; beside copies of themselves, twice."""
    work, costs = operations({"a": 0, "b": 1}, [TaskCost(1.0, concurrency=((2, 2.0),))] * 2)
    a, b = (work[name].signature for name in "ab")
    beside = {(x, y, "GPU"): Beside(1.0) for x, y in ((a, b), (b, a))}
    where = platform(gpus=1)
    line = predict(planned(work, where, {"a": "cuda:0/s0", "b": "cuda:0/s1"}, costs=costs.merged(Costs(pairs=beside))))
    assert line.makespan_s == pytest.approx(1.0)
    mine = next(x for x in explain(line).limits if (x.kind, x.scope) == ("work", "this plan"))
    assert mine.seconds <= line.makespan_s


def test_limits_of_a_graph_are_those_of_tasks_inside_it() -> None:
    """2 s in a stream, 0.5 s in a CUDA graph: of any plan and of this one."""
    work = Workload()
    work.task(kernel, 0, name="t", outputs=[], device="cuda")
    costs = Costs({(work["t"].signature, "GPU"): TaskCost(2.0, graph_s=0.5)})
    for mode, seconds in (("eager", 2.0), ("graph", 0.5)):
        plan = schedule(work, platform(gpus=1), costs, scheduler="one_stream", mode=mode)
        found = {(x.kind, x.scope): x.seconds for x in explain(predict(plan)).limits}
        assert found["path", "any plan"] == found["path", "this plan"] == seconds


def test_a_graph_is_issued_once_and_its_operations_are_not() -> None:
    """a ─▶ b on one GPU, in one graph that is launched in 2 s; h beside them on the CPU. Calls in streams: 4 s more."""
    where = platform(gpus=1, dispatch=charged(graph_launch_s=2.0, launch_s=2.0, start_s=4.0, change_s=4.0))
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s0", "h": "cpu/w0"}
    plan = planned(workload(dict.fromkeys("abh", 0.5), [("a", "b", 100)]), where, lanes)
    line = predict(replace(plan, mode="graph"), mode="graph")
    found = next(x.seconds for x in explain(line).limits if x.kind == "dispatch")
    assert found == pytest.approx(2.0)
    assert found <= line.timed_makespan_s


def test_tasks_put_behind_others_of_a_cpu_lane_are_handed_over_sooner() -> None:
    """a, b and c on one CPU lane: a wakes it in 2 s, the others are put there in 0.25 each."""
    where = platform(dispatch=charged(handoff_s=2.0, put_s=0.25))
    line = predict(planned(workload(dict.fromkeys("abc", 9.0), []), where, dict.fromkeys("abc", "cpu/w0")))
    assert next(x.seconds for x in explain(line).limits if x.kind == "dispatch") == pytest.approx(2.5)


def test_of_several_ranks_the_one_that_issues_most_counts() -> None:
    """a and b on cuda:0, c on cuda:1, a rank each: 2 s and 1 s, at once."""
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s0", "c": "cuda:1/s0"}
    plan = planned(workload(dict.fromkeys("abc", 0.125), []), platform(dispatch=charged(run_s=1.0)), lanes)
    line = predict(replace(plan, mode="distributed"), mode="distributed")
    found = next(x.seconds for x in explain(line).limits if x.kind == "dispatch")
    assert found == pytest.approx(2.0)
    assert found <= line.timed_makespan_s

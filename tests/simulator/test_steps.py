"""Several steps of one plan, submitted one after another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.costs import Costs, TaskCost
from graphsched.plan import Plan
from graphsched.plan.steps import carried_waits
from graphsched.platform import Dispatch
from graphsched.simulator import Model, predict
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, ROUND, chain, planned, platform, workload

SPEC = TensorSpec((100,), "uint8")


def forward(_w: object) -> None: ...


def update(_w: object, _g: object) -> None: ...


def test_steps_of_one_lane_follow_each_other():
    """t0 -> t1 of 1 s and 2 s, three times."""
    plan = planned(workload({"t0": 1.0, "t1": 2.0}), platform(), {"t0": "cuda:0/s0", "t1": "cuda:0/s0"})
    timeline = predict(plan, steps=3)
    assert timeline.makespan_s == 9
    assert timeline.end_s.tolist() == [1, 3]


def test_one_step_overlaps_the_next_but_not_the_one_after():
    """a (1 s) on cuda:0, b (10 s) on cuda:1. a of step 2 waits for b of step 0: two buffers."""
    plan = planned(workload({"a": 1.0, "b": 10.0}), platform(), {"a": "cuda:0/s0", "b": "cuda:1/s0"})
    assert [predict(plan, steps=n).makespan_s for n in (1, 2, 3)] == [10, 20, 30]
    plan = planned(workload({"a": 4.0, "b": 10.0}, [("a", "b", 0)]), platform(), {"a": "cuda:0/s0", "b": "cuda:1/s0"})
    # step 0: a 0-4, b 4-14; 1: a 4-8, b 14-24; 2: a 14-18, b 24-34
    assert [predict(plan, steps=n).makespan_s for n in (1, 2, 3)] == [14, 24, 34]


def test_two_buffers_hold_back_a_pipeline():
    """t0 -> t1 -> t2 -> t3, a device each, 1 s each: steps 0 and 1 overlap, step 2 begins when 0 is over."""
    lanes = {f"t{i}": f"cuda:{i}/s0" for i in range(4)}
    plan = planned(chain(4), platform(gpus=4), lanes)
    assert [predict(plan, steps=n).makespan_s for n in (1, 2, 3, 4, 5)] == [4, 5, 8, 9, 12]
    late = planned(chain(4), platform(gpus=4, dispatch=replace(FREE, other_device_s=0.5)), lanes)
    assert [predict(late, steps=n).makespan_s for n in (1, 3)] == [5.5, 11.5]


def trained(lanes: dict[str, str], dispatch: Dispatch = FREE) -> Plan:
    """use(w) and grad() -> upd(w, grad), a training step; w is updated in place."""
    work = Workload()
    w = work.state("w", SPEC)
    work.task(forward, w, name="use", outputs=[], duration_s=3.0)
    g = work.task(forward, w, name="grad", outputs=[SPEC], duration_s=1.0)
    work.task(update, w, g, name="upd", outputs=[], updates=w, duration_s=2.0)
    where = platform(dispatch=dispatch)
    free = Costs({(work[t].signature, "GPU"): TaskCost(0.0) for t in ("use", "upd")})
    return planned(work, where, lanes, costs=free)


def test_state_is_carried_to_the_next_step():
    """use on s0, grad and upd on s1: use of step 1 waits for upd of step 0, which waits for use of step 0."""
    plan = trained({"use": "cuda:0/s0", "grad": "cuda:0/s1", "upd": "cuda:0/s1"})
    assert carried_waits(plan) == {0: (2,)}
    alone = Model(sharing=False)
    assert predict(plan, model=alone).makespan_s == 5
    assert predict(plan, steps=2, model=alone).makespan_s == 10


def test_update_waits_for_reads_after_the_last_update():
    """upd(w) on s1, then use(w) on s0: upd of step 1 waits for use of step 0."""
    work = Workload()
    w = work.state("w", SPEC, device="cuda:0")
    work.task(forward, w, name="upd", outputs=[], updates=w, duration_s=2.0)
    work.task(forward, w, name="use", outputs=[], duration_s=3.0)
    costs = Costs({(work["upd"].signature, "GPU"): TaskCost(0.0)})
    plan = planned(work, platform(), {"upd": "cuda:0/s1", "use": "cuda:0/s0"}, costs=costs)
    assert carried_waits(plan) == {0: (1,)}
    assert [predict(plan, steps=n).makespan_s for n in (1, 2, 3)] == [5, 10, 15]


def test_copies_of_a_state_are_reads_of_it():
    """use(w) on cuda:1 through a copy; upd(w) on cuda:0: the copy of step 1 waits for upd of step 0."""
    plan = trained({"use": "cuda:1/s0", "grad": "cuda:0/s0", "upd": "cuda:0/s0"})
    copy = plan.index_of["w>cuda:1"]
    assert carried_waits(plan) == {copy: (plan.index_of["upd"],)}


def test_graphs_follow_each_other():
    """a (4 s) -> b (10 s) on two GPUs: in streams a of step 1 runs beside b of step 0, in graphs after it."""
    plan = planned(workload({"a": 4.0, "b": 10.0}, [("a", "b", 0)]), platform(), {"a": "cuda:0/s0", "b": "cuda:1/s0"})
    assert [predict(plan, steps=n).makespan_s for n in (1, 2, 3)] == [14, 24, 34]
    graphs = [predict(plan, mode="graph", steps=n).makespan_s for n in (1, 2, 3)]
    assert graphs == pytest.approx([14, 28, 42], rel=1e-5)


@pytest.mark.parametrize("first", ["run", "cpu"])
def test_a_step_takes_the_thread_more_than_its_calls(first: str):
    """Steps bound by the thread, t0 ──▶ t1: on two GPUs or, t0, on a lane of the CPU; a single run has none of it."""
    lanes = {"t0": "cpu/w0" if first == "cpu" else "cuda:1/s0", "t1": "cuda:0/s0"}
    costs = {"step_s": 100.0, "step_gpu_s": 7.0}
    without, plan = (planned(chain(2, 0.0), platform(dispatch=replace(FREE, **c)), lanes) for c in ({}, costs))
    each = 100 if first == "cpu" else 107
    more = [predict(plan, steps=n).makespan_s - predict(without, steps=n).makespan_s for n in (1, 2, 5)]
    assert more == [0, 2 * each, 5 * each]
    off = [predict(p, steps=3, model=Model(dispatch=False)).makespan_s for p in (plan, without)]
    assert off[0] == off[1]


@pytest.mark.parametrize("on_cpu", [False, True])
def test_a_step_takes_the_thread_more_than_its_graphs(on_cpu: bool):
    """t0 ──▶ t1 ──▶ t2 on two GPUs, or t1 on a lane of the CPU between two graphs: as much on one GPU as on two."""
    lanes = {"t0": "cuda:0/s0", "t1": "cpu/w0" if on_cpu else "cuda:1/s0", "t2": "cuda:0/s0"}
    costs = {"graph_step_s": 100.0, "step_s": 3.0, "step_gpu_s": 7.0}
    without, plan = (planned(chain(3, 0.0), platform(dispatch=replace(FREE, **c)), lanes) for c in ({}, costs))
    more = [
        predict(plan, mode="graph", steps=n).makespan_s - predict(without, mode="graph", steps=n).makespan_s
        for n in (1, 2, 5)
    ]
    assert more == pytest.approx([0, 200, 500])


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_the_thread_goes_on_without_a_pause(steps: int):
    """A host-bound chain: one issue after another, over all steps, and one wait at the end."""
    plan = planned(chain(2, 0.0), platform(dispatch=ROUND), {"t0": "cuda:0/s0", "t1": "cuda:0/s0"})
    assert predict(plan, steps=steps).makespan_s == 16 + 2 * steps + 4096 + 128

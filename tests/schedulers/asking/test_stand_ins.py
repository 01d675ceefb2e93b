"""Every scheduler places workloads with collectives, which none of them knows of."""

from __future__ import annotations

import warnings

import pytest

from graphsched.costs import Costs
from graphsched.plan import Placement, Plan
from graphsched.platform import Platform
from graphsched.schedulers import lower_bound, schedule, schedulers
from graphsched.schedulers.asking.answers import answer_of
from graphsched.schedulers.asking.stand_ins import with_stand_ins
from graphsched.simulator import predict
from graphsched.workload import TensorSpec, Value, Workload
from tests.executors.programs import machine

FOUR = TensorSpec((4,))
WORKERS = ("worker:0", "worker:1", "worker:2")


def step() -> Workload:
    """w_k ── g_k ──┬── sum ──┬── u_k (updates w_k);   free tasks beside it; a barrier; a copy to the host."""
    work = Workload()
    states = [work.state(f"w{k}", FOUR, device=device) for k, device in enumerate(WORKERS)]
    for i in range(2):
        made = [_run(work, f"g{i}.{k}", state, WORKERS[k]) for k, state in enumerate(states)]
        sums = work.collective("all_reduce", made, devices=WORKERS, name=f"sum{i}", duration_s=1e-3)
        for k, (state, value) in enumerate(zip(states, sums, strict=True)):
            name = f"u{i}.{k}"
            work.task(abs, state, value, updates=state, name=name, outputs=[], duration_s=1e-4)
        work.task(abs, sums[1], name=f"free{i}", outputs=[FOUR], duration_s=1e-4)
        if not i:
            work.barrier()
    work.copy(sums[2], to="cpu", name="out")
    return work


def _run(work: Workload, name: str, value: Value, device: str) -> Value:
    made: Value = work.task(abs, value, name=name, device=device, outputs=[FOUR], duration_s=2e-4)
    return made


@pytest.mark.parametrize("name", schedulers())
def test_every_scheduler_places_collectives(name: str) -> None:
    work, platform = step(), machine(*WORKERS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = schedule(work, platform, scheduler=name)
    plan.check()
    assert Plan.from_text(plan.text, work, platform).text == plan.text
    assert [lane.name for lane in plan[plan.index_of["sum1"]].lanes] == [f"{device}/comm" for device in WORKERS]
    assert lower_bound(work, platform) <= predict(plan).makespan_s * (1 + 1e-9)
    assert plan.bound_s is None


def test_what_is_proven_of_stand_ins_is_not_said_of_the_plan() -> None:
    plan = schedule(step(), machine(*WORKERS), scheduler="optimal", seconds=20.0)
    assert "collectives as tasks" in plan.scheduler


def test_a_stand_in_keeps_the_graph() -> None:
    work = step()
    made = with_stand_ins(work, machine(*WORKERS), Costs(), "eager")
    assert set(made.graph.edges) == set(work.graph.edges)
    assert [*made.graph] == [*work.graph]
    assert (made["sum0"].kind, made["sum0"].duration_s, made["sum0"].devices) == ("run", 1e-3, ("worker:0",))
    assert with_stand_ins(made, machine(*WORKERS), Costs(), "eager") is made


def test_schedulers_are_asked_about_what_they_know() -> None:
    """Tasks, copies and barriers; the lanes of stand-ins are dropped from what they say."""
    kinds: set[str] = set()

    def mine(work: Workload, platform: Platform, costs: Costs) -> Placement:
        kinds.update(task.kind for task in work.tasks)
        lanes = {t.name: f"{(t.devices or WORKERS)[0]}/s0" for t in work.tasks if t.kind == "run"}
        return Placement([*work.graph], {**lanes, **_at_home(work)})

    placement = answer_of("mine", mine, step(), machine(*WORKERS), Costs(), "eager", {})
    assert kinds == {"run", "copy", "barrier"}
    assert "sum0" not in placement.lanes


def _at_home(work: Workload) -> dict[str, str]:
    """Updates on the homes of their states."""
    return {t.name: f"{t.updates[0].device}/s0" for t in work.tasks if t.updates}

"""A graph over several GPUs is over when the GPU that it is launched on looks and finds the others done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from graphsched.costs import Costs, TaskCost
from graphsched.plan import Plan
from graphsched.simulator import Model, looks, predict
from graphsched.simulator.host_calls import without_events
from graphsched.simulator.looks import known_at_s
from graphsched.simulator.path import chain
from graphsched.simulator.predict import tabulated
from graphsched.simulator.repeated import run_again
from graphsched.simulator.substitution import TERMS, Substitution
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, planned, platform
from tests.simulator.measured import as_measured, twin

FIRST_S = 4.0  # from the launch to the first node
COSTS = replace(FREE, graph_launch_s=3.0, launch_s=1.0, sync_s=0.5, graph_other_device_s=0.25)
LOOKS = {"graph_look_s": 10.0, "graph_known_s": 3.0, "graph_look_again_s": 12.0}
LAUNCHED_S = 3.0
KNOWN_S = LAUNCHED_S + 3  # of what has ended by 4 s; looks let what ends later be known from 6, 18 and 28 s on, for 1 s
UNTIMED = Model(timing=False)


@pytest.fixture(autouse=True)
def sure_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look lasts 1 s and lets a graph be over 2 s later, and predicted times are sure."""
    monkeypatch.setattr(looks, "FOUND_S", 2.0)
    monkeypatch.setattr(looks, "LOOK_S", 1.0)
    monkeypatch.setattr(looks, "UNSURE", 0.0)


def apart(gpus: int = 2, **seconds: float) -> Plan:
    """a on cuda:0, b on cuda:1, c on cuda:2: independent tasks, each of so many seconds."""
    return plan_of(gpus, seconds, {name: f"cuda:{k}" for k, name in enumerate("abc"[:gpus])})


def plan_of(gpus: int, seconds: dict[str, float], devices: dict[str, str], **dispatch: Any) -> Plan:
    work, kinds = Workload(), {"a": torch.neg, "b": torch.abs, "c": torch.exp, "d": torch.cos}
    for name, device in devices.items():
        work.task(kinds[name], work.input(f"x{name}", TensorSpec((2, 2)), device=device), name=name, device=device)
    return finished(work, gpus, seconds, {name: f"{device}/s0" for name, device in devices.items()}, **dispatch)


def finished(work: Workload, gpus: int, seconds: dict[str, float], lanes: dict[str, str], **dispatch: Any) -> Plan:
    costs = Costs({(work[name].signature, "GPU"): TaskCost(taken_s) for name, taken_s in seconds.items()})
    here = platform(gpus=gpus, dispatch=replace(COSTS, **(LOOKS | dispatch)))
    return replace(planned(work, here, lanes, costs=costs), mode="graph")


@pytest.mark.parametrize(
    ("b_s", "known_s"),
    [
        (0.5, 6.5),  # b ends at 4.5 s, and is seen while the first look lasts
        (1.0, 7.0),
        (1.1, 18.0),  # the look is over
        (12.0, 18.0),  # over right when it looks again
        (12.5, 18.5),
        (13.1, 28.0),
        (22.5, 28.5),
        (23.5, 38.0),
    ],
)
def test_the_end_on_another_gpu_is_known_by_a_look(b_s: float, known_s: float) -> None:
    """a ends long before b; the thread sees that the graph is over after 0.5 s."""
    line = predict(apart(a=0.25, b=b_s), model=UNTIMED)
    assert line.makespan_s == pytest.approx(known_s + 0.5)


def test_what_was_over_when_the_gpu_came_to_its_last_wait_is_known_at_once() -> None:
    """Launching takes 20 s more, of which only the nodes on cuda:1 begin 1 s later: both have ended long before."""
    plan = plan_of(2, {"a": 0.5, "b": 0.5}, {"a": "cuda:0", "b": "cuda:1"}, graph_across_s=20.0)
    assert predict(plan, model=UNTIMED).makespan_s == LAUNCHED_S + 20.0 + 3.0 + 0.5


@pytest.mark.parametrize(("b_s", "known_s"), [(0.75, 6.75), (3.0, 16.0)])
def test_figures_that_were_not_measured(b_s: float, known_s: float) -> None:
    """The last wait is come to as a node is behind a launch, 1 s after it; the second look follows after a period."""
    unknown = {"graph_known_s": 0.0, "graph_look_again_s": 0.0}
    plan = plan_of(2, {"a": 0.25, "b": b_s}, {"a": "cuda:0", "b": "cuda:1"}, **unknown)
    assert predict(plan, model=UNTIMED).makespan_s == pytest.approx(known_s + 0.5)


@pytest.mark.parametrize("b_s", [4000.0, 4003.0, 4009.0])
def test_after_long_it_is_not_known_which_look_comes_next(b_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of 1 % of 4,000 s is several periods. Nine tenths of ends are not looked at, and wait for 4.5 s more."""
    monkeypatch.setattr(looks, "UNSURE", 0.01)
    assert predict(apart(a=0.5, b=b_s), model=UNTIMED).makespan_s == pytest.approx(FIRST_S + b_s + 2.0 + 4.05 + 0.5)
    assert predict(apart(a=0.5, b=1.5), model=UNTIMED).makespan_s == pytest.approx(18.0 + 0.5, abs=0.02)


def test_the_gpu_may_end_later_than_it_has_seen_the_other() -> None:
    assert predict(apart(a=30.0, b=1.0), model=UNTIMED).makespan_s == FIRST_S + 30.0 + 0.5


def test_the_last_of_the_others_counts() -> None:
    """b could be known by the look at 18 s; c ends at 25 s, and is known by that at 28."""
    assert predict(apart(3, a=0.5, b=8.0, c=21.0), model=UNTIMED).makespan_s == 28.0 + 0.5


def test_what_is_over_at_the_first_look_costs_nothing() -> None:
    """a on cuda:0 ──▶ copy to cuda:1, and looks then, at 34 s; b on cuda:1 is over at 5: all is over with the copy."""
    work = Workload()
    a = work.task(torch.neg, work.input("x", TensorSpec((2, 2)), device="cuda:0"), name="a", device="cuda:0")
    work.copy(a, to="cuda:1", name="told")
    work.task(torch.abs, work.input("y", TensorSpec((2, 2)), device="cuda:1"), name="b", device="cuda:1")
    lanes = {"a": "cuda:0/s0", "b": "cuda:1/s0"}
    line = predict(finished(work, 2, {"a": 30.0, "b": 1.0}, lanes), model=UNTIMED)
    assert float(line.end_s.max()) >= FIRST_S + 30.0
    assert line.makespan_s == float(line.end_s.max()) + 0.5


def test_what_ends_right_at_a_look_is_seen_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifteen periods of 0.7 s do not add up to 15 x 0.7."""
    monkeypatch.setattr(looks, "LOOK_S", 0.0)
    assert known_at_s(0.0, 0.1, 0.1 + 15 * 0.7, 0.7) == pytest.approx(0.1 + 15 * 0.7)


def empty(work: Workload, b_s: float) -> Plan:
    """a on cuda:0; b on cuda:1, which launches nothing"""
    work.task(torch.neg, work.input("x", TensorSpec((2, 2)), device="cuda:0"), name="a", device="cuda:0")
    y = work.input("y", TensorSpec((2, 2)), device="cuda:1")
    work.task(torch.abs, y, name="b", device="cuda:1", duration_s=b_s)
    return finished(work, 2, {"a": 1.0}, {"a": "cuda:0/s0", "b": "cuda:1/s0"})


def test_a_task_that_launches_nothing_is_no_node_to_look_for() -> None:
    assert predict(empty(Workload(), 0.0), model=UNTIMED).makespan_s == FIRST_S + 1.0 + 0.5
    assert predict(empty(Workload(), 0.25), model=UNTIMED).makespan_s == KNOWN_S + 0.25 + 0.5


@pytest.mark.parametrize(("across_s", "makespan_s"), [(0.0, 18.5), (2.0, 8.5), (9.5, 16.0)])
def test_looks_follow_the_end_of_the_launch(across_s: float, makespan_s: float) -> None:
    """b ends at 5.5 s: not seen at once where the launch ends at 3 s, but where it ends at 5 or 12.5."""
    plan = plan_of(2, {"a": 0.5, "b": 1.5}, {"a": "cuda:0", "b": "cuda:1"}, graph_across_s=across_s)
    assert predict(plan, model=UNTIMED).makespan_s == makespan_s


def test_graphs_between_tasks_of_a_cpu_are_not_known() -> None:
    """a on cuda:0 and b on cuda:1 ──▶ c on the CPU: as without looks."""
    work = Workload()
    a = work.task(torch.neg, work.input("x", TensorSpec((2, 2)), device="cuda:0"), name="a", device="cuda:0")
    b = work.task(torch.abs, work.input("y", TensorSpec((2, 2)), device="cuda:1"), name="b", device="cuda:1")
    work.task(torch.add, a, b, name="c", device="cpu", duration_s=1.0)
    plan = finished(work, 2, {"a": 0.5, "b": 7.5}, {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": "cpu/w0"})
    assert predict(plan, model=UNTIMED).makespan_s == predict(plan, model=replace(UNTIMED, looks=False)).makespan_s


def test_without_looks_an_end_is_seen_after_an_edge() -> None:
    """On a platform that does not know them, and in a model without them or without waits."""
    plan = apart(a=0.5, b=7.5)
    seen_s = FIRST_S + 7.5 + 0.25 + 0.5
    unknown = replace(plan.platform, dispatch=replace(plan.platform.dispatch, graph_look_s=0.0))
    assert predict(replace(plan, platform=unknown), model=UNTIMED).makespan_s == seen_s
    assert predict(plan, model=replace(UNTIMED, looks=False)).makespan_s == seen_s
    assert predict(plan, model=replace(UNTIMED, waits=False)).makespan_s == seen_s - 0.25


def test_one_gpu_has_nobody_to_look_for() -> None:
    assert predict(apart(1, a=7.5), model=UNTIMED).makespan_s == FIRST_S + 7.5 + 0.5


def sent(work: Workload, seconds: dict[str, float], **dispatch: Any) -> Plan:
    """a on cuda:0 ──▶ copy ──▶ b on cuda:1; d on cuda:0 behind a"""
    a = work.task(torch.neg, work.input("x", TensorSpec((2, 2)), device="cuda:0"), name="a")
    work.task(torch.abs, a, name="b", device="cuda:1")
    work.task(torch.cos, work.input("y", TensorSpec((2, 2)), device="cuda:0"), name="d", device="cuda:0")
    return finished(work, 2, seconds, {"a": "cuda:0/s0", "d": "cuda:0/s0", "b": "cuda:1/s0"}, **dispatch)


def test_what_another_lane_waits_for_holds_the_looks_up() -> None:
    """The lane tells the copy that a is over, at 9 s: it looks then, and 12 s after that is known, when b has ended."""
    plan = sent(Workload(), {"a": 5.0, "b": 2.0, "d": 1.0})
    line = predict(plan, model=UNTIMED)
    assert 10.0 < float(line.end_s.max()) < 21.0
    assert line.makespan_s == pytest.approx(9.0 + 2.0 + 12.0 + 0.5)


def test_what_waits_for_another_gpu_holds_the_looks_up() -> None:
    """d on cuda:0, which launches; b on cuda:1 ──▶ copy ──▶ a on cuda:0; c on cuda:1, behind b, ends last.

    The next look lets it be known 12 s behind what the one at the start of a does.
    """
    work = Workload()
    work.task(torch.cos, work.input("z", TensorSpec((2, 2)), device="cuda:0"), name="d", device="cuda:0")
    b = work.task(torch.abs, work.input("x", TensorSpec((2, 2)), device="cuda:1"), name="b")
    work.task(torch.neg, b, name="a", device="cuda:0")
    work.task(torch.exp, work.input("y", TensorSpec((2, 2)), device="cuda:1"), name="c", device="cuda:1")
    lanes = {"a": "cuda:0/s0", "d": "cuda:0/s0", "b": "cuda:1/s0", "c": "cuda:1/s0"}
    line = predict(finished(work, 2, {"a": 0.5, "b": 1.0, "c": 6.0, "d": 0.5}, lanes), model=UNTIMED)
    start_s = dict(zip(line.plan.names, map(float, line.start_s), strict=True))["a"]
    assert start_s < float(line.end_s.max()) == FIRST_S + 7.0 < start_s + 12.0
    assert line.makespan_s == pytest.approx(start_s + 2.0 + 12.0 + 0.5)


def test_steps_that_follow_each_other_are_not_known() -> None:
    """Two runs in flight: as without looks."""
    plan = apart(a=0.5, b=7.5)
    without = replace(UNTIMED, looks=False)
    assert predict(plan, steps=2, model=UNTIMED).makespan_s == predict(plan, steps=2, model=without).makespan_s


def test_the_chain_of_causes_adds_up_to_the_makespan() -> None:
    columns, _ = tabulated(apart(a=0.5, b=7.1), 1, UNTIMED)
    engine, makespan_s = run_again(without_events(columns))
    assert sum(stretch.seconds for stretch in chain(columns, engine)) == pytest.approx(makespan_s)


@pytest.mark.parametrize("b_s", [0.5, 7.1, 17.5])
def test_the_look_is_a_wait_when_errors_are_told_apart(b_s: float) -> None:
    """A perfect prediction is changed by nothing; of a GPU that looks more often the classes add up to its run."""
    plan = apart(a=0.5, b=b_s)
    line = predict(plan)
    swap = Substitution(as_measured(line, plan))
    for terms in ((), ("waits",), ("compute", "dispatch"), TERMS):
        assert swap.makespan_s(terms) == pytest.approx(line.timed_makespan_s)
    assert swap.return_s() == pytest.approx(0.0)
    often = twin(plan, dispatch=replace(plan.platform.dispatch, graph_look_s=3.0))
    swap = Substitution(often)
    assert swap.makespan_s(TERMS) == swap.makespan_s(("waits",)) == pytest.approx(often.timed_makespan_s)
    assert swap.return_s() == pytest.approx(often.timed_makespan_s - line.timed_makespan_s)

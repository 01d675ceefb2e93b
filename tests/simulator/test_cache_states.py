"""What tasks in graphs take longer by what caches hold: closed forms on small plans."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from graphsched.costs import CacheStates, Costs, TaskCost
from graphsched.plan import Plan
from graphsched.simulator import Model, predict
from graphsched.simulator.cache_states import Cache, codes_lost, inputs_longer_s
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, planned, platform

AT_ONCE = replace(FREE, graph_launch_s=0.0)
VALUE = TensorSpec((4,))  # 16 bytes
SMALL = CacheStates(written_s=0.5, lost_s=3.0, company_s=0.25)
LARGE = CacheStates(written_s=-2.0, lost_s=0.0)
KEPT, LOST = 1000, 1200
POINTS = ((KEPT, 8.0), (LOST, 8.0))


def costs_of(states: CacheStates | None, points: tuple[tuple[int, float], ...] = POINTS) -> TaskCost:
    return TaskCost(8.0, graph_s=8.0, graph_memory=points, cache=states)


def chain_of(tasks: int, states: CacheStates | None, points: tuple[tuple[int, float], ...] = POINTS) -> Plan:
    """x ──▶ t0 ──▶ t1 ──▶ …, all negations on one lane."""
    work = Workload()
    value = work.input("x", VALUE, device="cuda:0")
    for k in range(tasks):
        value = work.task(torch.neg, value, name=f"t{k}")
    plan = planned(work, platform(dispatch=AT_ONCE), {f"t{k}": "cuda:0/s0" for k in range(tasks)})
    costs = Costs({(work["t0"].signature, "GPU"): costs_of(states, points)})
    return replace(plan, costs=costs, mode="graph")


def inputs_of(plan: Plan) -> list[float]:
    assert plan.costs is not None
    cost = next(iter(plan.costs[key] for key in plan.costs))
    found = inputs_longer_s(plan, dict.fromkeys(range(len(plan)), cost))
    return [found[i] for i in range(len(plan))]


def test_what_the_graph_writes_is_there_and_an_input_is_as_in_a_row() -> None:
    """Four values of 16 bytes in a cache of 1,000: t0 reads what is there since the run before."""
    assert inputs_of(chain_of(3, SMALL)) == [0.0, 0.5, 0.5]


def test_large_inputs_are_there_too_whoever_wrote_them() -> None:
    """In a row they come from memory, which takes 2 s longer."""
    assert inputs_of(chain_of(3, LARGE)) == [-2.0, -2.0, -2.0]


def test_what_a_cache_does_not_hold_is_lost() -> None:
    """Five values of 16 bytes, a cache of 40: x has left it when t0 reads it again, what was just made has not."""
    assert inputs_of(chain_of(4, SMALL, ((40, 8.0), (41, 8.0)))) == [3.0, 0.5, 0.5, 0.5]


def test_a_cache_loses_part_between_two_sizes() -> None:
    """x and what t0 returned since it read it, 32 bytes: half way between 16 and 48."""
    assert Cache(16, 48).lost_of(32) == 0.5
    assert inputs_of(chain_of(1, SMALL, ((16, 8.0), (48, 8.0)))) == [1.5]


def test_what_is_found_again_counts_as_much_as_what_comes() -> None:
    """x ──▶ a, y ──▶ b, y ──▶ c, x ──▶ d: from a to d, 16 bytes of a, y, b, c and x itself were used, y once."""
    work = Workload()
    x, y = (work.input(name, VALUE, device="cuda:0") for name in "xy")
    for name, value in (("a", x), ("b", y), ("c", y), ("d", x)):
        work.task(torch.neg, value, name=name)
    plan = planned(work, platform(dispatch=AT_ONCE), dict.fromkeys("abcd", "cuda:0/s0"))
    for held, longer_s in ((79, 3.0), (80, 0.0)):
        cost = costs_of(SMALL, ((held, 8.0),))
        found = inputs_longer_s(replace(plan, mode="graph"), dict.fromkeys(range(len(plan)), cost))
        assert found[plan.names.index("d")] == longer_s


def test_workspaces_take_room_each_lane_its_own() -> None:
    """x ──▶ t0 ──▶ t1 in a cache of 147 bytes: x, two results and a workspace for both are 48 and its bytes."""
    cost = costs_of(SMALL, ((147, 8.0),))
    for nbytes, longer_s in ((0, 0.0), (99, 0.0), (100, 3.0)):
        costs = dict.fromkeys(range(2), replace(cost, workspace_bytes=nbytes))
        assert inputs_longer_s(chain_of(2, SMALL), costs)[0] == longer_s
    small_behind_large = {0: replace(cost, workspace_bytes=100), 1: replace(cost, workspace_bytes=1)}
    assert inputs_longer_s(chain_of(2, SMALL), small_behind_large)[0] == 3.0
    work = Workload()
    x = work.input("x", VALUE, device="cuda:0")
    for name in ("t0", "t1"):
        work.task(torch.neg, x, name=name)
    apart = replace(planned(work, platform(dispatch=AT_ONCE), {"t0": "cuda:0/s0", "t1": "cuda:0/s1"}), mode="graph")
    costs = dict.fromkeys(range(2), replace(cost, workspace_bytes=60))
    assert inputs_longer_s(apart, costs) == {0: 0.0, 1: 0.0}  # t0 has used x since t1 did
    costs = dict.fromkeys(range(2), replace(cost, workspace_bytes=150))
    assert inputs_longer_s(apart, costs) == {0: 3.0, 1: 3.0}


def test_what_others_push_out_is_lost() -> None:
    """x ──▶ t0 ──▶ t1 in a cache of 147 bytes: t1 pushes out 148 where it works on 32, so x and t0's code are lost."""
    cost = costs_of(SMALL, ((147, 8.0),))
    for pushed, longer_s in ((0, 0.0), (131, 0.0), (148, 3.0)):
        pushes = replace(cost, cache=replace(SMALL, pushed_bytes=pushed))
        costs = {0: cost, 1: pushes}
        assert inputs_longer_s(chain_of(2, SMALL), costs) == {0: longer_s, 1: SMALL.written_s}
        lost = codes_lost(chain_of(2, SMALL), costs, {0: ["neg"], 1: ["other"]})
        assert lost[0] == float(longer_s > 0.0)


def test_a_state_is_written_by_its_update() -> None:
    """w ──▶ t0 (reads), w updated by step: the next replay reads what this one wrote."""
    work = Workload()
    w = work.state("w", VALUE, device="cuda:0")
    work.task(torch.neg, w, name="t0")
    work.task(torch.Tensor.neg_, w, updates=w, name="step")
    plan = planned(work, platform(dispatch=AT_ONCE), {"t0": "cuda:0/s0", "step": "cuda:0/s0"})
    found = inputs_longer_s(replace(plan, mode="graph"), {0: costs_of(SMALL), 1: costs_of(SMALL)})
    assert found == {0: 0.5, 1: 0.5}


def test_an_input_that_is_worth_nothing_may_be_lost() -> None:
    """x ──▶ t0 ──▶ t1 (y, x): t1 is given 64 bytes that nobody reads (y) and t0's 16, which are there."""
    work = Workload()
    y = work.input("y", TensorSpec((4, 4)), device="cuda:0")
    made = work.task(torch.neg, work.input("x", VALUE, device="cuda:0"), name="t0")
    work.task(torch.add, y, made, name="t1")
    work.task(torch.neg, y, name="t2")
    plan = replace(
        planned(work, platform(dispatch=AT_ONCE), dict.fromkeys(("t0", "t1", "t2"), "cuda:0/s0")), mode="graph"
    )

    def longer_s(states: CacheStates, held: int) -> float:
        return inputs_longer_s(plan, dict.fromkeys(range(3), costs_of(states, ((held, 8.0),))))[1]

    assert longer_s(SMALL, 1000) == 0.2 * 0.5  # a fifth of the bytes is fresh, the rest is as in a row
    assert longer_s(SMALL, 40) == pytest.approx(0.8 * 3.0 + 0.2 * 0.2 * 0.5)
    assert longer_s(replace(SMALL, shares=(0.0, 1.0)), 40) == 0.5
    assert longer_s(replace(SMALL, shares=(1.0, 0.0)), 40) == 3.0
    assert longer_s(replace(SMALL, shares=(1.0,)), 1000) == longer_s(SMALL, 1000)  # of some other operation


def test_a_view_is_what_it_looks_into() -> None:
    """x ──▶ a ──▶ view ──▶ b: b reads a's bytes, which a wrote."""
    work = Workload()
    a = work.task(torch.neg, work.input("x", torch.ones(4), device="cuda:0"), name="a")
    view = work.task(torch.Tensor.view, a, 2, 2, name="view")
    work.task(torch.neg, view, name="b")
    plan = planned(work, platform(dispatch=AT_ONCE), dict.fromkeys(("a", "view", "b"), "cuda:0/s0"))
    assert inputs_longer_s(replace(plan, mode="graph"), {0: costs_of(SMALL), 2: costs_of(SMALL)}) == {0: 0.0, 2: 0.5}


def test_a_copy_writes_where_it_goes() -> None:
    """a (cuda:0) ──▶ copy ──▶ b (cuda:1): b reads what the copy has just written there."""
    work = Workload()
    a = work.task(torch.neg, work.input("x", VALUE, device="cuda:0"), name="a")
    work.task(torch.neg, a, name="b")
    plan = planned(work, platform(dispatch=AT_ONCE), {"a": "cuda:0/s0", "b": "cuda:1/s0"})
    runs = {plan.names.index(name): costs_of(SMALL) for name in ("a", "b")}
    found = inputs_longer_s(replace(plan, mode="graph"), runs)
    assert [found[i] for i in runs] == [0.0, 0.5]


def test_each_has_its_switch_and_costs_without_states_are_as_before() -> None:
    """A chain of three: 24 s alone, 1 s longer for inputs, nothing for company, for all are of one kind."""
    seconds = {}
    for name, model in {"all": Model(), "no cache": Model(cache=False), "no company": Model(company=False)}.items():
        seconds[name] = predict(chain_of(3, SMALL), model=model).makespan_s
    assert seconds == {"all": 25.0, "no cache": 24.0, "no company": 25.0}
    assert predict(chain_of(3, None)).makespan_s == 24.0
    eager = replace(chain_of(3, SMALL), mode="eager")
    assert predict(eager).makespan_s == predict(replace(chain_of(3, None), mode="eager")).makespan_s


def test_none_takes_less_than_no_time() -> None:
    plan = chain_of(2, CacheStates(written_s=-20.0, lost_s=0.0))
    assert predict(plan).makespan_s == 0.0

"""What tasks in graphs lose of their code to each other: closed forms on small plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphsched.costs import CacheStates, Costs, Kernel, TaskCost
from graphsched.plan import Plan
from graphsched.simulator import Model, predict
from graphsched.simulator.instruction_cache import Codes, codes_of, company_longer_s, fetched_codes, lost_parts
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, planned, platform

FUNCTIONS = (torch.neg, torch.exp, torch.relu, torch.sin)
COMPANY_S = 0.25


def cost_of(footprint: float | None, *codes: str) -> TaskCost:
    kernels = tuple(Kernel(1, 1, 1, 1, code=code) for code in codes)
    return TaskCost(8.0, graph_s=8.0, kernels=kernels, cache=CacheStates(company_s=COMPANY_S, footprint=footprint))


def tasks_in_turn(kinds: int, tasks: int, devices: int = 1) -> Plan:
    """x ──▶ t0, t1, …: operations of so many kinds in turn, all of one input; every other on another GPU if of two."""
    work = Workload()
    x = work.input("x", TensorSpec((4,)), device="cuda:0")
    for k in range(tasks):
        work.task(FUNCTIONS[k % kinds], x, name=f"t{k}")
    lanes = {f"t{k}": f"cuda:{k % devices}/s0" for k in range(tasks)}
    return replace(planned(work, platform(dispatch=replace(FREE, graph_launch_s=0.0)), lanes), mode="graph")


def company_of(plan: Plan, costs: Sequence[TaskCost]) -> list[float]:
    """Of each task, as a part of what it takes longer without any of its code."""
    runs = [i for i, kind in enumerate(plan.kinds) if kind == "run"]
    known = {i: costs[k % len(costs)] for k, i in enumerate(runs)}
    found = company_longer_s(fetched_codes(plan, known))
    return [found[i] / COMPANY_S for i in runs]


@pytest.mark.parametrize("kinds", [1, 2, 4])
def test_kinds_whose_code_is_not_known_fill_a_twelfth_each(kinds: int) -> None:
    """Eight tasks that go round so many kinds: each finds kinds - 1 others behind it, of the 12 of the full figure."""
    found = company_of(tasks_in_turn(kinds, 8), [cost_of(None)])
    assert found == pytest.approx([(kinds - 1) / 12] * 8)


@pytest.mark.parametrize(("footprint", "lost"), [(0.0, 0.0), (0.25, 0.5), (0.4, 0.8), (0.5, 1.0), (0.9, 1.0)])
def test_what_is_lost_grows_with_what_others_fill_until_all_is(footprint: float, lost: float) -> None:
    """neg, exp, relu in turn: two others behind each."""
    assert company_of(tasks_in_turn(3, 6), [cost_of(footprint)]) == pytest.approx([lost] * 6)


def test_it_is_the_others_footprint_that_counts() -> None:
    """neg fills little, exp much: neg loses half of its code to exp, exp a tenth to neg."""
    found = company_of(tasks_in_turn(2, 4), [cost_of(0.1), cost_of(0.5)])
    assert found == pytest.approx([0.5, 0.1, 0.5, 0.1])


def test_operations_of_one_code_lose_nothing_to_each_other() -> None:
    """neg and exp by one kernel, as operations on other shapes are; relu has its own."""
    found = company_of(tasks_in_turn(3, 6), [cost_of(0.5, "a"), cost_of(0.5, "a"), cost_of(0.5, "b")])
    assert found == pytest.approx([0.5, 0.0, 0.5] * 2)


def test_of_two_kernels_one_may_be_there() -> None:
    """(a, c) and (b, c) in turn: c is there for both, a and b lose what the other's half fills."""
    found = company_of(tasks_in_turn(2, 4), [cost_of(0.8, "a", "c"), cost_of(0.8, "b", "c")])
    assert found == pytest.approx([(0.4 + 0.0) / 2] * 4)


def test_gpus_have_a_cache_each() -> None:
    """neg on cuda:0, exp on cuda:1, in turn: each alone there."""
    assert company_of(tasks_in_turn(2, 6, devices=2), [cost_of(0.5)]) == [0.0] * 6


def test_a_kernel_of_unknown_name_leaves_the_operations_name() -> None:
    work = Workload()
    work.task(torch.neg, work.input("x", TensorSpec((4,)), device="cuda:0"), name="t")
    assert codes_of(work["t"], cost_of(0.5, "a", "b")) == {"a": 0.25, "b": 0.25}
    (name,) = codes_of(work["t"], cost_of(0.5, "a", ""))
    assert "neg" in name


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), st.floats(0, 1), min_size=1, max_size=2), min_size=1))
def test_parts_are_parts_and_do_not_depend_on_where_the_round_begins(sequence: list[Codes]) -> None:
    sizes: dict[str, float] = {}
    fixed = [{name: sizes.setdefault(name, size) for name, size in codes.items()} for codes in sequence]
    lost = lost_parts(fixed)
    assert all(0.0 <= part <= 1.0 for part in lost)
    turned = lost_parts([*fixed[1:], fixed[0]])
    assert [turned[-1], *turned[:-1]] == pytest.approx(lost)


def test_company_is_added_in_the_prediction() -> None:
    """Two kinds in turn, all of one input: each of four tasks takes half of 0.25 s longer."""
    plan = tasks_in_turn(2, 4)
    costs = Costs({(task.signature, "GPU"): cost_of(0.5) for task in plan.work.tasks})
    plan = replace(plan, costs=costs)
    assert predict(plan).makespan_s == pytest.approx(32 + 4 * 0.125)
    assert predict(plan, model=Model(company=False)).makespan_s == 32.0
    assert predict(plan, mode="eager").makespan_s == predict(plan, mode="eager", model=Model(company=False)).makespan_s


def test_code_that_data_has_driven_out_comes_from_memory() -> None:
    """neg, exp, relu, footprint 0.5: all code is lost, to memory only where much data came since it was used."""
    plan = tasks_in_turn(3, 6)
    states = CacheStates(company_s=COMPANY_S, footprint=0.5, code_lost_s=1.0)
    for held, extra in ((1 << 30, 0.0), (8, 1.0)):
        cost = TaskCost(8.0, graph_s=8.0, graph_memory=((held, 8.0), (2 * held, 8.0)), cache=states)
        assert company_of(plan, [cost]) == pytest.approx([1.0 + extra / COMPANY_S] * 6)


def test_code_that_is_still_in_the_instruction_cache_is_not_fetched() -> None:
    """neg, exp, relu in turn, which fill nothing of that cache: whatever data came, their code is there."""
    states = CacheStates(company_s=COMPANY_S, footprint=0.0, code_lost_s=1.0)
    cost = TaskCost(8.0, graph_s=8.0, graph_memory=((8, 8.0), (16, 8.0)), cache=states)
    assert company_of(tasks_in_turn(3, 6), [cost]) == [0.0] * 6

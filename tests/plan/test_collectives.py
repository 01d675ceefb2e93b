"""Collectives in plans: one action on a lane of each device, in text, checks, frees, and the lists of ranks."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsched.errors import CaptureError, DeadlockError, PlanError, ScheduleError
from graphsched.executors.eager import behind_collectives
from graphsched.plan import Placement, Plan, build_plan, check_capturable
from graphsched.plan.ranks import check_waits, compile_ranks, rank_text
from graphsched.workload import Collective, TensorSpec, Value, Workload
from tests.executors.programs import by_hand, machine

FOUR = TensorSpec((4,))
WORKERS = ("worker:0", "worker:1", "worker:2")


def _task(work: Workload, name: str, value: Value, device: str) -> Value:
    made: Value = work.task(abs, value, name=name, device=device, outputs=[FOUR])
    return made


def two_sums() -> Plan:
    """y0 ─┐         ┌─ z0 ─┐
    y1 ─┼── sum ──┼─ z1 ─┼── again (of 1 and 2 only) ── u1, u2
    y2 ─┘         └─ z2 ─┘   x2 lies on the host
    """
    work = Workload()
    homes = ("worker:0", "worker:1", "cpu")
    values = [work.input(f"x{k}", FOUR, device=home) for k, home in enumerate(homes)]
    for names, members in (("y", WORKERS), ("z", WORKERS[1:])):
        made = [_task(work, f"{names}{k}", value, WORKERS[k]) for k, value in enumerate(values)]
        own = [value for value, device in zip(made, WORKERS, strict=True) if device in members]
        sums = work.collective("all_reduce", own, devices=members, name="sum" if names == "y" else "again")
        values = [*made[: 3 - len(sums)], *sums]
    for k in (1, 2):
        _task(work, f"u{k}", values[k], WORKERS[k])
    lanes = {task.name: f"{task.devices[0]}/w0" for task in work.tasks if task.kind == "run"}
    return by_hand(work, machine(*WORKERS), lanes)


def test_the_text_names_every_lane_and_is_read_again() -> None:
    plan = two_sums()
    lines = [line.strip() for line in plan.text.splitlines() if line.strip().startswith("collective")]
    assert lines == [
        "collective sum on worker:0/comm+worker:1/comm+worker:2/comm after y0,y1,y2",
        "collective again on worker:1/comm+worker:2/comm after z1,z2 free sum.1,sum.2",
    ]
    again = Plan.from_text(plan.text, plan.work, plan.platform)
    assert again.text == plan.text
    assert (again.lane_of, again.more_lanes, again.waits) == (plan.lane_of, plan.more_lanes, plan.waits)
    assert [lane.name for lane in plan[plan.index_of["again"]].lanes] == ["worker:1/comm", "worker:2/comm"]


def test_what_the_lanes_of_a_collective_imply_needs_no_wait() -> None:
    """u1 waits for again, and so for sum, y0 and all else that sum waited for on any of its lanes."""
    plan = two_sums()
    waits = {plan.names[i]: [plan.names[j] for j in before] for i, before in enumerate(plan.waits)}
    assert waits["u1"] == ["again"]
    assert waits["z2"] == ["sum"]


def test_a_collective_behind_another_on_any_lane_implies_it() -> None:
    """sum (0+1), more (1+2) of inputs: u1 reads what both give worker:1, and waits for more alone."""
    work = Workload()
    values = [work.input(f"x{k}", FOUR, device=device) for k, device in enumerate(WORKERS)]
    first = work.collective("all_reduce", values[:2], devices=WORKERS[:2], name="sum")
    second = work.collective("all_reduce", values[1:], devices=WORKERS[1:], name="more")
    work.task(max, first[1], second[0], name="u1", device=WORKERS[1], outputs=[])
    plan = by_hand(work, machine(*WORKERS), "worker:1/w0")
    assert plan.waits[plan.index_of["u1"]] == (plan.index_of["more"],)
    assert behind_collectives(plan) == {plan.index_of["more"]: (plan.index_of["sum"],)}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (" after z1,z2", " after z1", "'again' depends on 'z2'"),
        ("worker:1/comm+worker:2/comm after z", "worker:2/comm+worker:1/comm after z", "its lanes are worker:1/comm+"),
        ("worker:1/comm+worker:2/comm after z", "worker:1/comm after z", "LANE+LANE"),
        ("worker:1/comm+worker:2/comm after z", "worker:1/comm+worker:9/comm after z", "worker:9/comm' is not listed"),
        ("run u1 on worker:1/w0", "run u1 on worker:1/comm", "may not run on worker:1/comm"),
        ("run u1 on worker:1/w0", "collective u1 on worker:1/w0+worker:2/w0", "'u1' is a run, the plan has a coll"),
        ("free sum.1,sum.2", "free sum.1,sum.2,z1", "freed on another lane"),
    ],
)
def test_a_wrong_line_is_named(old: str, new: str, words: str) -> None:
    plan = two_sums()
    assert plan.text.count(old) == 1
    with pytest.raises(PlanError, match=re.escape(words)) as found:
        Plan.from_text(plan.text.replace(old, new), plan.work, plan.platform)
    assert found.value.line is not None


def test_collectives_in_two_orders_are_a_deadlock() -> None:
    """sum waits for u1, which comes after it by way of again."""
    plan = two_sums()
    text = plan.text.replace("after y0,y1,y2", "after y0,y1,y2,u1")
    with pytest.raises(DeadlockError, match="wait for each other: sum"):
        Plan.from_text(text, plan.work, plan.platform)


def test_gpus_and_others_do_not_go_together() -> None:
    work = Workload()
    values = [work.input(f"x{k}", FOUR, device=device) for k, device in enumerate(("cuda:0", "cpu"))]
    work.collective("all_reduce", values, devices=["cuda:0", "cpu"], name="sum")
    with pytest.raises(ScheduleError, match=r"'sum' is on cuda:0 \(cuda\), cpu \(cpu\): all must be GPUs"):
        build_plan(work, machine("cuda:0"), None, Placement(["sum"], {}), scheduler="by hand")


def test_graph_mode_says_no_before_anything_is_captured() -> None:
    work = Workload()
    values = [work.input(f"x{k}", FOUR, device=f"cuda:{k}") for k in range(2)]
    work.collective("all_reduce", values, devices=["cuda:0", "cuda:1"], name="sum")
    plan = build_plan(work, machine("cuda:0", "cuda:1"), None, Placement(["sum"], {}), scheduler="by hand")
    with pytest.raises(CaptureError, match="'sum': run in eager or distributed mode"):
        check_capturable(plan)


def test_memory_of_results_counts_on_every_device() -> None:
    peaks = two_sums().peak_memory
    assert {held.name for held in peaks["worker:2"].alive} >= {"sum.2"}


def test_each_rank_has_its_part_of_a_collective() -> None:
    lists = compile_ranks(two_sums())
    check_waits(lists)
    assert rank_text(lists, 1).splitlines()[1:] == [
        "  run y1 on worker:1/w0",
        "  collective sum with rank 0,2 on worker:1/comm after y1",
        "  run z1 on worker:1/w0 after sum",
        "  collective again with rank 2 on worker:1/comm after z1",
        "  run u1 on worker:1/w0 after again",
    ]


def test_ranks_that_come_to_collectives_in_two_orders_are_found() -> None:
    """Rank 1 at again while rank 2 is at sum."""
    lists = compile_ranks(two_sums())
    parts = list(lists.parts[1])
    at = [k for k, part in enumerate(parts) if part.kind == "collective"]
    parts[at[0]], parts[at[1]] = parts[at[1]], parts[at[0]]
    lists.parts[1][:] = parts  # type: ignore[index]
    with pytest.raises((DeadlockError, PlanError)):
        check_waits(lists)


def test_a_wait_that_a_part_lacks_is_found() -> None:
    from dataclasses import replace

    lists = compile_ranks(two_sums())
    k = next(k for k, part in enumerate(lists.parts[2]) if part.name == "sum")
    lists.parts[2][k] = replace(lists.parts[2][k], waits=())  # type: ignore[index]
    with pytest.raises(PlanError, match="'sum' may begin before 'y2' is over"):
        check_waits(lists)


@given(st.data(), st.integers(2, 5))
def test_random_plans_with_collectives_never_get_stuck(data: st.DataObject, count: int) -> None:
    """Tasks, copies and collectives over random members, waits of the thread in between: lists of ranks end."""
    devices = [f"worker:{k}" for k in range(count)]
    work = Workload()
    values = {device: [work.input(f"x{k}", FOUR, device=device)] for k, device in enumerate(devices)}
    for i in range(data.draw(st.integers(1, 12))):
        kind = data.draw(st.sampled_from(("run", "run", "all_reduce", "all_reduce", "copy", "barrier")))
        some = data.draw(st.permutations(devices))[: data.draw(st.integers(2, count))]
        if kind == "all_reduce":
            own = [data.draw(st.sampled_from(values[device])) for device in some]
            if len({value.name for value in own}) == len(own):
                for device, value in zip(some, work.collective(kind, own, devices=some, name=f"t{i}"), strict=True):
                    values[device].append(value)
        elif kind == "copy":
            values[some[1]].append(work.copy(data.draw(st.sampled_from(values[some[0]])), to=some[1], name=f"t{i}"))
        elif kind == "barrier":
            work.barrier(f"t{i}")
        else:
            anywhere = data.draw(st.sampled_from([value for own in values.values() for value in own]))
            values[some[0]].append(_task(work, f"t{i}", anywhere, some[0]))
    lanes = {task.name: f"{task.devices[0]}/w0" for task in work.tasks if task.kind == "run"}
    plan = by_hand(work, machine(*devices), lanes)
    assert Plan.from_text(plan.text, work, plan.platform).text == plan.text
    check_waits(compile_ranks(plan))


def test_all_operations_have_a_name() -> None:
    assert get_args(Collective) == ("all_reduce", "all_gather", "reduce_scatter")

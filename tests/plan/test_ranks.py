"""Lists of ranks: what each rank does, proved free of deadlock and true to the plan on random plans."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.errors import DeadlockError, PlanError, ScheduleError
from graphsched.plan import Plan
from graphsched.plan.ranks import (
    Part,
    RankLists,
    check_ranks,
    check_waits,
    compile_ranks,
    find_places,
    rank_of_devices,
    rank_text,
)
from graphsched.plan.ranks.places import EVERYWHERE
from graphsched.workload import TensorSpec, Workload
from tests.executors.programs import by_hand, digits, machine, random_plan, random_workload, step_


def random_lists(seed: int, count: int, idle: int = 0) -> RankLists:
    names = [f"worker:{k}" for k in range(count)]
    plan = random_plan(random_workload(seed, names, tasks=18), machine(*names), seed, 1 + seed % 3, on=[*names, "cpu"])
    return compile_ranks(plan, count + idle)


def with_list(lists: RankLists, rank: int, parts: list[Part]) -> RankLists:
    return replace(lists, parts=[parts if k == rank else mine for k, mine in enumerate(lists.parts)])


def two_ranks(*tasks: tuple[str, str, int]) -> Plan:
    """Tasks (name, input, worker) in a row, each of one input, on two workers; ``x`` lies on worker:0."""
    work = Workload()
    values = {"x": work.input("x", torch.ones(4), device="worker:0")}
    for name, read, _ in tasks:
        values[name] = work.task(torch.neg, values[read], name=name)
    place = {name: f"worker:{k}/s0" for name, _, k in tasks}
    return by_hand(work, machine("worker:0", "worker:1"), place)


# -- what the lists hold -------------------------------------------------------------------------------


def test_the_lists_of_a_small_plan() -> None:
    """w ──▶ use (worker:1) ──▶ seen ──▶ last (host, rank 0's), and step (worker:0), which updates w.

    step begins when worker:1 has received its copy of w, which a signal tells; all ranks meet at the barrier.
    """
    work = Workload()
    w = work.state("w", digits(0), device="worker:0")
    use = work.task(torch.neg, w, name="use")
    work.task(step_, w, 1.0, updates=w, name="step")
    work.barrier("all")
    seen = work.copy(use, to="cpu", name="seen")
    work.task(torch.neg, seen, name="last")
    place = {"use": "worker:1/s0", "step": "worker:0/s0", "last": "cpu/w0"}
    lists = compile_ranks(by_hand(work, machine("worker:0", "worker:1"), place))
    assert rank_text(lists, 0) == (
        "rank 0 of 2: worker:0, cpu\n"
        "  send w>worker:1 to rank 1 on worker:0>worker:1\n"
        "  receive w>worker:1#0 from rank 1 on rank1>rank0\n"
        "  run step on worker:0/s0 after w>worker:1#0\n"
        "  collective all on host/py after step\n"
        "  receive seen from rank 1 on worker:1/d2h\n"
        "  run last on cpu/w0 after seen\n"
    )
    assert rank_text(lists, 1) == (
        "rank 1 of 2: worker:1\n"
        "  receive w>worker:1 from rank 0 on worker:0>worker:1\n"
        "  run use on worker:1/s0 after w>worker:1\n"
        "  send w>worker:1#0 to rank 0 on rank1>rank0 after w>worker:1\n"
        "  collective all on host/py after use\n"
        "  send seen to rank 0 on worker:1/d2h\n"
    )
    check_waits(lists)


def test_a_wait_that_no_copy_carries_is_a_signal() -> None:
    """a (worker:0) and b (worker:1) are independent; the plan's text makes b wait for a all the same."""
    plan = two_ranks(("a", "x", 0), ("b", "x", 1))
    text = plan.text.replace("run b on worker:1/s0 after ", "run b on worker:1/s0 after a,")
    plan = Plan.from_text(text, plan.work, plan.platform)
    lists = compile_ranks(plan)
    check_waits(lists)
    assert rank_text(lists, 0).splitlines()[1:] == [
        "  run a on worker:0/s0",
        "  send x>worker:1 to rank 1 on worker:0>worker:1",
        "  send a#1 to rank 1 on rank0>rank1 after a",
    ]
    assert rank_text(lists, 1).splitlines()[1:] == [
        "  receive x>worker:1 from rank 0 on worker:0>worker:1",
        "  receive a#1 from rank 0 on rank0>rank1",
        "  run b on worker:1/s0 after x>worker:1,a#1",
    ]


def test_an_end_is_told_to_a_rank_once() -> None:
    """a (worker:0); b and c (worker:1, different lanes) both wait for it by the plan's text."""
    work = Workload()
    x = [work.input(f"x{k}", torch.ones(4), device=f"worker:{k}") for k in range(2)]
    for name, k in {"a": 0, "b": 1, "c": 1}.items():
        work.task(torch.neg, x[k], name=name)
    place = {"a": "worker:0/s0", "b": "worker:1/s0", "c": "worker:1/s1"}
    plan = by_hand(work, machine("worker:0", "worker:1"), place)
    text = plan.text.replace("worker:1/s0\n  run c", "worker:1/s0 after a\n  run c")
    plan = Plan.from_text(text.replace("run c on worker:1/s1", "run c on worker:1/s1 after a"), work, plan.platform)
    lists = compile_ranks(plan)
    check_waits(lists)
    assert [part.kind for part in lists[0]] == ["run", "send"]
    assert [part.name for part in lists[1]] == ["a#1", "b", "c"]


def test_what_lies_on_the_host_of_every_rank_needs_no_message() -> None:
    """x and the constant k on the host ──▶ y (worker:1) ──▶ back (host), which nobody else reads."""
    work = Workload()
    x, k = work.input("x", torch.ones(4)), work.state("k", torch.ones(4), device="cpu")
    y = work.task(torch.add, x, k, name="y")
    work.copy(y, to="cpu", name="back")
    plan = by_hand(work, machine("worker:0", "worker:1"), {"y": "worker:1/s0"})
    places = find_places(plan)
    assert places.holder == {"x": EVERYWHERE, "k": EVERYWHERE, "y": 1, "back": 1}
    assert [part.kind for part in compile_ranks(plan)[1]] == ["copy", "copy", "run", "copy"]
    assert not compile_ranks(plan)[0]


def test_a_state_that_changes_is_its_owners() -> None:
    """c on the host is updated by a task there: worker:1 reads it by a message from rank 0, and says that it has it."""
    work = Workload()
    c = work.state("c", torch.ones(4), device="cpu")
    work.task(torch.neg, c, name="y")
    work.task(step_, c, 1.0, updates=c, name="step")
    plan = by_hand(work, machine("worker:0", "worker:1"), {"y": "worker:1/s0", "step": "cpu/w0"})
    assert [part.kind for part in compile_ranks(plan)[0]] == ["send", "receive", "run"]


def test_ranks_have_the_accelerators_in_their_order() -> None:
    assert rank_of_devices(machine("cuda:0", "cuda:1")) == {"cuda:0": 0, "cuda:1": 1, "cpu": 0}


def test_too_few_ranks_are_refused() -> None:
    plan = two_ranks(("a", "x", 0), ("b", "a", 1))
    with pytest.raises(ScheduleError, match=r"needs 2 ranks, one for each of worker:0, worker:1.*there is 1: torchrun"):
        compile_ranks(plan, 1)


# -- proofs --------------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 4), idle=st.integers(0, 1))
def test_random_plans_cannot_get_stuck_and_keep_every_wait(seed: int, count: int, idle: int) -> None:
    """Random graphs with states, views, copies and barriers, on random lanes of up to four workers and the host."""
    lists = random_lists(seed, count, idle)
    check_waits(lists)
    assert sum(part.kind == "send" for parts in lists.parts for part in parts) == sum(
        part.kind == "receive" for parts in lists.parts for part in parts
    )


@settings(max_examples=100)
@given(seed=st.integers(0, 10**6), data=st.data())
def test_two_messages_in_another_order_on_one_rank_get_stuck(seed: int, data: st.DataObject) -> None:
    """Two ranks that do two of their messages in different orders wait for each other."""
    lists = random_lists(seed, 3)
    pairs = [
        (rank, a, b)
        for rank, parts in enumerate(lists.parts)
        for a, one in enumerate(parts)
        for b, two in enumerate(parts[a + 1 :], a + 1)
        if one.peer == two.peer >= 0
    ]
    if pairs:
        rank, a, b = data.draw(st.sampled_from(pairs))
        parts = list(lists[rank])
        parts[a], parts[b] = parts[b], parts[a]
        with pytest.raises((DeadlockError, PlanError)):
            check_ranks(with_list(lists, rank, parts))


@settings(max_examples=100)
@given(seed=st.integers(0, 10**6), data=st.data())
def test_half_a_message_is_found(seed: int, data: st.DataObject) -> None:
    lists = random_lists(seed, 3)
    halves = [(rank, k) for rank, parts in enumerate(lists.parts) for k, part in enumerate(parts) if part.peer >= 0]
    if halves:
        rank, k = data.draw(st.sampled_from(halves))
        parts = [part for i, part in enumerate(lists[rank]) if i != k]
        with pytest.raises((DeadlockError, PlanError)):
            check_ranks(with_list(lists, rank, parts))


def test_a_missing_wait_is_found() -> None:
    """x ──▶ a (worker:0) ──▶ b (worker:1) ──▶ c (worker:0): every wait of these lists is needed."""
    lists = compile_ranks(two_ranks(("a", "x", 0), ("b", "a", 1), ("c", "b", 0)))
    waiting = [(rank, k) for rank, parts in enumerate(lists.parts) for k, part in enumerate(parts) if part.waits]
    assert len(waiting) == 4
    for rank, k in waiting:
        parts = [replace(part, waits=()) if i == k else part for i, part in enumerate(lists[rank])]
        with pytest.raises(PlanError, match=r"may begin before .* is over"):
            check_waits(with_list(lists, rank, parts))


def test_a_missing_run_is_found() -> None:
    lists = compile_ranks(two_ranks(("a", "x", 0), ("b", "a", 1)))
    with pytest.raises(PlanError, match="'b' is in no rank's list"):
        check_waits(with_list(lists, 1, [part for part in lists[1] if part.name != "b"]))


def test_the_error_names_what_each_rank_is_at() -> None:
    """Both ranks send first, each to the other."""
    lists = compile_ranks(two_ranks(("a", "x", 0), ("b", "a", 1), ("c", "b", 0)))
    parts = sorted(lists[1], key=lambda part: part.kind == "receive")
    bare = [replace(part, waits=()) for part in parts if part.kind != "run"]
    with pytest.raises(DeadlockError, match=r"rank 0 at send 'a>worker:1' on .*; rank 1 at send 'b>worker:0' on "):
        check_ranks(with_list(lists, 1, bare))


def test_a_part_in_another_ranks_list_is_found() -> None:
    lists = compile_ranks(two_ranks(("a", "x", 0), ("b", "a", 1)))
    with pytest.raises(PlanError, match="of rank 0 is in the list of rank 1"):
        check_ranks(with_list(lists, 1, [*lists[1], lists[0][0]]))


def test_a_copy_on_a_lane_of_tasks_keeps_the_lanes_order() -> None:
    """a, then its copy to worker:1, then c, all on one lane: c begins when the copy has been received."""
    work = Workload()
    x = work.input("x", torch.ones(4), device="worker:0")
    a = work.task(torch.neg, x, name="a")
    there = work.copy(a, to="worker:1", name="there")
    work.task(torch.neg, x, name="c")
    work.task(torch.neg, there, name="d", outputs=[TensorSpec((4,))])
    place = {"a": "worker:0/s0", "c": "worker:0/s0", "d": "worker:1/s0"}
    lists = compile_ranks(by_hand(work, machine("worker:0", "worker:1"), place, copies="compute"))
    check_waits(lists)
    assert [part.name for part in lists[0]] == ["a", "there", "there#0", "c"]

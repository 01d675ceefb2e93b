"""From placements to plans: golden texts, shared copies, versions, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from graphsched.errors import GraphschedError, PlatformError, ScheduleError
from graphsched.plan import Lane, Placement, Plan, allowed_devices, build_plan, copy_lane, pinned_results
from graphsched.plan.model import line_of
from graphsched.workload import Workload
from tests.plan.hand import MATRIX, actions, add, hand_platform, plan_of, sink


def test_overlap_of_products_and_copies() -> None:
    """
    mm0 ─▶ copy0        cuda:0/s0: mm0 mm1
    mm1 ─▶ copy1        cuda:0/d2h:    copy0 copy1
    """
    work = Workload("overlap")
    x = work.input("x", MATRIX)
    for i in range(2):
        work.copy(add(work, f"mm{i}", x, x), to="cpu", pinned=True, name=f"copy{i}")
    plan = plan_of(work, {"mm0": "cuda:0/s0", "mm1": "cuda:0/s0"})
    assert plan.text.splitlines() == [
        "graphsched plan 1",
        f"workload {work.digest()} overlap",
        f"platform {hand_platform().digest()} hand",
        "scheduler by_hand mode eager",
        "lanes",
        "  host/py",
        "  cuda:0/h2d",
        "  cuda:0/s0",
        "  cuda:0/d2h",
        "actions",
        "  copy x>cuda:0 from cpu to cuda:0 pinned on cuda:0/h2d",
        "  run mm0 on cuda:0/s0 after x>cuda:0",
        "  copy copy0 from cuda:0 to cpu pinned on cuda:0/d2h after mm0",
        "  run mm1 on cuda:0/s0",
        "  copy copy1 from cuda:0 to cpu pinned on cuda:0/d2h after mm1",
    ]
    assert line_of(plan, 0) == 11


def test_copies_on_the_compute_lane_need_no_waits() -> None:
    """mm0 ─▶ copy0 ─▶ mm1 ─▶ copy1, all on cuda:0/s0"""
    work = Workload()
    x = work.input("x", MATRIX, device="cuda:0")
    for i in range(2):
        work.copy(add(work, f"mm{i}", x, x), to="cpu", name=f"copy{i}")
    plan = plan_of(work, {"mm0": "cuda:0/s0", "mm1": "cuda:0/s0"}, copies="compute")
    assert actions(plan) == (
        "  run mm0 on cuda:0/s0\n"
        "  copy copy0 from cuda:0 to cpu pageable on cuda:0/s0 free mm0\n"
        "  run mm1 on cuda:0/s0\n"
        "  copy copy1 from cuda:0 to cpu pageable on cuda:0/s0 free mm1\n"
    )


def test_an_inserted_copy_is_shared_by_all_consumers_of_a_device() -> None:
    """
    a (cuda:0) ─┬─▶ b (cuda:1/s0)
                ├─▶ c (cuda:1/s1)
                └─▶ d (cuda:2/s0)
    """
    work = Workload()
    a = add(work, "a", work.input("x", MATRIX, device="cuda:0"))
    for name in "bcd":
        sink(work, name, a)
    plan = plan_of(work, {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": "cuda:1/s1", "d": "cuda:2/s0"})
    assert actions(plan) == (
        "  run a on cuda:0/s0\n"
        "  copy a>cuda:1 from cuda:0 to cuda:1 pinned on cuda:0>cuda:1 after a\n"
        "  run b on cuda:1/s0 after a>cuda:1\n"
        "  run c on cuda:1/s1 after a>cuda:1\n"
        "  copy a>cuda:2 from cuda:0 to cuda:2 pinned on cuda:0>cuda:2 after a\n"
        "  run d on cuda:2/s0 after a>cuda:2\n"
    )


def test_a_copy_that_the_user_asked_for_is_never_merged() -> None:
    """a (cuda:0) ─▶ copy0, copy1 (both on the CPU) ─▶ b reads one, and a itself by a copy of its own"""
    work = Workload()
    a = add(work, "a", work.input("x", MATRIX, device="cuda:0"))
    copies = [work.copy(a, to="cpu", name=f"copy{i}") for i in range(2)]
    sink(work, "b", copies[1], a)
    plan = plan_of(work, {"a": "cuda:0/s0", "b": "cpu/w0"})
    assert [name for name, kind in zip(plan.names, plan.kinds, strict=True) if kind == "copy"] == [
        "copy0", "copy1", "a>cpu",
    ]  # fmt: skip
    assert [plan.copies[i].task for i in sorted(plan.copies)] == [True, True, False]


def test_a_copy_waits_for_what_it_comes_after() -> None:
    """a (cuda:0) ─▶ copy1 (cuda:1), then copy2 (cuda:2): two lanes, one behind the other; a barrier needs no wait."""
    work = Workload()
    a = add(work, "a", work.input("x", MATRIX, device="cuda:0"))
    first = work.copy(a, to="cuda:1", name="copy1")
    work.copy(a, to="cuda:2", after=[first], name="copy2")
    work.barrier()
    work.copy(a, to="cpu", name="copy3")
    plan = plan_of(work, {"a": "cuda:0/s0"})
    (line,) = [line for line in plan.text.splitlines() if "copy copy2 " in line]
    assert line.endswith("on cuda:0>cuda:2 after copy1")
    (line,) = [line for line in plan.text.splitlines() if "copy copy3 " in line]
    assert " after " not in line
    plan.check()


def test_a_diamond_over_two_lanes() -> None:
    """
    a ─▶ b ─▶ d      s0: a b d
    └──▶ c ──▶┘      s1:   c
    """
    work = Workload()
    a = add(work, "a", work.input("x", MATRIX, device="cuda:0"))
    add(work, "d", add(work, "b", a), add(work, "c", a))
    plan = plan_of(work, {"a": "cuda:0/s0", "b": "cuda:0/s0", "c": "cuda:0/s1", "d": "cuda:0/s0"})
    assert actions(plan) == (
        "  run a on cuda:0/s0\n"
        "  run b on cuda:0/s0\n"
        "  run c on cuda:0/s1 after a\n"
        "  run d on cuda:0/s0 after c free a,b\n"
    )
    assert [plan[3].waits, plan[3].frees] == [(2,), ("a", "b")]


def test_each_version_of_a_state_is_copied_once_and_the_update_waits_for_the_copy_alone() -> None:
    """
    w on cuda:0, updated by u there; r0, s0 (version 0) and r1, s1 (version 1) read it on cuda:1.

    copy w>cuda:1 ──▶ r0, s0
             └──▶ u ──▶ copy w@1>cuda:1 ──▶ r1, s1       u does not wait for r0 and s0
    """
    work = Workload()
    w = work.state("w", MATRIX, device="cuda:0")
    for version in range(2):
        sink(work, f"r{version}", w)
        sink(work, f"s{version}", w)
        if not version:
            sink(work, "u", w, updates=w)
    lanes = {f"{t}{v}": f"cuda:1/s{'rs'.index(t)}" for t in "rs" for v in range(2)}
    plan = plan_of(work, lanes | {"u": "cuda:0/s0"})
    assert actions(plan) == (
        "  copy w>cuda:1 from cuda:0 to cuda:1 pinned on cuda:0>cuda:1\n"
        "  run r0 on cuda:1/s0 after w>cuda:1\n"
        "  run s0 on cuda:1/s1 after w>cuda:1\n"
        "  run u on cuda:0/s0 after w>cuda:1\n"
        "  copy w@1>cuda:1 from cuda:0 to cuda:1 pinned on cuda:0>cuda:1 after u\n"
        "  run r1 on cuda:1/s0 after w@1>cuda:1\n"
        "  run s1 on cuda:1/s1 after w@1>cuda:1\n"
    )


def test_an_update_waits_for_readers_on_its_own_device_and_for_copies_of_views() -> None:
    """
    w, v = w.t() on cuda:0; near reads w there, far reads v on cuda:1; u updates w
    """
    work = Workload()
    w = work.state("w", MATRIX, device="cuda:0")
    v = work.task(lambda w: w.t(), w, name="v")
    sink(work, "near", w)
    sink(work, "far", v)
    sink(work, "u", w, updates=w)
    sink(work, "late", v)
    lanes = {"v": "cuda:0/s0", "near": "cuda:0/s1", "far": "cuda:1/s0", "u": "cuda:0/s0", "late": "cuda:1/s0"}
    assert actions(plan_of(work, lanes)) == (
        "  run v on cuda:0/s0\n"
        "  run near on cuda:0/s1\n"
        "  copy v>cuda:1 from cuda:0 to cuda:1 pinned on cuda:0>cuda:1 after v\n"
        "  run far on cuda:1/s0 after v>cuda:1\n"
        "  run u on cuda:0/s0 after near,v>cuda:1\n"
        "  copy v@1>cuda:1 from cuda:0 to cuda:1 pinned on cuda:0>cuda:1 after u\n"
        "  run late on cuda:1/s0 after v@1>cuda:1\n"
    )


def test_a_barrier_waits_for_all_lanes_and_nothing_after_it_waits_again() -> None:
    """a (cuda:0) and b (cuda:1) │ stop │ c (cuda:0) reads both"""
    work = Workload()
    x, y = (work.input(n, MATRIX, device=f"cuda:{i}") for i, n in enumerate("xy"))
    a, b = add(work, "a", x), add(work, "b", y)
    moved = work.copy(b, to="cuda:0", name="moved")
    work.barrier("stop")
    sink(work, "c", a, moved)
    plan = plan_of(work, {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": "cuda:0/s1"})
    assert actions(plan) == (
        "  run a on cuda:0/s0\n"
        "  run b on cuda:1/s0\n"
        "  copy moved from cuda:1 to cuda:0 pageable on cuda:1>cuda:0 after b\n"
        "  wait stop on host/py after a,moved\n"
        "  run c on cuda:0/s1\n"
    )


def test_a_wait_after_each_task() -> None:
    """What ``synchronize`` after each task does: no waits between lanes are left."""
    work = Workload()
    a = add(work, "a", work.input("x", MATRIX, device="cuda:0"))
    sink(work, "wait0", a)  # a name that the scheduler's own waits must not take
    plan = plan_of(work, {"a": "cuda:0/s0", "wait0": "cuda:0/s1"}, wait_after={"a", "wait0"})
    assert actions(plan) == (
        "  run a on cuda:0/s0\n"
        "  wait wait1 on host/py after a\n"
        "  run wait0 on cuda:0/s1\n"
        "  wait wait2 on host/py after wait0\n"
    )


@pytest.mark.parametrize(("pinned", "memory"), [(True, "pinned"), (False, "pageable")])
def test_what_a_copy_left_on_the_host_is_pageable_unless_it_was_pinned(pinned: bool, memory: str) -> None:
    """x (cuda:0) ─▶ there (cpu) ─▶ a (cuda:1): the copy inserted for a reads what the first one wrote."""
    work = Workload()
    there = work.copy(work.input("x", MATRIX, device="cuda:0"), to="cpu", pinned=pinned, name="there")
    sink(work, "a", there)
    copy = plan_of(work, {"a": "cuda:1/s0"}).copies
    assert {c.target: c.memory for c in copy.values()} == {"cpu": memory, "cuda:1": memory}


def test_what_a_cpu_task_returned_goes_to_gpus_by_pinned_memory() -> None:
    """a (cpu) ──▶ b (cuda:0), which reads an input, too."""
    work = Workload()
    a = add(work, "a", work.input("x", MATRIX))
    sink(work, "b", a, work.values["x"])
    plan = plan_of(work, {"a": "cpu/w0", "b": "cuda:0/s0"})
    assert memories(plan) == {"a>cuda:0": "pinned", "x>cuda:0": "pinned"}
    assert brought(plan) == {"a": ["a"]}


def test_a_copy_of_it_that_is_asked_for_takes_the_memory_that_is_asked_for() -> None:
    """By the thread out of memory that was there, or out of new memory; or by the engine."""
    work = Workload()
    a = add(work, "a", work.input("x", MATRIX))
    for name, options in {"p": {"pinned": True}, "n": {}, "f": {"fresh": True}}.items():
        work.copy(a, to="cuda:0", name=name, **options)
    plan = plan_of(work, {"a": "cpu/w0"})
    assert memories(plan) == {"p": "pinned", "n": "pageable", "f": "fresh"}
    assert brought(plan) == {"a": ["a"]}


@pytest.mark.parametrize(("pinned", "memory"), [(False, "pageable"), (True, "pinned")])
def test_what_a_copy_brought_to_the_cpu_lies_where_that_was_asked_for(pinned: bool, memory: str) -> None:
    """x (cuda:0) ──▶ c (cpu) ──▶ b (cuda:1)."""
    work = Workload()
    sink(work, "b", work.copy(work.input("x", MATRIX, device="cuda:0"), to="cpu", name="c", pinned=pinned))
    plan = plan_of(work, {"b": "cuda:1/s0"})
    assert memories(plan) == {"c": memory, "c>cuda:1": memory}
    assert brought(plan) == {}


def test_messages_take_results_from_where_they_lie() -> None:
    """a (cpu), of rank 0 ──▶ b (cuda:0), of the same; ──▶ c (cuda:1), of the next."""
    work = Workload()
    a = add(work, "a", work.input("x", MATRIX))
    sink(work, "b", a)
    sink(work, "c", a)
    lanes = {"a": "cpu/w0", "b": "cuda:0/s0", "c": "cuda:1/s0"}
    placement = Placement(list(lanes), lanes)
    plan = build_plan(work, hand_platform(), None, placement, scheduler="by hand", mode="distributed")
    assert memories(plan) == {"a>cuda:0": "pinned", "a>cuda:1": "pageable"}
    both = plan_of(work, lanes)
    assert memories(both) == {"a>cuda:0": "pinned", "a>cuda:1": "pinned"}
    only = replace(both, mode="distributed", copies={i: c for i, c in both.copies.items() if c.target == "cuda:1"})
    assert pinned_results(only) == {}
    assert pinned_results(only, local=True) == {"a": (only.copies[next(iter(only.copies))].read,)}


def test_results_that_no_gpu_reads_are_left_where_they_are() -> None:
    """a (cpu) ──▶ b (cpu); two tasks on GPUs read of c, and of d one result of two."""
    work = Workload()
    x = work.input("x", MATRIX)
    sink(work, "b", add(work, "a", x))
    c = add(work, "c", x)
    first, second = work.task(lambda x: (x, x), x, name="d", outputs=[MATRIX, MATRIX])
    sink(work, "e", c, second)
    sink(work, "f", c, work.task(lambda x: x, first, name="g", outputs=[MATRIX]))
    cpu = dict.fromkeys("abcdg", "cpu/w0")
    plan = plan_of(work, cpu | {"e": "cuda:0/s0", "f": "cuda:1/s0"})
    assert brought(plan) == {"c": ["c"], "d": [second.name], "g": ["g"]}


def test_what_a_task_updated_is_read_as_that_left_it() -> None:
    """a (cpu), a view of a state ──▶ b (cuda:0); u (cpu) updates a ──▶ c, d (cuda:0, cuda:1)."""
    work = Workload()
    a = work.task(lambda w: w.t(), work.state("w", MATRIX, device="cpu"), name="a")
    sink(work, "b", a)
    work.task(lambda a: None, a, name="u", updates=a)
    sink(work, "c", a)
    sink(work, "d", a)
    plan = plan_of(work, {"a": "cpu/w0", "b": "cuda:0/s0", "u": "cpu/w0", "c": "cuda:0/s0", "d": "cuda:1/s0"})
    assert brought(plan) == {"a": ["a"], "u": ["a@1"]}


def brought(plan: Plan) -> dict[str, list[str]]:
    return {task: [str(read) for read in reads] for task, reads in pinned_results(plan).items()}


def memories(plan: Plan) -> dict[str, str]:
    return {plan.names[i]: copy.memory for i, copy in plan.copies.items()}


def test_nothing_to_do() -> None:
    plan = plan_of(Workload(), {})
    assert (len(plan), actions(plan)) == (0, "")


# -- homes --------------------------------------------------------------------------------------


def test_homes() -> None:
    work = Workload()
    x, g = work.input("x", MATRIX), work.input("g", MATRIX, device="cuda:2")
    read, updated, unused = (work.state(n, MATRIX) for n in ("read", "updated", "unused"))
    a = add(work, "a", x, g, read, updated)
    work.task(lambda a: a.t(), a, name="v")
    work.copy(a, to="cuda:1", name="c")
    sink(work, "u", updated, updates=updated)
    del unused
    plan = plan_of(work, {"a": "cuda:0/s0", "v": "cuda:1/s0", "u": "cuda:2/s0"})
    assert plan.homes == {
        "x": "cpu", "g": "cuda:2", "read": "cuda:0", "updated": "cuda:2", "unused": "cpu",
        "a": "cuda:0", "v": "cuda:1", "c": "cuda:1",
    }  # fmt: skip
    read_a = work["v"].reads[0]
    assert (plan.buffer(read_a, "cuda:0"), plan.buffer(read_a, "cuda:1")) == ("a", "a>cuda:1")


@pytest.mark.parametrize("view", [False, True])
def test_a_state_has_one_home(view: bool) -> None:
    """u1 (cuda:0) and u2 (cuda:1) update one state"""
    work = Workload()
    w = work.state("w", MATRIX)
    sink(work, "u1", w, updates=w)
    if view:
        work.task(lambda w: w.t(), w, name="u2")
    else:
        sink(work, "u2", w, updates=w)
    with pytest.raises(ScheduleError, match=r"state 'w' lives on cuda:0, but task 'u2'.*is placed on cuda:1"):
        plan_of(work, {"u1": "cuda:0/s0", "u2": "cuda:1/s0"})


# -- what is refused ----------------------------------------------------------------------------


def _pair() -> Workload:
    """a ─▶ b"""
    work = Workload()
    add(work, "b", add(work, "a", work.input("x", MATRIX), device="cuda"))
    return work


LANES = {"a": "cuda:0/s0", "b": "cuda:0/s0"}


@pytest.mark.parametrize("order", [["b", "a"], ["a"], ["a", "a", "b"], ["a", "b", "c"], []])
def test_an_order_that_is_none(order: list[str]) -> None:
    placed = Placement(order, LANES)
    with pytest.raises(ScheduleError, match="every task once, each after those it depends on"):
        build_plan(_pair(), hand_platform(), None, placed, scheduler="by_hand")


@pytest.mark.parametrize(
    ("lanes", "message"),
    [
        ({"a": "cuda:0/s0"}, "task 'b' has no lane"),
        ({"a": "cpu/w0", "b": "cpu/w0"}, "task 'a' may not run on lane 'cpu/w0': it is for cuda"),
        ({"a": "cuda:0/h2d", "b": "cpu/w0"}, "may not run on lane 'cuda:0/h2d'"),
        ({"a": "cuda:0>cuda:1", "b": "cpu/w0"}, "may not run on lane 'cuda:0>cuda:1'"),
        ({"a": "cuda:9/s0", "b": "cpu/w0"}, "may not run on lane 'cuda:9/s0'"),
        ({"a": "cuda:0/s0", "b": "host/py"}, "may not run on lane 'host/py'"),
        ({"a": "s0", "b": "cpu/w0"}, "lane 's0' is neither 'device/lane' nor 'device>device'"),
    ],
)
def test_lanes_that_cannot_be(lanes: dict[str, str], message: str) -> None:
    with pytest.raises(GraphschedError, match=message):
        plan_of(_pair(), lanes)


@pytest.mark.parametrize(
    "make",
    [
        lambda work: work.input("g", MATRIX, device="cuda:9"),
        lambda work: work.state("g", MATRIX, device="cuda:9"),
        lambda work: work.copy(work.values["a"], to="cuda:9"),
        lambda work: sink(work, "c", device="cuda:9"),
    ],
)
def test_devices_that_do_not_exist_here(make: Any) -> None:
    work = _pair()
    make(work)
    with pytest.raises(PlatformError, match=r"no device 'cuda:9' on platform 'hand': it has cpu, cuda:0"):
        plan_of(work, LANES | {"c": "cuda:0/s0"})


def test_more_lanes_than_a_device_has() -> None:
    work = Workload()
    lanes = {f"t{i}": f"cuda:0/s{i}" for i in range(33)}
    for name in lanes:
        sink(work, name)
    with pytest.raises(ScheduleError, match=r"cuda:0 has 32 compute lanes, 33 are asked for"):
        plan_of(work, lanes)


def test_allowed_devices_follow_the_states_that_a_task_updates() -> None:
    work = Workload()
    w = work.state("w", MATRIX, device="cuda:1")
    sink(work, "anywhere", w)
    sink(work, "home", w, updates=w)
    sink(work, "never", w, updates=w, device="cuda:0")
    platform = hand_platform()
    assert allowed_devices(work["anywhere"], platform, work) == ("cuda:0", "cuda:1", "cuda:2", "cpu")
    assert allowed_devices(work["home"], platform, work) == ("cuda:1",)
    with pytest.raises(ScheduleError, match="task 'never' updates a state that lives on 'cuda:1'"):
        allowed_devices(work["never"], platform, work)


# -- lanes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "device", "kind", "target"),
    [
        ("host/py", "host", "host", ""),
        ("cuda:0/s1", "cuda:0", "compute", ""),
        ("cpu/w0", "cpu", "compute", ""),
        ("cuda:0/h2d", "cuda:0", "h2d", ""),
        ("cuda:0/d2h", "cuda:0", "d2h", ""),
        ("cpu/local", "cpu", "local", ""),
        ("cuda:0>cuda:1", "cuda:0", "peer", "cuda:1"),
        ("host1/cuda:0/s1", "host1/cuda:0", "compute", ""),
    ],
)
def test_lanes_by_name(name: str, device: str, kind: str, target: str) -> None:
    lane = Lane.named(name)
    assert (lane.name, lane.device, lane.kind, lane.target) == (name, device, kind, target)


@pytest.mark.parametrize("name", ["", "s0", "/s0", "cuda:0/", "cuda:0>", ">cuda:0"])
def test_names_of_no_lane(name: str) -> None:
    with pytest.raises(GraphschedError, match="is neither 'device/lane' nor 'device>device'"):
        Lane.named(name)


def test_lane_of_a_copy() -> None:
    pairs = [("cpu", "cuda:0"), ("cuda:0", "cpu"), ("cuda:0", "cuda:1"), ("cpu", "cpu"), ("cuda:0", "cuda:0")]
    assert [copy_lane(*pair) for pair in pairs] == [
        "cuda:0/h2d", "cuda:0/d2h", "cuda:0>cuda:1", "cpu/local", "cuda:0/local",
    ]  # fmt: skip


def test_actions_are_views() -> None:
    work = _pair()
    plan = plan_of(work, LANES)
    copy, a, b = plan
    assert [x.index for x in (copy, a, b)] == [0, 1, 2]
    assert (copy.kind, copy.task, copy.lanes[0].name) == ("copy", None, "cuda:0/h2d")
    assert copy.copy is not None
    assert (copy.copy.source, copy.copy.target) == ("cpu", "cuda:0")
    assert (a.task, a.copy, a.waits) == (work["a"], None, (0,))
    assert b.lanes == (Lane.named("cuda:0/s0"),)
    assert plan.index_of == {"x>cuda:0": 0, "a": 1, "b": 2}
    assert [lane.name for lane in plan.lanes_of_device("cuda:0")] == ["cuda:0/s0"]
    assert repr(plan) == "Plan(by_hand, 3 actions on 3 lanes of hand)"

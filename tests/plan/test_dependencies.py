"""What must hold for every plan: minimal waits, clocks, frees."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import HealthCheck, given, settings

from graphsched.errors import PlanError
from graphsched.plan import Plan, known
from graphsched.plan.dependencies import Columns, merge, reduce_waits
from graphsched.workload import Workload
from tests.plan.hand import MATRIX, actions, add, plan_of, plans, sink

any_plan = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _over(plan: Plan) -> list[set[int]]:
    """For each action those that must be over before it starts, by brute force."""
    over: list[set[int]] = []
    lane_last: dict[int, int] = {}
    thread: set[int] = set()
    for i, lane in enumerate(plan.lane_of):
        before = set(thread)
        for j in (*plan.waits[i], *([lane_last[lane]] if lane in lane_last else [])):
            before |= {j} | over[j]
        over.append(before)
        lane_last[lane] = i
        if plan.kinds[i] == "wait":
            thread = before | {i}
    return over


@any_plan
@given(plans())
def test_every_built_plan_is_right(plan: Plan) -> None:
    plan.check()


@any_plan
@given(plans())
def test_every_dependency_of_the_workload_is_kept_by_waits_and_lanes(plan: Plan) -> None:
    over = _over(plan)
    homes = plan.homes
    for u, v in plan.work.graph.edges:
        i, j = plan.index_of[u], plan.index_of[v]
        updated = {value.root for value in plan.work[v].updates}
        away = plan.kinds[i] == "run" and any(
            r.value.root in updated and homes[r.value.name] != plan.lanes[plan.lane_of[i]].device
            for r in plan.work[u].reads
        )
        assert i in over[j] or away, f"{v} does not wait for {u}"  # a reader elsewhere has a copy of its own


@any_plan
@given(plans())
def test_what_is_read_is_the_right_version_made_before(plan: Plan) -> None:
    """Every read finds the buffer of its version: written by its source, and not yet by the next update."""
    over = _over(plan)
    writers: dict[str, list[int]] = {}
    for i, kind in enumerate(plan.kinds):
        if kind == "run":
            for value in plan.work[plan.names[i]].updates:
                writers.setdefault(value.root, []).append(i)
    for i, kind in enumerate(plan.kinds):
        if kind == "wait":
            continue
        device = plan.lanes[plan.lane_of[i]].device
        reads = [plan.copies[i].read] if i in plan.copies else plan.work[plan.names[i]].reads
        for read in reads:
            own = i in plan.copies or plan.homes[read.value.name] == device
            if not own:
                assert plan.index_of[f"{read}>{device}"] in over[i]
                continue
            if read.source is not None:
                assert plan.index_of[read.source] in over[i]
            for j in dict.fromkeys(writers.get(read.value.root, [])):
                done = writers[read.value.root].index(j) < read.version
                assert j == i or (j in over[i] if done else i in over[j])


@any_plan
@given(plans())
def test_known_is_what_lanes_and_waits_imply(plan: Plan) -> None:
    for i, (clock, over) in enumerate(zip(known(plan), _over(plan), strict=True)):
        lasts = [max((j for j in over if plan.lane_of[j] == k), default=-1) for k in range(len(plan.lanes))]
        others = [k for k, lane in enumerate(plan.lanes) if k != plan.lane_of[i] and lane.kind != "host"]
        assert [clock[k] for k in others] == [lasts[k] for k in others]


@any_plan
@given(plans())
def test_no_wait_can_be_left_out(plan: Plan) -> None:
    for i, waits in enumerate(plan.waits):
        if plan.kinds[i] == "wait" and plan.names[i] not in plan.work.graph:
            continue  # the scheduler's own: it may wait for less
        for j in waits:
            fewer = [*plan.waits]
            fewer[i] = tuple(k for k in waits if k != j)
            with pytest.raises(PlanError, match="nothing makes it wait"):
                replace(plan, waits=fewer, frees={}).check()


@any_plan
@given(plans())
def test_the_thread_waits_for_all_that_was_issued(plan: Plan) -> None:
    for i, over in enumerate(_over(plan)):
        if plan.kinds[i] == "wait":
            assert over == set(range(i))


def _memory(plan: Plan) -> dict[str, str]:
    """Name of the memory that each output, view and inserted copy lies in; empty for states and inputs."""
    memory = {name: "" for name, value in plan.work.values.items() if value.kind != "output"}
    for i, name in enumerate(plan.names):
        if i in plan.copies:
            memory[name] = name
        elif plan.kinds[i] == "run":
            task, device = plan.work[name], plan.lanes[plan.lane_of[i]].device
            roots = {r.value.root: memory[plan.buffer(r, device)] for r in task.reads}
            for value in task.outputs:
                memory[value.name] = value.name if value.root == value.name else roots[value.root]
    return memory


def _users(plan: Plan, memory: dict[str, str]) -> dict[str, list[int]]:
    """Actions that make or read each memory, or a view of it; the maker first."""
    users: dict[str, list[int]] = {}
    for i, name in enumerate(plan.names):
        if i in plan.copies:
            users.setdefault(memory[plan.copies[i].read.value.name], []).append(i)
            users.setdefault(memory[name], []).append(i)
        elif plan.kinds[i] == "run":
            task, device = plan.work[name], plan.lanes[plan.lane_of[i]].device
            for buffer in [*(plan.buffer(r, device) for r in task.reads), *(v.name for v in task.outputs)]:
                users.setdefault(memory[buffer], []).append(i)
    return users


@any_plan
@given(plans())
def test_a_buffer_is_freed_where_its_makers_lane_is_past_every_reader(plan: Plan) -> None:
    memory, clocks = _memory(plan), known(plan)
    users = _users(plan, memory)
    staying = {""} | {memory[v.name] for v in plan.work.returned()}
    freed: dict[str, int] = {}
    for i, names in plan.frees.items():
        for name in names:
            assert name not in freed
            freed[name] = i
            assert memory[name] not in staying
            maker = users[memory[name]][0]
            assert plan.lane_of[maker] == plan.lane_of[i]
            for user in users[memory[name]]:
                lane = plan.lane_of[user]
                assert user <= i if lane == plan.lane_of[i] else clocks[i][lane] >= user
    for name, i in freed.items():  # views go with the memory that they look into
        assert all(freed.get(other) == i for other, owner in memory.items() if owner == memory[name])


@any_plan
@given(plans())
def test_a_buffer_is_freed_as_early_as_can_be(plan: Plan) -> None:
    memory, clocks = _memory(plan), known(plan)
    freed = {name: i for i, names in plan.frees.items() for name in names}
    staying = {""} | {memory[v.name] for v in plan.work.returned()}
    for owner, users in _users(plan, memory).items():
        if owner in staying:
            continue
        lane = plan.lane_of[users[0]]
        may = [
            i
            for i in range(users[-1], len(plan))
            if plan.lane_of[i] == lane
            and all(plan.lane_of[u] == lane or clocks[i][plan.lane_of[u]] >= u for u in users)
        ]
        assert freed.get(owner) == (may[0] if may else None)


def test_values_are_freed_in_the_order_of_their_making() -> None:
    """a ─▶ c, b ─▶ c, all on one lane"""
    work = Workload()
    x = work.input("x", MATRIX, device="cuda:0")
    a, b = add(work, "a", x), add(work, "b", x)
    sink(work, "c", b, a)
    assert plan_of(work, dict.fromkeys("abc", "cuda:0/s0")).frees == {2: ("a", "b")}


def test_a_buffer_read_elsewhere_waits_for_its_lane_to_hear_of_it() -> None:
    """
    a (s0) ─▶ b (s1) ─▶ d (s0); c (s0) comes before d and knows nothing of b
    """
    work = Workload()
    x = work.input("x", MATRIX, device="cuda:0")
    a = add(work, "a", x)
    b = add(work, "b", a)
    sink(work, "c", x)
    sink(work, "d", b)
    plan = plan_of(work, {"a": "cuda:0/s0", "b": "cuda:0/s1", "c": "cuda:0/s0", "d": "cuda:0/s0"})
    assert actions(plan) == (
        "  run a on cuda:0/s0\n"
        "  run b on cuda:0/s1 after a\n"
        "  run c on cuda:0/s0\n"
        "  run d on cuda:0/s0 after b free a\n"
    )


def test_a_view_into_one_of_two_copies_keeps_both() -> None:
    """x (cpu) and its view v (cuda:0); t on cuda:1 reads both and returns a view into one: nobody says which."""
    work = Workload()
    x = work.input("x", MATRIX)
    v = work.task(lambda x: x.t(), x, name="v")
    t = work.task(lambda x, v: v[0], x, v, name="t")
    sink(work, "end", t)
    work.barrier()
    for name, device in (("y", "cpu"), ("z", "cuda:0")):  # the lanes of both copies go on
        sink(work, f"last_{name}", work.input(name, MATRIX, device=device))
    plan = plan_of(work, {"v": "cuda:0/s0"} | dict.fromkeys(("t", "end", "last_y", "last_z"), "cuda:1/s0"))
    freed = {name for names in plan.frees.values() for name in names}
    assert not freed & {"x>cuda:1", "v>cuda:1", "t"}


def test_views_are_freed_with_the_memory_that_they_look_into() -> None:
    """a ─▶ v (a view) ─▶ vv (a view of it) ─▶ end, then last; all on one lane"""
    work = Workload()
    v = work.task(lambda a: a.t(), add(work, "a", work.input("x", MATRIX, device="cuda:0")), name="v")
    sink(work, "end", work.task(lambda v: v[0], v, name="vv"))
    sink(work, "last")
    plan = plan_of(work, dict.fromkeys(("a", "v", "vv", "end", "last"), "cuda:0/s0"))
    assert plan.frees == {3: ("a", "v", "vv")}


def test_a_lane_that_knows_of_one_reader_does_not_know_of_the_next() -> None:
    """a (s0) ─▶ b, c (s1); a, b ─▶ d (s0), which waits for b and knows nothing of c"""
    work = Workload()
    a = add(work, "a", work.input("x", MATRIX, device="cuda:0"))
    b = add(work, "b", a)
    sink(work, "c", a)
    sink(work, "d", a, b)
    sink(work, "e", work.values["x"])
    plan = plan_of(work, {t: f"cuda:0/s{t in 'bc':d}" for t in "abcde"})
    assert plan.waits == [(), (0,), (), (1,), ()]
    assert plan.frees == {}


def test_waits_are_reduced_through_lanes_and_other_waits() -> None:
    """
    0 (A) ─▶ 1 (B) ─▶ 2 (C) ◀─ 0        2 needs no wait for 0
    """
    columns = Columns(["run"] * 3, ["0", "1", "2"], [0, 1, 2])
    waits, clocks = reduce_waits(columns, [[], [0], [0, 1]], 3)
    assert waits == [(), (0,), (1,)]
    assert clocks == [(-1, -1, -1), (0, -1, -1), (0, 1, -1)]


def test_merge_keeps_the_later_and_shares_what_is_equal() -> None:
    one, other = (1, 5, -1), (1, 2, -1)
    assert merge(one, other) is one
    assert merge(other, one) == one
    assert merge(other, one, 2, 7) == (1, 5, 7)


def test_the_edges_of_a_long_chain_stay_few() -> None:
    """t0 ─▶ t1 ─▶ …, over two lanes in turn, each also reading the first value: one wait each."""
    work = Workload()
    first = value = work.input("x", MATRIX, device="cuda:0")
    for i in range(30):
        value = add(work, f"t{i}", value, first)
        first = value if not i else first
    plan = plan_of(work, {f"t{i}": f"cuda:0/s{i % 2}" for i in range(30)})
    assert [len(w) for w in plan.waits] == [0] + [1] * 29
    assert nx.number_of_edges(work.graph) == 29 + 28

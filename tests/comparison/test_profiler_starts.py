"""Starts that are not judged: launches of graphs, changes of engines, shared GPUs; and all others that are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from graphsched.comparison.profiler_starts import starts_apart
from graphsched.formats.kernel_matching import AMBIGUOUS, Matching
from graphsched.formats.profiler_trace import DeviceWork
from graphsched.plan import Plan
from graphsched.workload import Workload
from tests.timelines import MATRIX, add, plan_of, simple_run

Times = tuple[float, float]


def work_at(start: float, end: float, stream: int = 7, kind: Any = "kernel", **more: Any) -> DeviceWork:
    place = {"device": 0, "correlation": 1} | more
    return DeviceWork(kind, kind, stream=stream, start_s=start * 1e-6, end_s=end * 1e-6, **place)


def apart(plan: Plan, works: Mapping[str, DeviceWork], **more: Any) -> dict[str, str]:
    """By name, with work of one piece an action."""
    found = {plan.index_of[name]: (piece,) for name, piece in works.items()}
    known: dict[str, Any] = {"ranges": {}, "empty": (), "missing": {}, "strays": ()} | more
    line = simple_run(plan, lambda i: 1e-5, source="measured")
    return {plan.names[i]: why for i, why in starts_apart(line, Matching("elimination", found, **known)).items()}


def fork(**lanes: str) -> Plan:
    """a ─┬─▶ b and c, d alone; all on cuda:0/s0 but for `lanes`, in graph mode."""
    work = Workload("fork")
    a = add(work, "a", work.input("x", MATRIX, device="cuda:0"))
    add(work, "b", a)
    add(work, "c", a)
    add(work, "d", work.input("y", MATRIX, device="cuda:0"))
    return replace(plan_of(work, dict.fromkeys("abcd", "cuda:0/s0") | lanes), mode="graph")


APART = {name: work_at(10 * k, 10 * k + 5) for k, name in enumerate("abcd")}  # no two at a time


def test_what_has_nothing_before_it_in_its_graph_starts_with_the_launch() -> None:
    """Of each lane, unless it waits for another one."""
    assert apart(fork(), APART) == {"a": "launch"}
    assert apart(fork(c="cuda:0/s1", d="cuda:0/s2"), APART) == {"a": "launch", "d": "launch"}
    assert apart(replace(fork(), mode="eager"), APART) == {}


def test_an_action_without_work_is_nothing_to_be_behind() -> None:
    """a launches nothing: b has the launch before it, and c has b; where a is only not matched it has work."""
    left = {name: piece for name, piece in APART.items() if name != "a"}
    assert apart(fork(), left, empty=(0,)) == {"b": "launch"}
    assert apart(fork(), left, missing={0: AMBIGUOUS}) == {}


def test_each_graph_of_a_plan_has_its_first_action() -> None:
    """a │ task on the CPU │ b: two graphs; and with a wait of every lane instead, one."""
    work = Workload("cut")
    a = add(work, "a", work.input("x", MATRIX, device="cuda:0"))
    h = add(work, "h", a)
    add(work, "b", work.copy(h, to="cuda:0", name="back"))
    plan = replace(plan_of(work, {"a": "cuda:0/s0", "h": "cpu/w0", "b": "cuda:0/s0"}), mode="graph")
    copies = {plan.names[i]: work_at(50 + 10 * i, 55 + 10 * i, 9, "copy", correlation=i) for i in plan.copies}
    found = apart(plan, {"a": APART["a"], "b": replace(APART["b"], correlation=2), **copies})
    assert (found["a"], found["b"]) == ("launch", "launch")
    assert sorted(found.values()) == ["launch", "launch"]
    joined = Workload("joined")
    add(joined, "a", joined.input("x", MATRIX, device="cuda:0"))
    joined.barrier("gate")
    add(joined, "b", joined.input("y", MATRIX, device="cuda:0"))
    plan = replace(plan_of(joined, {"a": "cuda:0/s0", "b": "cuda:0/s1"}), mode="graph")
    assert apart(plan, {"a": APART["a"], "b": APART["b"]}) == {"a": "launch"}


def with_copies(*kinds: str) -> dict[str, DeviceWork]:
    return {
        name: work_at(10 * k, 10 * k + 5, 7, kind) for k, (name, kind) in enumerate(zip("abcd", kinds, strict=True))
    }


def test_a_change_of_engines_on_a_stream_of_a_graph_is_told() -> None:
    """Kernels and fills are of one engine; the stream is the profiler's, whatever the lane."""
    assert apart(fork(), with_copies("kernel", "copy", "copy", "kernel")) == {
        "a": "launch",
        "b": "engine",
        "d": "engine",
    }
    assert apart(fork(), with_copies("kernel", "fill", "kernel", "fill")) == {"a": "launch"}
    kinds = with_copies("kernel", "kernel", "copy", "kernel")
    assert apart(fork(), kinds | {"c": replace(kinds["c"], stream=8)}) == {"a": "launch"}
    assert apart(fork(), kinds | {"c": replace(kinds["c"], correlation=8)}) == {"a": "launch"}
    assert apart(fork(), kinds | {"c": replace(kinds["c"], device=1)}) == {"a": "launch"}
    assert apart(replace(fork(), mode="eager"), kinds) == {}


def test_work_of_no_matched_action_counts_for_engines_and_room() -> None:
    stray = work_at(6, 8, 7, "copy")
    assert apart(fork(), APART, strays=(stray,)) == {"a": "launch", "b": "engine"}
    assert apart(fork(), APART, strays=(work_at(6, 12, 9),)) == {"a": "launch", "b": "shared"}


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (work_at(6, 12, 9), {"b": "shared"}),
        (work_at(6, 9.8, 9), {}),
        (work_at(6, 9.95, 9), {"b": "shared"}),  # it ends where b begins, as well as can be told
        (work_at(6, 12, 9, "copy"), {}),
        (work_at(6, 12, 9, device=1), {}),
        (work_at(6, 25, 9), {"b": "shared", "c": "shared"}),
    ],
)
def test_work_that_runs_where_another_begins_shares_the_gpu(other: DeviceWork, found: dict[str, str]) -> None:
    """b begins at 10 µs, c at 20; d, on a lane of its own, is what runs beside them. In eager mode too."""
    plan = replace(fork(d="cuda:0/s1"), mode="eager")
    assert apart(plan, APART | {"d": other}) == found


def test_an_actions_own_kernels_do_not_share() -> None:
    plan = replace(fork(), mode="eager")
    works: dict[int, tuple[DeviceWork, ...]] = {0: (work_at(0, 6), work_at(3, 9, 8))}
    known: dict[str, Any] = {"ranges": {}, "empty": (1, 2, 3), "missing": {}, "strays": ()}
    line = simple_run(plan, lambda i: 1e-5, source="measured")
    assert starts_apart(line, Matching("launches", works, **known)) == {}

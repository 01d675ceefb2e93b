"""Plans as text: round trips, and an error with the line for whatever is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from graphsched.costs import Costs, TaskCost
from graphsched.errors import DeadlockError, PlanError
from graphsched.plan import Plan
from graphsched.plan.model import line_of
from graphsched.workload import Workload
from tests.plan.hand import MATRIX, add, hand_platform, plan_of, plans, sink

any_plan = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _again(plan: Plan, text: str) -> Plan:
    return Plan.from_text(text, plan.work, plan.platform, plan.costs)


@any_plan
@given(plans())
def test_any_plan_round_trips(plan: Plan) -> None:
    again = _again(plan, plan.text)
    assert again.text == plan.text
    for column in ("lanes", "kinds", "names", "lane_of", "waits", "copies", "frees", "homes", "scheduler", "mode"):
        assert getattr(again, column) == getattr(plan, column), column


@any_plan
@given(plans(max_tasks=6), st.data())
def test_a_truncated_text_is_refused_or_still_right(plan: Plan, data: st.DataObject) -> None:
    text = plan.text
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    try:
        again = _again(plan, cut)
    except PlanError:
        return
    again.check()
    assert set(plan.work.graph) <= set(again.names)


@any_plan
@given(plans(max_tasks=6), st.data())
def test_any_edited_text_is_refused_or_right(plan: Plan, data: st.DataObject) -> None:
    """Lines left out, doubled, swapped, or with words of other lines in them."""
    lines = plan.text.splitlines()
    for _ in range(data.draw(st.integers(1, 2))):
        i, j = (data.draw(st.integers(4, len(lines) - 1)) for _ in range(2))
        change = data.draw(st.sampled_from(["leave out", "double", "swap", "word"]))
        if change == "leave out":
            del lines[i]
        elif change == "double":
            lines.insert(j, lines[i])
        elif change == "swap":
            lines[i], lines[j] = lines[j], lines[i]
        else:
            words, others = lines[i].split(" "), lines[j].split(" ")
            words[data.draw(st.integers(0, len(words) - 1))] = data.draw(st.sampled_from(others))
            lines[i] = " ".join(words)
        assume(len(lines) > 4)
    try:
        again = _again(plan, "\n".join(lines))
    except PlanError:
        return
    again.check()
    assert set(plan.work.graph) <= set(again.names)


def test_a_round_trip_keeps_the_costs_given() -> None:
    plan = _chain()
    costs = Costs({("mm", "GPU"): TaskCost(1.0)})
    assert Plan.from_text(plan.text, plan.work, plan.platform, costs).costs is costs
    assert Plan.from_text(plan.text, plan.work, plan.platform).costs is plan.platform.costs


def test_names_of_workload_and_platform_stay_on_their_line() -> None:
    work = Workload("two\nlines")
    plan = replace(plan_of(work, {}), platform=replace(hand_platform(), name=""))
    assert plan.text.splitlines()[1] == f"workload {work.digest()} two lines"
    _again(plan, plan.text)


# -- one wrong line each ------------------------------------------------------------------------


def _chain() -> Plan:
    """
    x ─▶ x>cuda:0 ─▶ a (s0) ─▶ a>cuda:1 ─▶ b (cuda:1/s0) ─▶ back ─▶ stop ─▶ c (cuda:1/s1)

    ::

         1  graphsched plan 1
         2  workload …
         3  platform …
         4  scheduler by_hand mode eager
         5  lanes
         6    host/py
         7    cuda:0/h2d
         8    cuda:0/s0
         9    cuda:0>cuda:1
        10    cuda:1/s0
        11    cuda:1/d2h
        12    cuda:1/s1
        13  actions
        14    copy x>cuda:0 from cpu to cuda:0 pinned on cuda:0/h2d
        15    run a on cuda:0/s0 after x>cuda:0
        16    copy a>cuda:1 from cuda:0 to cuda:1 pinned on cuda:0>cuda:1 after a
        17    run b on cuda:1/s0 after a>cuda:1
        18    copy back from cuda:1 to cpu pageable on cuda:1/d2h after b
        19    wait stop on host/py after back
        20    run c on cuda:1/s1
    """
    work = Workload("chain")
    a = add(work, "a", work.input("x", MATRIX), device="cuda")
    b = add(work, "b", a)
    work.copy(b, to="cpu", name="back")
    work.barrier("stop")
    sink(work, "c", b, device="cuda:1")
    return plan_of(work, {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": "cuda:1/s1"})


def test_the_lines_are_as_drawn() -> None:
    drawn = [line[12:] for line in (_chain.__doc__ or "").splitlines() if re.match(r" +\d+  ", line)]
    head = (1, 2)  # hashes
    text = _chain().text.splitlines()
    assert [d for i, d in enumerate(drawn) if i not in head] == [t for i, t in enumerate(text) if i not in head]
    assert line_of(_chain(), 0) == 14


def _line(number: int, new: str | None) -> Callable[[list[str]], None]:
    """A change of one line (left out for None)."""

    def change(lines: list[str]) -> None:
        lines[number - 1 : number] = [] if new is None else [new]

    return change


def _swap(i: int, j: int) -> Callable[[list[str]], None]:
    def change(lines: list[str]) -> None:
        lines[i - 1], lines[j - 1] = lines[j - 1], lines[i - 1]

    return change


@pytest.mark.parametrize(
    ("change", "line", "message"),
    [
        # head
        (_line(1, "a plan"), 1, "'graphsched plan' is expected"),
        (_line(1, "graphsched plan 2"), 1, "version '2', this is version 1"),
        (_line(1, "graphsched plan"), 1, "version 'plan'"),
        (_line(2, "workload 0123456789abcdef chain"), 2, "another workload: 0123456789abcdef"),
        (_line(2, "workload "), 2, "'workload' is expected"),
        (_line(2, None), 2, "'workload' is expected"),
        (_line(3, "platform 0123456789abcdef hand"), 3, "another platform: 0123456789abcdef"),
        (_line(4, "scheduler by_hand"), 4, "'scheduler' is expected"),
        (_line(5, None), 5, "'lanes' is expected"),
        # lanes
        (_line(8, "  s0"), 8, "lane 's0' is neither"),
        (_line(8, "  cuda:9/s0\n  cuda:0/s0"), 8, "no device 'cuda:9'"),
        (_line(8, "  cuda:0>cuda:9\n  cuda:0/s0"), 8, "no device 'cuda:9'"),
        (_line(10, "  cuda:0/s0"), 10, "lane 'cuda:0/s0' is listed twice"),
        (_line(10, None), 16, "lane 'cuda:1/s0' is not listed under 'lanes'"),
        (_line(13, None), 19, "the line 'actions' is missing"),
        # lines that cannot be read
        (_line(15, "  run"), 15, "cannot read 'run'"),
        (_line(15, ""), 15, "cannot read ''"),
        (_line(15, "  walk a on cuda:0/s0"), 15, "cannot read 'walk a on"),
        (_line(15, "  run a on cuda:0/s0 after"), 15, "cannot read"),
        (_line(15, "  run a from cpu to cuda:0 pinned on cuda:0/s0"), 15, "only copies have one"),
        (_line(16, "  copy a>cuda:1 on cuda:0>cuda:1 after a"), 16, "copy 'a>cuda:1' has no source"),
        (_line(16, "  copy z>cuda:1 from cuda:0 to cuda:1 pinned on cuda:0>cuda:1"), 16, "no task reads 'z'"),
        # tasks
        (_line(15, None), 19, "task 'a' of the workload is missing"),
        (_line(18, None), 19, "task 'back' of the workload is missing"),
        (_line(19, None), 19, "task 'stop' of the workload is missing"),
        (_line(20, "  run a on cuda:0/s0"), 20, "action 'a' appears 2 times"),
        (_line(15, "  wait a on host/py"), 15, "task 'a' is a run, the plan has a wait"),
        (_line(18, "  run back on cuda:1/s0"), 18, "task 'back' is a copy, the plan has a run"),
        (_line(14, "  run z on cuda:0/s0"), 14, "the workload has no task 'z'"),
        # where
        (_line(15, "  run a on cuda:0/h2d after x>cuda:0"), 15, "task 'a' may not run on cuda:0/h2d"),
        (_line(20, "  run c on cuda:0/s0 after b"), 20, "task 'c' may not run on cuda:0/s0: compute lanes of cuda:1"),
        (_line(19, "  wait stop on cuda:1/s0 after back"), 19, "waits are on host/py"),
        (_line(14, "  copy x>cuda:0 from cpu to cuda:0 pinned on cuda:1/d2h"), 14, "its lane is cuda:0/h2d"),
        (_line(14, "  copy x>cuda:0 from cuda:1 to cuda:0 pinned on cuda:0/s0"), 14, "x is not on cuda:1 but on cpu"),
        (_line(14, "  copy x>cuda:0 from cpu to cuda:1 pinned on cuda:1/s0"), 14, "goes to cuda:1, it is asked for on"),
        (_line(18, "  copy back from cuda:1 to cuda:0 pinned on cuda:1/s0 after b"), 18, "it is asked for on cpu"),
        # who waits
        (_line(15, "  run a on cuda:0/s0"), 15, "'a' depends on 'x>cuda:0', but nothing makes it wait: add 'after x>"),
        (_line(15, "  run a on cuda:0/s0 after z"), 15, "it waits for 'z', which is no action"),
        (_line(18, "  copy back from cuda:1 to cpu pageable on cuda:1/d2h"), 18, "depends on 'b'"),
        (_line(19, "  wait stop on host/py"), 19, "depends on 'back'"),
        (_line(20, "  run c on cuda:1/s1 after stop"), 20, "a wait of the thread"),
        (_line(14, None), 14, "it waits for 'x>cuda:0', which is no action"),
        (_line(14, "  wait z on host/py"), 15, "it waits for 'x>cuda:0', which is no action"),
        (_line(16, "  wait a>cuda:1 on host/py after a"), 17, "a wait of the thread"),
        (_line(17, "  run b on cuda:1/s0 after back"), 17, "wait for each other: b -> back -> b"),
        (_swap(14, 15), 14, "'a' waits for 'x>cuda:0', which is dispatched later"),
        (_swap(19, 20), 19, "'c' depends on|'c' .* waits"),
        (_line(14, "  copy x>cuda:0 from cpu to cuda:0 pinned on cuda:0/h2d after back"), 14, "wait for each other"),
        # frees
        (_line(15, "  run a on cuda:0/s0 after x>cuda:0 free a"), 15, "'a' is freed, but 'a>cuda:1' may still use it"),
        (_line(20, "  run c on cuda:1/s1 free a"), 20, "freed on another lane than cuda:0/s0, which made it"),
        (_line(20, "  run c on cuda:1/s1 free x"), 20, "'x' cannot be freed"),
        (_line(20, "  run c on cuda:1/s1 free z"), 20, "'z' cannot be freed"),
        (_line(17, "  run b on cuda:1/s0 after a>cuda:1 free back"), 17, "'back' cannot be freed"),
    ],
)
def test_a_wrong_line(change: Callable[[list[str]], None], line: int, message: str) -> None:
    plan = _chain()
    lines = plan.text.splitlines()
    change(lines)
    with pytest.raises(PlanError, match=message) as caught:
        _again(plan, "\n".join(lines) + "\n")
    assert caught.value.line == line
    assert str(caught.value).startswith(f"line {line}: ")


def test_a_copy_that_is_missing_is_asked_for_where_it_is_read() -> None:
    plan = _chain()
    text = "\n".join(line for line in plan.text.splitlines() if "copy a>" not in line).replace(" after a>cuda:1", "")
    with pytest.raises(PlanError, match=r"^line 16: 'b' reads a on cuda:1, .* add 'copy a>cuda:1 from cuda:0 to"):
        _again(plan, text)


def test_a_buffer_is_freed_once() -> None:
    """a ─▶ b, then c, on one lane"""
    work = Workload()
    a = add(work, "a", work.input("x", MATRIX, device="cuda:0"))
    sink(work, "b", a)
    sink(work, "c")
    plan = plan_of(work, dict.fromkeys("abc", "cuda:0/s0"))
    assert plan.frees == {1: ("a",)}
    with pytest.raises(PlanError, match=r"^line 11: 'a' is freed twice"):
        _again(plan, plan.text.replace("run c on cuda:0/s0", "run c on cuda:0/s0 free a"))
    later = plan.text.replace(" free a", "").replace("run c on cuda:0/s0", "run c on cuda:0/s0 free a")
    assert _again(plan, later).frees == {2: ("a",)}


def test_a_free_before_the_lane_has_heard_of_the_reader() -> None:
    """a (s0) ─▶ b (s1); c (s0) knows nothing of b"""
    work = Workload()
    a = add(work, "a", work.input("x", MATRIX, device="cuda:0"))
    sink(work, "b", a)
    sink(work, "c")
    plan = plan_of(work, {"a": "cuda:0/s0", "b": "cuda:0/s1", "c": "cuda:0/s0"})
    assert not plan.frees
    with pytest.raises(PlanError, match="'a' is freed, but 'b' may still use it"):
        _again(plan, plan.text.replace("run c on cuda:0/s0", "run c on cuda:0/s0 free a"))
    _again(plan, plan.text.replace("run c on cuda:0/s0", "run c on cuda:0/s0 after b free a"))


def test_a_circle_of_waits_across_lanes_is_printed() -> None:
    """
    s0: a b       a waits for d, c for b
    s1: c d
    """
    work = Workload()
    for name in "abcd":
        sink(work, name)
    plan = plan_of(work, {"a": "cuda:0/s0", "b": "cuda:0/s0", "c": "cuda:0/s1", "d": "cuda:0/s1"})
    text = plan.text.replace("run a on cuda:0/s0", "run a on cuda:0/s0 after d")
    with pytest.raises(PlanError, match="'a' waits for 'd', which is dispatched later"):
        _again(plan, text)
    with pytest.raises(DeadlockError, match=r"^line 10: actions wait for each other: a -> b -> c -> d -> a: remove"):
        _again(plan, text.replace("run c on cuda:0/s1", "run c on cuda:0/s1 after b"))


def test_an_action_that_waits_for_itself() -> None:
    work = Workload()
    sink(work, "a")
    plan = plan_of(work, {"a": "cuda:0/s0"})
    with pytest.raises(DeadlockError, match="a -> a"):
        _again(plan, plan.text.replace("s0\n", "s0 after a\n").replace("  cuda:0/s0 after a", "  cuda:0/s0"))


def test_a_state_updated_on_two_devices_in_the_text() -> None:
    work = Workload()
    w = work.state("w", MATRIX)
    for name in "uv":
        sink(work, name, w, updates=w)
    plan = plan_of(work, {"u": "cuda:0/s0", "v": "cuda:0/s0"})
    text = plan.text.replace("  cuda:0/s0\n", "  cuda:0/s0\n  cuda:1/s0\n", 1)
    with pytest.raises(PlanError, match="state 'w' lives on cuda:0, but task 'v'"):
        _again(plan, text.replace("run v on cuda:0/s0", "run v on cuda:1/s0"))


@pytest.mark.parametrize("text", ["", "\n", "hello", "graphsched plan 1", "\x00"])
def test_what_is_no_plan(text: str) -> None:
    with pytest.raises(PlanError, match=r"^line [12]: "):
        _again(_chain(), text)

"""Errors of a prediction, what it is bound by, and the table of both."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.comparison import Comparison, compare
from graphsched.errors import PlanError
from graphsched.timeline import Timeline
from graphsched.workload import Workload
from tests.timelines import MATRIX, add, handover, overlap, plan_of, simple_run, timeline

MEASURED = [(0, 2), (2, 4), (4, 7), (4, 10), (0, 10)]  # a, a>cuda:1, b, c, the thread's wait
PREDICTED = [(0, 2), (2, 3), (3.5, 7), (4, 10.5), (0, 11)]


def pair(**measured: object) -> tuple[Timeline, Timeline]:
    plan = handover()
    return timeline(plan, PREDICTED), timeline(plan, MEASURED, source="measured", **measured)  # type: ignore[arg-type]


def compared(**measured: object) -> Comparison:
    return compare(*pair(**measured))


def test_errors_are_signed_shares_of_the_measured_makespans() -> None:
    """a ─▶ a>cuda:1 ─▶ b, c; the wait (last) is left out of starts and ends."""
    c = compared()
    assert c.makespan_error == pytest.approx(0.1)
    assert c.actions.tolist() == [0, 1, 2, 3]
    assert c.start_errors.tolist() == pytest.approx([0, 0, -0.05, 0])
    assert c.end_errors.tolist() == pytest.approx([0, -0.1, 0, 0.05])
    assert c.task_start_error == pytest.approx({"median": 0, "p95": 0.0425, "max": 0.05})
    assert c.task_end_error == pytest.approx({"median": 0.025, "p95": 0.0925, "max": 0.1})


def test_makespan_error_is_of_runs_without_timing_events() -> None:
    """Spans are shares of the timed makespan (20 s), the makespan's error is not (12.5 s)."""
    c = compared(makespan_s=12.5, timed_makespan_s=20.0)
    assert c.makespan_error == pytest.approx(11 / 12.5 - 1)
    assert c.end_errors.tolist() == pytest.approx([0, -0.05, 0, 0.025])


def test_worst_names_actions_by_start_or_end_and_breaks_ties_in_plan_order() -> None:
    """b is off at its start, c at its end, by as much: b comes first in the plan."""
    rows = compared().worst(3)
    assert [row.action for row in rows] == ["a>cuda:1", "b", "c"]
    assert rows[0].lane == "cuda:0>cuda:1"
    assert (rows[1].start_error, rows[1].end_error) == pytest.approx((-0.05, 0))
    assert len(compared().worst()) == 4


def test_spread_is_half_the_distance_of_the_quartiles() -> None:
    assert compared(samples_s=(1.0, 2.0, 3.0, 4.0, 5.0)).spread == pytest.approx(1 / 3)
    assert compared().spread is None


def test_gpu_bound_by_most_of_the_critical_path() -> None:
    """mm ─▶ copy: 3 s and 1 s on the GPU, issued in 1 s each."""
    plan = overlap(1)
    lines = [timeline(plan, [(1, 4), (4, 5)], issues=[(0, 1), (1, 2)], source=s) for s in ("predicted", "measured")]
    c = compare(*lines)
    assert c.gpu_share == pytest.approx(4 / 5)
    assert c.bound == "gpu"


def test_host_bound_where_the_thread_is_slower_than_the_gpu() -> None:
    """A chain of four: 8 µs to issue each, 2 µs on the GPU: it is over 2 µs after the last issue."""
    work, lanes = Workload(), {f"t{i}": "cuda:0/s0" for i in range(4)}
    y = work.input("x", MATRIX, device="cuda:0")
    for name in lanes:
        y = add(work, name, y)  # type: ignore[assignment]
    line = simple_run(plan_of(work, lanes), lambda i: 2e-6)
    c = compare(line, line)
    assert c.gpu_share == pytest.approx(8 / 34)
    assert c.bound == "host"


def test_time_of_timing_events_is_not_the_gpus() -> None:
    """mm: a span of 4 s, 3 s of which its two timing events took."""
    plan = overlap(1)
    slow = replace(plan.platform, dispatch=replace(plan.platform.dispatch, timed_gap_s=3.0))
    line = timeline(replace(plan, platform=slow), [(0, 4), (4, 8)])
    assert compare(line, line).gpu_share == pytest.approx(2 / 8)


@pytest.mark.parametrize(("costs", "gpu_s"), [({"graph_stamp_s": 0.25}, 7), ({"graph_event_s": 1.0}, 4), ({}, 2)])
def test_in_a_graph_stamps_or_event_nodes_are_taken_away(costs: dict[str, float], gpu_s: float) -> None:
    """mm ─▶ copy, 4 s each: beside them what a graph has around them; what streams have where that is not known."""
    plan = overlap(1)
    here = replace(plan.platform, dispatch=replace(plan.platform.dispatch, timed_gap_s=3.0, **costs))
    line = timeline(replace(plan, platform=here, mode="graph"), [(0, 4), (4, 8)])
    assert compare(line, line).gpu_share == pytest.approx(gpu_s / 8)


def test_time_in_which_the_thread_still_issues_an_action_is_not_the_gpus() -> None:
    """A task of many launches starts with the first (1 s) and ends with the last (9 s): 1 s is left."""
    work = Workload()
    add(work, "many", work.input("x", MATRIX, device="cuda:0"))
    line = timeline(plan_of(work, {"many": "cuda:0/s0"}), [(1, 10)], issues=[(0, 9)])
    assert compare(line, line).gpu_share == pytest.approx(0.1)


@pytest.mark.parametrize(("pinned", "bound"), [(True, "gpu"), (False, "host")])
def test_pageable_copies_are_the_hosts(pinned: bool, bound: str) -> None:
    """mm ─▶ copy of 4 times its length, which blocks the thread if its memory is pageable."""
    plan = overlap(1, pinned=pinned)
    line = timeline(plan, [(0, 1), (1, 5)])
    c = compare(line, line)
    assert c.bound == bound
    assert c.gpu_share == pytest.approx(1.0 if pinned else 0.2)


def test_cpu_lanes_are_the_hosts() -> None:
    work = Workload()
    add(work, "a", work.input("x", MATRIX))
    line = timeline(plan_of(work, {"a": "cpu/w0"}), [(0, 1)])
    assert compare(line, line).bound == "host"


@pytest.mark.parametrize(
    ("lanes", "spans", "shares"),
    [
        (("cuda:0/s0", "cuda:0/s1"), [(0, 2), (1, 3)], True),
        (("cuda:0/s0", "cuda:0/s1"), [(0, 2), (2, 3)], False),
        (("cuda:0/s0", "cuda:1/s0"), [(0, 2), (1, 3)], False),
        (("cpu/w0", "cpu/w1"), [(0, 2), (1, 3)], False),
        (("cuda:0/s0", "cuda:0/s0"), [(0, 2), (2, 3)], False),
    ],
)
def test_shares_device_where_two_lanes_of_an_accelerator_overlap(
    lanes: tuple[str, str], spans: list[tuple[float, float]], shares: bool
) -> None:
    """Two tasks, independent."""
    work = Workload()
    device = lanes[0].partition("/")[0]
    for name in "ab":
        add(work, name, work.input(f"x{name}", MATRIX, device=device))
    plan = plan_of(work, dict(zip("ab", lanes, strict=True)))
    tasks = [i for i, kind in enumerate(plan.kinds) if kind == "run"]
    every = [(0.0, 0.0)] * len(plan)
    for i, span in zip(tasks, spans, strict=True):
        every[i] = span
    line = timeline(plan, every)
    assert compare(line, line).shares_device is shares


def test_a_copy_beside_a_task_shares_nothing() -> None:
    """A copy on a compute lane (what `tensor.to` does) beside a product on another."""
    work = Workload()
    x = work.input("x", MATRIX, device="cuda:0")
    y = add(work, "mm0", x)
    work.copy(y, to="cpu", pinned=True, name="copy0")  # type: ignore[arg-type]
    add(work, "mm1", x)
    plan = plan_of(work, {"mm0": "cuda:0/s0", "mm1": "cuda:0/s1"}, copies="compute")
    assert plan.lanes[plan.lane_of[plan.index_of["copy0"]]].name == "cuda:0/s0"
    line = timeline(plan, [(0, 1), (1, 3), (2, 4)])
    assert not compare(line, line).shares_device


def test_text_is_a_plain_table() -> None:
    plan = handover()
    measured = timeline(
        plan,
        MEASURED,
        source="measured",
        samples_s=(9.9, 10.0, 10.0, 10.1),
        clock_uncertainty_s=2e-6,
        notes=("one intra-op thread",),
    )
    predicted = timeline(plan, PREDICTED, estimated=("a", "b", "c", "d"))
    assert str(compare(predicted, measured, lower_bound_s=9.5)).splitlines() == [
        "               predicted    measured      error     spread",
        "makespan            11 s        10 s   +10.00 %    ±0.25 %",
        "lower bound        9.5 s",
        "",
        "error of          median         p95        max   shares of 10 s, the timed makespan",
        "starts            0.00 %      4.25 %     5.00 %",
        "ends              2.50 %      9.25 %    10.00 %",
        "",
        "worst action  lane               start        end",
        "a>cuda:1      cuda:0>cuda:1     0.00 %   -10.00 %",
        "b             cuda:1/s0        -5.00 %     0.00 %",
        "c             cuda:1/s1         0.00 %    +5.00 %",
        "a             cuda:0/s0         0.00 %     0.00 %",
        "",
        "note: the costs of 4 tasks are estimates: a, b, c and 1 more",
        "note: clocks of the devices agree within 2 µs",
        "note: one intra-op thread",
    ]


def test_a_wide_spread_is_flagged() -> None:
    samples = (9.0, 9.5, 10.0, 10.5, 11.0)
    assert compared(samples_s=samples).noisy
    assert "±5.00 %  noisy: over 2 %" in str(compared(samples_s=samples))
    assert not compared(samples_s=(10.0, 10.0, 10.0, 10.0)).noisy
    assert not compared().noisy


@pytest.mark.parametrize(("bounds", "inside"), [((9.0, 12.0), True), ((10.5, 12.0), False), (None, None)])
def test_the_interval_holds_the_measured_makespan_or_not(
    bounds: tuple[float, float] | None, inside: bool | None
) -> None:
    predicted, measured = pair()
    c = compare(replace(predicted, find_interval=bounds), measured)
    assert c.inside is inside
    said = {True: "90 %                 9 s to 12 s; measured inside", False: "10.5 s to 12 s; measured outside"}
    assert ("90 %" in str(c)) is (bounds is not None)
    assert inside is None or said[inside] in str(c)


def test_timelines_of_equal_plans_compare() -> None:
    """A plan and its twin, as read from a file."""
    c = compare(timeline(handover(), PREDICTED), timeline(handover(), MEASURED, source="measured"))
    assert c.makespan_error == pytest.approx(0.1)


def test_a_plan_without_actions_has_no_errors() -> None:
    line = timeline(plan_of(Workload(), {}), [])
    c = compare(line, line)
    assert (c.makespan_error, c.worst(), c.bound, c.shares_device) == (0.0, [], "host", False)
    assert c.task_end_error == {"median": 0.0, "p95": 0.0, "max": 0.0}
    assert "worst" not in str(c)


def chain(second: str, lane: str) -> Timeline:
    work = Workload()
    add(work, second, add(work, "a", work.input("x", MATRIX, device="cuda:0")))
    return timeline(plan_of(work, {"a": "cuda:0/s0", second: lane}), [(0, 1), (1, 2)], source="measured")


@pytest.mark.parametrize(
    ("name", "lane", "found"),
    [
        ("c", "cuda:0/s0", "action 1 is run 'b' on cuda:0/s0 (predicted) and run 'c' on cuda:0/s0 (measured)"),
        ("b", "cuda:0/s1", "action 1 is run 'b' on cuda:0/s0 (predicted) and run 'b' on cuda:0/s1 (measured)"),
    ],
)
def test_the_first_difference_of_two_plans_is_named(name: str, lane: str, found: str) -> None:
    """a ─▶ b against a ─▶ c, and b on another lane."""
    work = Workload()
    add(work, "b", add(work, "a", work.input("x", MATRIX, device="cuda:0")))
    predicted = timeline(plan_of(work, {"a": "cuda:0/s0", "b": "cuda:0/s0"}), [(0, 1), (1, 2)])
    with pytest.raises(PlanError) as error:
        compare(predicted, chain(name, lane))
    assert found in str(error.value)


def test_plans_of_different_length_are_an_error() -> None:
    work = Workload()
    add(work, "a", work.input("x", MATRIX, device="cuda:0"))
    short = timeline(plan_of(work, {"a": "cuda:0/s0"}), [(0, 1)])
    with pytest.raises(PlanError, match=r"of 1 actions \(predicted\) and 2 \(measured\)"):
        compare(short, chain("b", "cuda:0/s0"))


def test_swapped_timelines_are_an_error() -> None:
    predicted, measured = pair()
    with pytest.raises(PlanError, match="swapped"):
        compare(measured, predicted)

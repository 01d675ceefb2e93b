"""Event spans against a profiler's: what is judged, shifts of clocks, the verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from graphsched.comparison.profiler import TOLERANCE_S, Agreement, hold_against
from graphsched.formats.kernel_matching import Matching
from graphsched.formats.profiler_trace import DeviceWork, HostSpan
from graphsched.timeline import Timeline
from graphsched.workload import Workload
from tests.timelines import MATRIX, add, plan_of, timeline

US = 1e-6


def run(*lanes: str, spans: list[tuple[float, float]], issued: tuple[float, ...] = (), mode: str = "eager") -> Timeline:
    """Independent tasks a, b, … on these lanes; issued by `issued`, else at 1; times in µs."""
    work = Workload("apart")
    for name in "abcdef"[: len(lanes)]:
        add(work, name, work.input(f"x{name}", MATRIX))
    named = dict(zip("abcdef", lanes, strict=False))
    plan = replace(plan_of(work, named), mode=mode)
    found = dict(zip(named, spans, strict=True))
    times = [found.get(name, (0.0, 0.5)) for name in plan.names]
    issued_by = dict(zip(named, issued, strict=False))
    issues = [(0.0, issued_by.get(name, 1.0) * US) for name in plan.names]
    return timeline(
        plan, [(s * US, e * US) for s, e in times], issues=issues, source="measured", clock_uncertainty_s=US
    )


def matching(line: Timeline, *pieces: tuple[str, float, float], **more: Any) -> Matching:
    """Work of actions by name, in µs."""
    works: dict[int, tuple[DeviceWork, ...]] = {}
    for name, start, end in pieces:
        i = line.plan.index_of[name]
        device = int(line.plan.lanes[line.plan.lane_of[i]].device[-1])
        works[i] = (*works.get(i, ()), DeviceWork("gemm", "kernel", device, 7, start * US, end * US, 1))
    empty = tuple(i for i in range(len(line.plan)) if i not in works)
    given: dict[str, Any] = {"ranges": {}, "empty": empty, "missing": {}, "strays": ()} | more
    return Matching("launches", works, **given)


def micros(values: list[float]) -> list[float]:
    return [round(value / US, 3) for value in values]


def test_spans_that_hold_their_work_closely_agree() -> None:
    line = run("cuda:0/s0", "cuda:0/s0", spans=[(10, 20), (22, 41)])
    found = hold_against(line, matching(line, ("a", 11, 19), ("b", 24, 35), ("b", 36, 40)), 0.5 * US)
    assert micros(found.starts_s) == [0.75, 1.75]  # of 1 and 2, the GPU's clock shifted by the median of 0 and -0.5
    assert micros(found.ends_s) == [1.25, 1.25]
    assert found.shifts_s == {"cuda:0": pytest.approx(-0.25 * US)}
    assert found.uncertainty_s == pytest.approx(1.5 * US)
    assert (found.acting, found.within) == (2, True)


def test_a_shift_of_the_clock_is_taken_out_and_judged_by_itself() -> None:
    line = run("cuda:0/s0", spans=[(10, 20)])
    near = hold_against(line, matching(line, ("a", 15, 23)), 0.5 * US)
    assert near.shifts_s == {"cuda:0": pytest.approx(-4 * US)}
    assert micros(near.starts_s + near.ends_s) == [1, 1]
    assert near.within is True
    far = hold_against(line, matching(line, ("a", 16, 24)), 0.5 * US)  # 5 µs: more than 1.5 and the tolerance
    assert micros(far.starts_s + far.ends_s) == [1, 1]
    assert (far.clocks_agree, far.within) == (False, False)


def test_each_gpu_has_its_own_shift() -> None:
    line = run("cuda:0/s0", "cuda:1/s0", spans=[(10, 20), (10, 20)])
    found = hold_against(line, matching(line, ("a", 10, 18), ("b", 12, 20)), 0.0)
    assert {name: round(shift / US, 3) for name, shift in found.shifts_s.items()} == {"cuda:0": 1.0, "cuda:1": -1.0}
    assert found.within is True


def test_a_span_longer_than_the_tolerance_on_a_side_disagrees() -> None:
    line = run("cuda:0/s0", spans=[(10, 20)])
    assert hold_against(line, matching(line, ("a", 13, 17)), 0.0).within is True
    assert hold_against(line, matching(line, ("a", 13.1, 16.9)), 0.0).within is False
    sticking_out = hold_against(line, matching(line, ("a", 6.5, 23.5)), 0.0)
    assert micros(sticking_out.starts_s) == [-3.5]
    assert sticking_out.within is False


@pytest.mark.parametrize(
    ("issued", "judged"), [(40, (1, 1)), (40.5, (0, 1)), (48, (0, 1)), (48.5, (0, 0)), (60, (0, 0))]
)
def test_what_the_thread_held_up_is_not_judged(issued: float, judged: tuple[int, int]) -> None:
    """The lane comes to b at 40 µs and its work is over at 48 µs; a, which tells the clocks, was issued long before."""
    two = {"spans": [(10, 20), (40, 50)], "issued": (1.0, issued)}
    line = run("cuda:0/s0", "cuda:0/s0", **two)
    found = hold_against(line, matching(line, ("a", 12, 18), ("b", 42, 48)), 0.0)
    assert (len(found.starts_s) - 1, len(found.ends_s) - 1) == judged
    graph = run("cuda:0/s0", "cuda:0/s0", mode="graph", **two)
    found = hold_against(graph, matching(graph, ("a", 12, 18), ("b", 42, 48)), 0.0)
    assert (len(found.starts_s), len(found.ends_s)) == (1, 2)  # a is the graph's first


def test_without_an_action_judged_at_both_ends_nothing_is() -> None:
    """Not held up at its end, but the clocks are not known well enough to say."""
    line = run("cuda:0/s0", spans=[(10, 20)], issued=(11,))
    found = hold_against(line, matching(line, ("a", 12, 18)), 0.0)
    assert (found.shifts_s, found.starts_s, found.ends_s, found.within) == ({}, [], [], None)
    assert (found.figures()["start_difference_s"], found.figures()["starts_apart_s"]) == (None, {})


def test_starts_apart_are_reported_and_not_judged() -> None:
    """Two products and a late first one in a graph: the launch has a part in that."""
    line = run(*["cuda:0/s0"] * 3, spans=[(10, 40), (42, 60), (62, 80)], mode="graph")
    found = hold_against(line, matching(line, ("a", 28, 39), ("b", 43, 59), ("c", 63.5, 78.5)), 0.0)
    assert (micros(found.starts_s), micros(found.ends_s)) == ([1, 1.5], [1, 1, 1.5])
    assert {why: micros(seconds) for why, seconds in found.apart_s.items()} == {"launch": [18]}
    apart = found.figures()["starts_apart_s"]["launch"]
    assert (apart["count"], apart["median"], apart["largest"]) == (1, pytest.approx(18 * US), pytest.approx(18 * US))
    assert found.within is True


def test_a_task_of_a_thread_is_held_against_its_range() -> None:
    work = Workload("here")
    add(work, "a", work.input("x", MATRIX))
    line = timeline(plan_of(work, {"a": "cpu/w0"}), [(1e-5, 3e-5)], source="measured")
    span = HostSpan("graphsched/a", "1/2", 1.2e-5, 2.9e-5)
    found = hold_against(line, matching(line, ranges={0: span}), 0.0)
    assert (micros(found.starts_s), micros(found.ends_s)) == ([2.0], [1.0])
    assert (found.shifts_s, found.within) == ({}, True)


def test_figures_for_json() -> None:
    line = run("cuda:0/s0", "cuda:0/s0", "cuda:0/s1", spans=[(10, 20), (22, 40), (10, 20)])
    index = line.plan.index_of
    stray = DeviceWork("gemm", "kernel", 0, 9, 0.0, 1e-6, 4)
    known = matching(line, ("a", 11, 19), ("b", 26, 36), missing={index["c"]: "lost"}, strays=(stray,))
    found: Agreement = hold_against(line, known, 0.0)
    figures = found.figures()
    assert (figures["actions"], figures["matched"], figures["method"]) == (3, 2, "launches")
    assert figures["start_difference_s"]["judged"] == 2
    assert figures["start_difference_s"]["median"] == pytest.approx(2.5 * US)
    assert figures["end_difference_s"]["largest"] == pytest.approx(4 * US)
    assert (figures["within"], figures["tolerance_s"]) == (False, TOLERANCE_S)
    assert (figures["unmatched"], figures["strays"]) == ({"c": "lost"}, 1)

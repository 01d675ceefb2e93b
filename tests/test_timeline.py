"""What follows from the spans: busy lanes, overlap, the critical path; JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsched.errors import FileFormatError
from graphsched.plan import Plan
from graphsched.timeline import Span, Timeline
from graphsched.workload import Workload
from tests.timelines import MATRIX, add, plan_of, timeline


def _plan() -> Plan:
    """
    ::

        cuda:0/s0   a ────────▶ c
        cuda:1/s0   b ──▶ b>cuda:0 ──┘        then the thread waits, then d on cuda:0/s0
    """
    work = Workload()
    x, y = (work.input(n, MATRIX, device=f"cuda:{k}") for k, n in enumerate("xy"))
    a, b = add(work, "a", x), add(work, "b", y)
    add(work, "c", a, b)
    work.barrier("stop")
    add(work, "d", x)
    lanes = {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": "cuda:0/s0", "d": "cuda:0/s0"}
    plan = plan_of(work, lanes)
    assert plan.names == ["a", "b", "b>cuda:0", "c", "stop", "d"]
    return plan


SPANS = [(0, 2), (0, 3), (3, 5), (5, 6), (4, 8), (8, 10)]


def _line(**more: Any) -> Timeline:
    return timeline(_plan(), SPANS, **more)


def test_spans_are_views() -> None:
    line = timeline(_plan(), SPANS, issues=[(k, k + 0.5) for k in range(6)])
    assert len(line) == 6
    assert line[2] == Span("b>cuda:0", "cuda:1>cuda:0", 2.0, 2.5, 3.0, 5.0)
    assert [s.duration_s for s in line] == [2, 3, 2, 1, 4, 2]
    assert repr(line) == "Timeline(predicted, 6 actions, makespan 10 s)"


def test_busy_lanes_run_and_copy_and_the_thread_that_waits_is_not() -> None:
    assert _line().busy_s() == {"host/py": 0, "cuda:0/s0": 5, "cuda:1/s0": 3, "cuda:1>cuda:0": 2}


def test_utilisation_is_a_share_of_the_timed_makespan() -> None:
    line = _line(makespan_s=5.0)  # what the timing events add must not make a lane busier than it is
    assert line.utilisation() == {"host/py": 0, "cuda:0/s0": 0.5, "cuda:1/s0": 0.3, "cuda:1>cuda:0": 0.2}


def test_nothing_ran() -> None:
    line = timeline(plan_of(Workload(), {}), [])
    assert line.utilisation() == {"host/py": 0}
    assert (line.critical_path(), len(line), list(line)) == ([], 0, [])


def test_overlap() -> None:
    line = _line()
    assert line.overlap_s(["cuda:0/s0"], ["cuda:1/s0"]) == 2
    assert line.overlap_s(["cuda:0/s0"], ["cuda:1>cuda:0"]) == 0
    assert line.overlap_s(["cuda:0/s0"], ["cuda:1/s0", "cuda:1>cuda:0"]) == 2
    assert line.overlap_s(["cuda:0/s0"], ["cuda:0/s0"]) == 5
    assert line.overlap_s(["cuda:0/s0"], []) == line.overlap_s([], []) == 0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 40), st.integers(0, 10)), max_size=20))
def test_overlap_counts_each_moment_once(spans: list[tuple[str, int, int]]) -> None:
    work = Workload()
    x = work.input("x", MATRIX, device="cuda:0")
    for i in range(len(spans)):
        add(work, f"t{i}", x)
    numbers = {"a": "cuda:0/s0", "b": "cuda:0/s1", "c": "cuda:0/s2"}
    plan = plan_of(work, {f"t{i}": numbers[lane] for i, (lane, _, _) in enumerate(spans)})
    line = timeline(plan, [(start, start + length) for _, start, length in spans])
    moments = {lane: {t for at, start, n in spans if at == lane for t in range(start, start + n)} for lane in "abc"}
    assert line.overlap_s([numbers["a"]], [numbers["b"], numbers["c"]]) == len(
        moments["a"] & (moments["b"] | moments["c"])
    )


def test_the_critical_path_goes_back_over_what_ended_last() -> None:
    line = _line()
    assert [line.plan.names[i] for i in line.critical_path()] == ["b", "b>cuda:0", "c", "stop", "d"]


def test_the_critical_path_goes_through_the_lane_where_it_is_what_held_up() -> None:
    line = timeline(_plan(), [(0, 6), (0, 3), (3, 5), (6, 7), (4, 8), (8, 10)])
    assert [line.plan.names[i] for i in line.critical_path()] == ["a", "c", "stop", "d"]


def test_the_critical_path_ends_with_what_ends_last() -> None:
    line = timeline(_plan(), [(0, 2), (0, 30), (3, 5), (5, 6), (4, 8), (8, 10)])
    assert [line.plan.names[i] for i in line.critical_path()] == ["b"]


@pytest.mark.parametrize(
    ("samples", "spread"), [((), None), ((1.0, 1.0, 1.0), None), ((1.0,) * 4, 0.0), ((1.0, 2.0, 3.0, 4.0, 5.0), 1 / 3)]
)
def test_spread_is_half_the_distance_of_the_quartiles(samples: tuple[float, ...], spread: float | None) -> None:
    assert _line(samples_s=samples).spread == (spread if spread is None else pytest.approx(spread))


def test_json_round_trip() -> None:
    line = timeline(
        _plan(),
        SPANS,
        source="measured",
        samples_s=(1.0, 2.0),
        clock_uncertainty_s=1e-6,
        estimated=("a",),
        notes=("n",),
    )
    again = Timeline.from_dict(json.loads(json.dumps(line.to_dict())), line.plan)
    assert again.to_dict() == line.to_dict()
    assert list(again) == list(line)
    assert again.plan is line.plan
    assert again.start_s.dtype == np.float64


@pytest.mark.parametrize(
    "key", ["source", "makespan_s", "timed_makespan_s", "samples_s", "estimated", "notes", "spans"]
)
def test_a_key_that_is_missing(key: str) -> None:
    data = _line().to_dict()
    del data[key]
    with pytest.raises(FileFormatError, match="not a timeline"):
        Timeline.from_dict(data, _plan())


@pytest.mark.parametrize("column", [[], [1.0] * 5, [1.0] * 7, [[1.0] * 6], 1.0, ["a"] * 6, None])
def test_a_column_that_is_not_the_plans(column: Any) -> None:
    data = _line().to_dict()
    data["spans"]["end_s"] = column
    with pytest.raises(FileFormatError, match="not a timeline"):
        Timeline.from_dict(data, _plan())


def test_halves_are_kept_and_have_no_column_where_there_are_none() -> None:
    line = _line(halves_s={(4, 1): (0.5, 0.75), (2, 0): (0.0, 0.25)})
    data = json.loads(json.dumps(line.to_dict()))
    assert data["spans"]["halves"] == [[2, 0, 0.0, 0.25], [4, 1, 0.5, 0.75]]
    assert Timeline.from_dict(data, line.plan).halves_s == line.halves_s
    assert "halves" not in _line().to_dict()["spans"]


@pytest.mark.parametrize(
    "halves", [1.0, [1.0], [[1, 1, 0.5]], [[6, 1, 0, 0]], [[1.5, 1, 0, 0]], [[1, -1, 0, 0]], ["a"]]
)
def test_halves_of_no_action_or_rank(halves: Any) -> None:
    data = _line().to_dict()
    data["spans"]["halves"] = halves
    with pytest.raises(FileFormatError, match=r"not a timeline|a half is of action"):
        Timeline.from_dict(data, _plan())


@pytest.mark.parametrize("bounds", [None, (1.0, 2.5)])
def test_an_interval_is_kept(bounds: tuple[float, float] | None) -> None:
    line = _line(find_interval=bounds)
    assert line.interval_s == bounds
    assert Timeline.from_dict(json.loads(json.dumps(line.to_dict())), line.plan).interval_s == bounds


def test_an_interval_is_found_when_it_is_asked_for() -> None:
    calls: list[int] = []

    def find() -> tuple[float, float]:
        calls.append(1)
        return 1.0, 2.0

    line = _line(find_interval=find)
    assert calls == []
    assert (line.interval_s, line.interval_s) == ((1.0, 2.0), (1.0, 2.0))
    assert calls == [1]


def test_a_file_from_before_there_were_intervals() -> None:
    data = _line().to_dict()
    del data["interval_s"]
    assert Timeline.from_dict(data, _plan()).interval_s is None


def test_an_interval_has_two_bounds() -> None:
    data = _line().to_dict() | {"interval_s": [1.0]}
    with pytest.raises(FileFormatError, match="not a timeline"):
        Timeline.from_dict(data, _plan())

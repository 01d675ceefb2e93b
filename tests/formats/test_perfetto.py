"""Traces: every event valid, slices of a thread apart, arrows bound to slices."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from graphsched.errors import OutputError, PlanError
from graphsched.formats.perfetto import to_perfetto, write_perfetto
from graphsched.timeline import Timeline
from graphsched.workload import Workload
from tests.timelines import MATRIX, add, handover, overlap, plan_of, simple_run, timeline

SPANS = [(1e-6, 2e-3), (2e-3, 3e-3), (3e-3, 5e-3), (3e-3, 6e-3), (4e-6, 6.1e-3)]  # a, a>cuda:1, b, c, wait
ISSUES = [(0, 1e-6), (1e-6, 2e-6), (2e-6, 3e-6), (3e-6, 4e-6), (4e-6, 4e-6)]


def shared(source: str = "predicted") -> Timeline:
    return timeline(handover(), SPANS, issues=ISSUES, source=source)


def events(trace: dict[str, Any], phase: str) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event["ph"] == phase]


def names(trace: dict[str, Any], what: str) -> list[str]:
    return [event["args"]["name"] for event in events(trace, "M") if event["name"] == what]


def assert_valid(trace: dict[str, Any]) -> None:
    """The rules of the Trace Event Format that viewers complain about."""
    threads = {event["tid"]: event["pid"] for event in events(trace, "M") if event["name"] == "thread_name"}
    slices: dict[int, list[tuple[int, int]]] = {tid: [] for tid in threads}
    for event in events(trace, "X"):
        assert {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"} <= event.keys()
        assert threads[event["tid"]] == event["pid"]
        assert event["ts"] >= 0
        assert event["dur"] > 0
        begin = int(event["ts"] * 1000)  # what a viewer keeps: whole nanoseconds
        slices[event["tid"]].append((begin, begin + int(event["dur"] * 1000)))
    for spans in slices.values():
        assert spans == sorted(spans)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))
    starts, ends = events(trace, "s"), events(trace, "f")
    assert len({event["id"] for event in starts}) == len(starts)
    assert [event["id"] for event in starts] == [event["id"] for event in ends]
    for start, end in zip(starts, ends, strict=True):
        assert (start["name"], start["cat"]) == (end["name"], end["cat"])
        assert end["bp"] == "e"
        assert start["ts"] <= end["ts"]
        for event in (start, end):
            moment = int(event["ts"] * 1000)
            assert any(begin <= moment < end for begin, end in slices[event["tid"]])


def test_processes_threads_and_slices() -> None:
    """a ─▶ a>cuda:1 ─▶ b, c; the thread issues them and waits."""
    trace = to_perfetto(shared(), shared("measured"), title="hand over")
    assert_valid(trace)
    assert names(trace, "process_name") == ["predicted", "measured"]
    lanes = ["host/py", "cuda:0/s0", "cuda:0>cuda:1", "cuda:1/s0", "cuda:1/s1"]
    assert names(trace, "thread_name") == lanes * 2
    assert len(events(trace, "X")) == 2 * (4 + 4 + 1)
    looks = [event["cat"] for event in events(trace, "X") if event["pid"] == 1]
    assert looks == ["dispatch"] * 4 + ["wait", "compute", "copy", "compute", "compute"]
    assert trace["otherData"]["title"] == "hand over"


def test_a_slice_tells_times_in_microseconds_and_what_it_is() -> None:
    trace = to_perfetto(shared())
    (copy,) = (event for event in events(trace, "X") if event["cat"] == "copy")
    assert (copy["name"], copy["ts"], copy["dur"]) == ("a>cuda:1", 2000.0, 1000.0)
    assert copy["args"] == {
        "action": 1, "kind": "copy", "device": "cuda:0", "waits": ["a"],
        "bytes": 4_000_000, "from": "cuda:0", "to": "cuda:1", "memory": "pinned",
    }  # fmt: skip


def test_arrows_follow_waits_and_inserted_copies() -> None:
    """Five arrows: a ─▶ a>cuda:1, a>cuda:1 ─▶ b, c, and b, c ─▶ the thread's wait, within it."""
    trace = to_perfetto(shared())
    thread = {event["tid"]: event["args"]["name"] for event in events(trace, "M") if event["name"] == "thread_name"}
    ends = [(thread[s["tid"]], thread[f["tid"]]) for s, f in zip(events(trace, "s"), events(trace, "f"), strict=True)]
    assert ends == [
        ("cuda:0/s0", "cuda:0>cuda:1"),
        ("cuda:0>cuda:1", "cuda:1/s0"),
        ("cuda:0>cuda:1", "cuda:1/s1"),
        ("cuda:1/s0", "host/py"),
        ("cuda:1/s1", "host/py"),
    ]
    assert events(trace, "f")[-1]["ts"] == pytest.approx(6000, abs=0.01)  # where c ends, not where the wait begins


def test_a_read_of_a_copy_has_an_arrow_also_where_the_wait_is_implied() -> None:
    """a ─▶ a>cuda:1 ─▶ b ─▶ c on one lane: c reads the copy too, b has waited for it."""
    work = Workload()
    a = add(work, "a", work.input("x", MATRIX, device="cuda:0"))
    b = add(work, "b", a)
    add(work, "c", a, b)
    plan = plan_of(work, {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": "cuda:1/s0"})
    assert plan.waits[plan.index_of["c"]] == ()
    trace = to_perfetto(timeline(plan, [(0, 1), (1, 2), (2, 3), (3, 4)]))
    assert_valid(trace)
    assert [event["ts"] for event in events(trace, "f")] == [1e6, 2e6, 3e6]


def test_slices_that_clocks_let_overlap_are_cut() -> None:
    """Two copies on one lane, the second said to start before the first ends; and one of no length."""
    plan = overlap(3)
    spans = [(0, 1e-3), (1e-3, 2.5e-3), (1e-3, 2e-3), (2e-3, 3e-3), (2e-3, 2e-3), (3e-3, 3e-3)]
    trace = to_perfetto(timeline(plan, spans, source="measured"))
    assert_valid(trace)
    copies = [(event["ts"], event["dur"]) for event in events(trace, "X") if event["cat"] == "copy"]
    assert copies == [(1000.0, 1500.0), (2500.0, 500.0), (3000.0, 0.001)]


def test_no_arrow_goes_back_in_time() -> None:
    """By the clocks, the copy was over before the product began: it gets no arrow."""
    plan = overlap(1)
    trace = to_perfetto(timeline(plan, [(2e-3, 3e-3), (0, 1e-3)], source="measured"))
    assert_valid(trace)
    assert events(trace, "s") == []


def test_launch_of_a_graph_is_one_slice() -> None:
    """All actions issued at once."""
    plan = handover()
    line = timeline(plan, SPANS, issues=[(0, 1e-6)] * 5)
    trace = to_perfetto(line)
    assert_valid(trace)
    issued = [event for event in events(trace, "X") if event["cat"] == "dispatch"]
    assert [(event["name"], event["args"]["actions"]) for event in issued] == [("launch of 4 actions", 4)]


def test_issue_of_a_pageable_copy_blocks_the_thread() -> None:
    trace = to_perfetto(simple_run(overlap(2, pinned=False), lambda i: 1e-3))
    assert_valid(trace)
    host = [(event["name"], event["cat"]) for event in events(trace, "X")][:4]
    assert host == [("mm0.0", "dispatch"), ("copy0.0", "wait"), ("mm0.1", "dispatch"), ("copy0.1", "wait")]


def test_many_odd_times_stay_apart() -> None:
    """Times that no binary fraction holds: cut to nanoseconds, neighbours still do not overlap."""
    line = simple_run(overlap(300, gpus=2), lambda i: 1e-6 / 3 + i * 1.1e-9, issue_s=1e-7 / 7)
    trace = to_perfetto(line, line)
    assert_valid(trace)
    assert len([e for e in events(trace, "X") if e["cat"] == "compute"]) == 2 * sum(k == "run" for k in line.plan.kinds)


def test_plan_without_actions() -> None:
    trace = to_perfetto(timeline(plan_of(Workload(), {}), []))
    assert_valid(trace)
    assert not events(trace, "X")


def test_written_file_is_the_trace(tmp_path: Path) -> None:
    write_perfetto(tmp_path / "a.json", shared(), title="Übergabe")
    assert json.loads((tmp_path / "a.json").read_text()) == to_perfetto(shared(), title="Übergabe")


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="nothing to export"):
        to_perfetto()
    (tmp_path / "file").touch()
    with pytest.raises(OutputError):
        write_perfetto(tmp_path / "file" / "a.json", shared())

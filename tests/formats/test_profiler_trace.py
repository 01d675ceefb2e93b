"""Reading a profiler's trace, cutting a run out of it, and its clock against the host's."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsched.errors import FileFormatError
from graphsched.formats.profiler_trace import Alignment, DeviceWork, HostSpan, ProfilerTrace, align, read_trace
from tests.formats.traces import call, kernel, memcpy, memset, peer, span, trace


def test_work_calls_and_ranges_are_read_and_all_else_is_left_out() -> None:
    found = read_trace(
        trace(
            kernel("gemm", 120.5, 10, 5, device=1, stream=20, node=77),
            call("cudaLaunchKernel", 105, 4, 5),
            span("graphsched/mm", 100, 12),
        )
    )
    assert found.work == (DeviceWork("gemm", "kernel", 1, 20, 20.5e-6, 30.5e-6, 5, 77),)
    assert found.calls == (HostSpan("cudaLaunchKernel", "4000/4000", 5e-6, 9e-6, 5),)
    assert found.ranges == (HostSpan("graphsched/mm", "4000/4000", 0.0, 12e-6),)


def test_a_copy_between_gpus_is_on_its_source() -> None:
    (work,) = read_trace(trace(peer(10, 5, 8, source=1, target=0))).work
    assert (work.kind, work.device, work.stream, work.node) == ("copy", 1, 9, None)


def test_work_is_worded_the_same_in_graphs() -> None:
    events = [memcpy("HtoD (Pinned -> Device)", 0, 1, 1), memcpy("DtoD (Device -> Device)", 2, 1, 2), peer(4, 1, 3)]
    found = read_trace(trace(*events, memset(6, 1, 4), kernel("gemm", 8, 1, 5)))
    assert [work.what for work in found.work] == ["Memcpy HtoD", "Memcpy DtoD", "Memcpy DtoD", "Memset", "gemm"]


def test_microseconds_since_1970_keep_their_digits() -> None:
    base = 2.0**50  # what follows is exact there to a quarter of a microsecond
    found = read_trace(trace(kernel("a", base, 0.125, 1), kernel("b", base + 0.5, 1, 2)))
    assert [work.start_s for work in found.work] == [0.0, 0.5e-6]
    assert found.work[0].end_s == 0.125e-6


def test_events_come_by_time_and_outer_ranges_first() -> None:
    found = read_trace(trace(span("in", 5, 2), span("late", 9, 1), span("out", 5, 4)))
    assert [one.name for one in found.ranges] == ["out", "in", "late"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "the trace of torch's profiler lacks 'traceEvents'"),
        ([], r"the trace of torch's profiler is \[\]: an object is needed"),
        ({"traceEvents": 5}, "'traceEvents' of the trace of torch's profiler is 5: a list"),
        ({"traceEvents": [{}, "kernel"]}, r"traceEvents\[1\] of .* is 'kernel': an object is needed"),
        (
            {"traceEvents": [{"ph": "X", "cat": "user_annotation"}]},
            r"\[0\] \(user_annotation None\) lacks 'ts'",
        ),
    ],
)
def test_what_is_no_trace_is_refused(data: Any, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        read_trace(data)


@pytest.mark.parametrize("value", [-5, -1e-9, float("nan"), float("inf"), 10**400, "abc", "-5", "1_0", None, True, []])
def test_durations_that_are_none_are_named_with_their_event(value: object) -> None:
    """Of kernels and of what the host did."""
    for wrong in (kernel("gemm", 8, 1, 5), call("cudaLaunchKernel", 2, 1, 5), span("graphsched/a", 0, 9)):
        events = [memset(1, 1, 4), wrong | {"dur": value}]
        where = re.escape(f"'dur' of traceEvents[1] ({wrong['cat']} '{wrong['name']}') is ")
        with pytest.raises(FileFormatError, match=where + ".*: a finite number, 0 or more, is needed"):
            read_trace({"traceEvents": events})


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), "abc", None])
def test_starts_that_are_none_are_named_with_their_event(value: object) -> None:
    events = [kernel("gemm", 8, 1, 5) | {"ts": value}]
    with pytest.raises(FileFormatError, match=r"'ts' of traceEvents\[0\] \(kernel 'gemm'\) is .*: a finite number is"):
        read_trace({"traceEvents": events})


@pytest.mark.parametrize("key", ["ts", "dur", "args", "name"])
def test_what_an_event_lacks_is_named_with_it(key: str) -> None:
    events = [memset(1, 1, 4), {k: v for k, v in kernel("gemm", 8, 1, 5).items() if k != key}]
    with pytest.raises(FileFormatError, match=rf"traceEvents\[1\] \(kernel .*\) lacks '{key}'"):
        read_trace({"traceEvents": events})


@pytest.mark.parametrize("key", ["stream", "correlation"])
def test_what_lacks_or_is_wrong_in_the_arguments_of_an_event_is_named_with_it(key: str) -> None:
    event = kernel("gemm", 8, 1, 5)
    args = {k: v for k, v in event["args"].items() if k != key}
    with pytest.raises(FileFormatError, match=rf"traceEvents\[0\] \(kernel 'gemm'\) lacks '{key}'"):
        read_trace({"traceEvents": [event | {"args": args}]})
    for value in (None, "x", "1_0", 7.5, float("inf"), True):
        with pytest.raises(FileFormatError, match=rf"'{key}' of traceEvents\[0\] .* is .*: a whole number is needed"):
            read_trace({"traceEvents": [event | {"args": args | {key: value}}]})


def test_a_device_is_told_by_the_arguments_or_by_the_row() -> None:
    event = kernel("gemm", 8, 1, 5, device=1)
    del event["pid"]
    assert read_trace({"traceEvents": [event]}).work[0].device == 1
    del event["args"]["device"]
    with pytest.raises(FileFormatError, match=r"traceEvents\[0\] \(kernel 'gemm'\) lacks 'pid'"):
        read_trace({"traceEvents": [event]})


def test_times_too_far_apart_are_refused() -> None:
    events = [kernel("a", -1.5e308, 1, 1), kernel("b", 1.5e308, 1, 2)]
    with pytest.raises(FileFormatError, match=r"traceEvents\[1\] \(kernel 'b'\) ends inf µs after"):
        read_trace({"traceEvents": events})


def test_numbers_may_be_text() -> None:
    event = kernel("a", 0, 1, 1) | {"ts": "3.5", "dur": "2"}
    assert read_trace({"traceEvents": [event]}).work[0].end_s == 2e-6


def test_a_run_is_cut_out_of_the_trace() -> None:
    events = [span("run 1", 100, 50), span("graphsched/a", 101, 5), span("graphsched/a", 201, 5), span("run 2", 200, 9)]
    events += [kernel("first", 110, 5, 1), kernel("second", 203, 5, 2), call("cudaLaunchKernel", 202, 1, 2)]
    found = read_trace(trace(*events)).during("run 2")
    assert [work.name for work in found.work] == ["second"]
    assert [one.correlation for one in found.calls] == [2]
    assert [(one.name, round(one.start_s * 1e6)) for one in found.ranges] == [("graphsched/a", 101)]
    assert found.shifted(1.0).work[0].end_s == pytest.approx(1 + 108e-6)
    assert found.shifted(1.0).calls[0].start_s == pytest.approx(1 + 102e-6)
    assert found.shifted(1.0).ranges[0].end_s == pytest.approx(1 + 106e-6)


@pytest.mark.parametrize("events", [[], [span("run", 0, 1), span("run", 2, 1)]])
def test_a_run_must_be_there_once(events: list[Any]) -> None:
    with pytest.raises(FileFormatError, match=f"has {len(events)} ranges called 'run'"):
        read_trace(trace(*events)).during("run")


def test_readings_bound_the_offset_from_both_sides() -> None:
    """The first range's start gives the upper bound, the second's end the lower one."""
    ranges = [HostSpan("clock", "1/1", 0.0, 4.0), HostSpan("clock", "1/1", 10.0, 11.0)]
    assert align(ranges, [(90, 100.5, 110), (105, 110.5, 112)]) == Alignment(100.0, 0.5)
    ranges = [HostSpan("clock", "1/1", 0.0, 1.0)]
    assert align(ranges, [(99, 100.5, 100.75)]) == Alignment(99.625, 0.125)


def test_clocks_that_contradict_each_other_are_as_uncertain_as_that() -> None:
    ranges = [HostSpan("clock", "1/1", 0.0, 1.0), HostSpan("clock", "1/1", 10.0, 11.0)]
    found = align(ranges, [(100.0, 100.0, 101.0), (112.0, 112.0, 113.0)])
    assert found == Alignment(101.0, 1.0)


@pytest.mark.parametrize("ranges", [(), (HostSpan("clock", "1/1", 0, 1),)])
def test_a_lost_range_of_the_clock_is_told(ranges: tuple[HostSpan, ...]) -> None:
    with pytest.raises(FileFormatError, match=f"has {len(ranges)} ranges for the clock, 2 were made"):
        align(ranges, [(0, 1, 2), (2, 3, 4)])
    with pytest.raises(FileFormatError, match="0 ranges"):
        align((), ())


@given(st.floats(-1e3, 1e3), st.lists(st.tuples(*[st.floats(1e-7, 1e-5)] * 4), min_size=1, max_size=8))
def test_the_true_offset_is_within_the_uncertainty(offset: float, steps: list[tuple[float, ...]]) -> None:
    now, ranges, readings = 0.0, [], []
    for before, begins, within, ends in steps:
        first, start = now + before, now + before + begins
        middle, end = start + within, start + within + ends
        now = end + 1e-6
        ranges.append(HostSpan("clock", "1/1", start - offset, end - offset))
        readings.append((first, middle, now))
    found = align(ranges, readings)
    assert abs(found.offset_s - offset) <= found.uncertainty_s + 1e-12


def test_an_empty_trace_is_one() -> None:
    assert read_trace(trace()) == ProfilerTrace()

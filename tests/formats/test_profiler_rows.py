"""The profiler's process of a trace: rows, arguments, slices that viewers accept."""

from __future__ import annotations

from graphsched.formats.kernel_matching import match_launches
from graphsched.formats.perfetto import Bar, Process, to_perfetto
from graphsched.formats.profiler_rows import profiler_process
from graphsched.formats.profiler_trace import read_trace
from tests.formats.test_perfetto import assert_valid, events, names
from tests.formats.traces import eager, handed_over, kernel, trace


def process(**shifts_s: float) -> Process:
    line = handed_over()
    known = read_trace(trace(*eager(), kernel("stray", 20, 5, 99, device=1, stream=13)))
    shifts = {name.replace("_", ":"): shift for name, shift in shifts_s.items()}
    return profiler_process(line.plan, match_launches(known, line, 2e-6), shifts)


def test_three_processes_in_one_trace() -> None:
    found = to_perfetto(handed_over(source="predicted"), handed_over(), title="hand over", more=[process()])
    assert_valid(found)
    assert names(found, "process_name") == ["predicted", "measured", "profiler"]
    shown = [e["args"]["name"] for e in events(found, "M") if e["name"] == "thread_name" and e["pid"] == 3]
    lanes = ["host/py", "cuda:0/s0", "cuda:0>cuda:1", "cuda:1/s0", "cuda:1/s1"]
    assert shown == [*lanes, "cuda:1 stream 13, not matched"]
    assert found["otherData"]["title"] == "hand over"


def test_a_row_tells_what_the_profiler_saw() -> None:
    rows = process(cuda_1=1e-6).rows
    assert [(bar.name, bar.args["action"], bar.look) for bar in rows["cuda:0/s0"]] == [
        ("Memset (Device)", "a", "compute"),
        ("gemm", "a", "compute"),
    ]
    (b,) = rows["cuda:1/s0"]
    assert (round(b.start_s * 1e6), round(b.end_s * 1e6)) == (64, 83)  # shifted by 1 µs, as its GPU's clock is
    assert b.args == {"action": "b", "kind": "kernel", "device": "cuda:1", "stream": 20, "correlation": 15}
    (copy,) = rows["cuda:0>cuda:1"]
    assert (copy.look, round(copy.start_s * 1e6)) == ("copy", 32)
    assert [bar.name for bar in rows["host/py"]] == ["a", "a>cuda:1", "b", "c"]
    assert {bar.look for bar in rows["host/py"]} == {"dispatch"}
    (stray,) = rows["cuda:1 stream 13, not matched"]
    assert round(stray.start_s * 1e6) == 21
    assert "action" not in stray.args


def test_bars_that_overlap_are_cut_and_come_by_start() -> None:
    bars = [Bar("late", "compute", 2e-6, 4e-6, {}), Bar("early", "copy", 1e-6, 3e-6, {"bytes": 4})]
    found = to_perfetto(handed_over(), more=[Process("profiler", {"row": bars})])
    assert_valid(found)
    shown = [(e["name"], e["cat"], e["ts"], e["dur"], e["args"]) for e in events(found, "X") if e["pid"] == 2]
    assert shown == [("early", "copy", 1.0, 2.0, {"bytes": 4}), ("late", "compute", 3.0, 1.0, {})]

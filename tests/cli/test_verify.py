"""``verify``: what is printed and written; requests that are refused before anything runs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from graphsched.cli import verify as command
from graphsched.cli import verifying
from graphsched.cli.verifying import Verified, agreement_of
from graphsched.errors import TaskFailedError
from graphsched.executors import profiled
from graphsched.executors.profiled import ProfiledRun
from graphsched.formats.profiler_trace import read_trace
from tests.formats.traces import Event, eager, handed_over, kernel, memset, peer, span, trace
from tests.formats.traces import call as launch

VERIFY = ("verify", "pair", "--platform", "two.json", "--repeats", "2", "--out", "out")


def test_each_case_is_run_matched_and_written(call, here):
    called = call(*VERIFY, "--json")
    assert called.code == 0
    data = called.json
    assert (data["experiment"], data["platform"]) == ("pair", "two")
    assert [case["label"] for case in data["cases"]] == ["sequential, 2 workers", "heft, 2 workers"]
    for case in data["cases"]:
        assert case["matched"] == case["actions"] >= 2
        assert (case["method"], case["unmatched"], case["strays"]) == ("launches", {}, 0)
        assert case["start_difference_s"].keys() == {"judged", "median", "largest"}
        assert case["within"] in (True, False)
        assert min(case["predicted_s"], case["measured_s"], case["profiled_s"]) > 0
    for file, case in zip(data["files"], data["cases"], strict=True):
        assert file.endswith(".verify.perfetto.json")
        found = json.loads((here / file).read_text())
        assert found["otherData"]["title"] == f"{case['label']}, under the profiler"
        processes = [e["args"]["name"] for e in found["traceEvents"] if e["name"] == "process_name"]
        assert processes == ["predicted", "measured", "profiler"]


def test_cases_that_are_left_out_are_told_in_json_too(call, here):
    """CPU workers alone are in no CUDA graph."""
    called = call(*VERIFY, "--mode", "eager,graph", "--json")
    assert called.code == 0
    assert [case["mode"] for case in called.json["cases"]] == ["eager", "eager"]
    assert all(note.startswith("left out: case ") for note in called.json["notes"])
    assert len(called.json["notes"]) == 2


def test_the_table_says_what_was_expected(call, here):
    called = call(*VERIFY, "--cases", "heft")
    assert called.code == 0
    (row,) = [line for line in called.out.splitlines() if line.strip().startswith("heft, 2 workers ")]
    assert "launches" in row
    assert row.split()[-1] in ("yes", "no")
    assert "within 3.00 µs" in called.out
    assert (
        "expected: on CPU lanes a span is longer by what opening and closing the profiler's range takes" in called.out
    )
    assert "written: out/pair-2-heft-2-workers.verify.perfetto.json" in called.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("verify", "nothing"), "nothing"),
        ((*VERIFY, "--mode", "fast"), "no mode 'fast'"),
        ((*VERIFY, "--mode", "distributed"), "mode 'distributed' cannot be run yet"),
        ((*VERIFY, "--mode", "graph"), "no case can be run in graph mode"),
        ((*VERIFY, "--cases", "plain"), "'pair' has no case with a plan here: there is nothing to verify"),
        ((*VERIFY, "-p", "colour=red"), "colour"),
        (("verify", "pair", "--platform", "two.json", "--out", "two.json/out"), "two.json/out"),
    ],
)
def test_wrong_requests_run_nothing(call, here, monkeypatch, words, told):
    monkeypatch.setattr(profiled, "run_profiled", None)
    called = call(*words)
    assert called.code == 2
    assert told in called.err


def test_a_case_that_fails_leaves_the_others(call, here):
    called = call(*VERIFY, "-p", "fail=true", "--json")
    assert called.code == 1
    first, second = called.json["cases"]
    assert first["matched"] == first["actions"]
    assert "out of luck" in second["failure"]
    assert "matched" not in second
    assert len(called.json["files"]) == 1


def test_a_case_that_fails_under_the_profiler_is_told(call, here, monkeypatch):
    run = profiled.run_profiled

    def one_fails(lines: Any, **options: Any) -> Any:
        runs, data = run(lines, **options)
        return [TaskFailedError("no luck under the profiler"), *runs[1:]], data

    monkeypatch.setattr(profiled, "run_profiled", one_fails)
    called = call(*VERIFY)
    assert called.code == 1
    assert "sequential, 2 workers: no luck under the profiler" in called.out
    assert "heft, 2 workers " in called.out


def test_a_trace_that_lacks_a_run_is_told(call, here, monkeypatch):
    run = profiled.run_profiled

    def lost(lines: Any, **options: Any) -> Any:
        runs, data = run(lines, **options)
        events = [event for event in data["traceEvents"] if event.get("name") != "graphsched run 2"]
        return runs, {"traceEvents": events}

    monkeypatch.setattr(profiled, "run_profiled", lost)
    called = call(*VERIFY, "--json")
    assert called.code == 1
    assert "0 ranges called 'graphsched run 2'" in called.json["cases"][1]["failure"]


def test_nothing_is_profiled_where_every_case_failed(call, here, monkeypatch):
    monkeypatch.setattr(profiled, "run_profiled", None)
    called = call(*VERIFY, "--cases", "heft", "-p", "fail=true")
    assert called.code == 1
    assert "failed" in called.out


# -- the trace of a host with GPUs, by hand ----------------------------------------------------------------

READINGS = ((99.0, 99.0 + 1e-6, 99.0 + 2e-6), (101.0, 101.0 + 1e-6, 101.0 + 2e-6))


def on_trace(events: list[Event], start: float) -> list[Event]:
    """The events `start` µs later."""
    return [event | {"ts": event["ts"] + start} for event in events]


def session(mode: str) -> tuple[ProfiledRun, Event]:
    """A hand-over whose time 0 is at 100 s of the host's clock and 1 s after the trace's base.

    In graph mode another run, in eager mode, went before it, half a second earlier.
    """
    line = handed_over()
    line = replace(line, plan=replace(line.plan, mode=mode), issue_end_s=line.issue_start_s)
    events = [span("clock", at, 1) for at in (0.5, 2e6 + 0.5)]
    run = ProfiledRun(line, 100.0, READINGS, "run", "clock")
    if mode == "eager":
        return run, trace(*events, span("run", 1e6 - 1, 300), *on_trace(eager(), 1e6))
    events += [span("run before", 5e5 - 1, 300), *on_trace(eager(), 5e5)]
    works = [memset(10, 2, 50, node=1), kernel("gemm", 15, 15, 50, node=2), peer(32, 28, 50, node=3)]
    works += [kernel("gemm", 63, 19, 50, device=1, node=4), kernel("gemm", 64, 29, 50, device=1, node=5)]
    events += [span("run", 1e6 - 1, 300), *on_trace([launch("cudaGraphLaunch", 0, 9, 50), *works], 1e6)]
    before = replace(run, name="run before", began_s=99.5)
    return replace(run, eager=before), trace(*events)


@pytest.mark.parametrize(("mode", "method"), [("eager", "launches"), ("graph", "graph nodes")])
def test_clocks_and_runs_come_together(mode: str, method: str) -> None:
    run, data = session(mode)
    found = agreement_of(run, read_trace(data))
    assert found.matching.method == method
    assert [[round(w.start_s * 1e6) for w in works] for works in found.matching.work.values()] == [
        [10, 15],
        [32],
        [63],
        [64],
    ]
    assert found.uncertainty_s == pytest.approx(0.5e-6, abs=1e-8)
    assert found.within is True


def test_what_is_not_matched_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    run, data = session("eager")
    events = [event for event in data["traceEvents"] if event["name"] != "graphsched/c"]
    agreement = agreement_of(run, read_trace(data | {"traceEvents": events}))
    case: Any = type("Case", (), {"label": "hand over", "scheduler": "heft", "mode": "eager"})
    one = Verified(1, case, run.timeline, run.timeline, agreement)
    command._show([one], title="here", notes=["left out: more"])
    shown = capsys.readouterr().out
    assert "hand over: not matched, the profiler lost its range: c\n" in shown
    assert "hand over: 1 kernels and copies of no matched action" in shown
    assert "hand over: expected: a span is longer than its kernels, by what its timing events take" in shown
    assert "note: left out: more" in shown
    assert "3 of 4" in shown


def test_starts_that_are_not_judged_have_their_own_column(capsys: pytest.CaptureFixture[str]) -> None:
    """a begins with the launch; c begins on its GPU while b runs there."""
    run, data = session("graph")
    agreement = agreement_of(run, read_trace(data))
    case: Any = type("Case", (), {"label": "hand over", "scheduler": "heft", "mode": "graph"})
    command._show([Verified(1, case, run.timeline, run.timeline, agreement)], title="here", notes=[])
    shown = capsys.readouterr().out
    assert "1 launch: " in shown
    assert "1 shared: " in shown
    assert shown.count("starts apart") == 2  # the column and its legend
    apart = agreement.figures()["starts_apart_s"]
    assert {why: part["count"] for why, part in apart.items()} == {"launch": 1, "shared": 1}


def test_a_graph_is_expected_to_add_two_nodes() -> None:
    eager_run, graph_run = session("eager")[0], session("graph")[0]
    dispatch = eager_run.timeline.plan.platform.dispatch
    assert verifying.expected_gap_s(eager_run.timeline) == dispatch.timed_gap_s
    assert verifying.expected_gap_s(graph_run.timeline) == 2 * dispatch.graph_node_s

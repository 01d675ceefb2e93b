"""``measure`` and ``bench``: what they print and keep; figures depend on the host."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.calibration import kept_costs
from graphsched.calibration.checking import drift
from graphsched.calibration.host import host_facts
from graphsched.calibration.kept import platform_path
from graphsched.cli import bench_parts
from graphsched.cli.measure_tables import pattern_rows
from graphsched.errors import OutputError
from graphsched.platform import Device, Link, Platform
from graphsched.records import load_run


def test_measuring_keeps_the_platform_for_later_commands(call, here):
    called = call("predict", "pair")
    assert called.code == 2
    assert "this host has not been measured: call 'graphsched measure'" in called.err

    called = call("measure", "--quick", "--json")
    assert called.code == 0, called.err
    data = called.json
    assert data.keys() >= {"platform", "file", "devices", "links", "dispatch", "nominal"}
    assert {device["name"] for device in data["devices"]} >= {"cpu"}
    assert call("predict", "pair", "--json").json["platform"] == data["platform"]


def test_what_cannot_be_done_instead_is_not_offered(call, here):
    called = call("measure", "--kept")
    assert (called.code, "not been measured" in called.err, "--platform" in called.err) == (2, True, False)


def test_what_was_measured_stays_where_pictures_cannot_be_written(call, here, monkeypatch):
    def full(*words):
        raise OutputError("cannot write out/pair.png: No space left on device")

    monkeypatch.setattr("graphsched.cli.perform.draw", full)
    call("measure", "--quick")
    called = call("run", "pair", "--repeats", "1", "--out", "out", "--json")
    assert called.code == 1
    assert "not drawn: " in called.err
    assert "No space left" in called.err
    assert all(case.measured_s for case in load_run(here / "out" / "pair.json").cases)


def test_what_was_kept_is_written_with_the_costs_of_runs(call, here):
    call("measure", "--quick")
    call("run", "pair", "--repeats", "1", "--out", "out")
    assert [case["estimated"] for case in call("predict", "pair", "--json").json["cases"]] == [[], [], []]
    called = call("measure", "--kept", "--name", "desk", "--out", "desk.json")
    assert called.code == 0
    assert "written: desk.json" in called.out
    desk = Platform.load("desk.json")
    assert desk.name == "desk"
    assert desk.costs == kept_costs(desk)
    assert len(desk.costs)
    (case,) = call("predict", "pair", "--platform", "desk.json", "--cases", "heft", "--json").json["cases"]
    assert case["estimated"] == []


@pytest.mark.parametrize("name", ["", "a/b", "../desk", "my desk", "-x"])
def test_a_name_that_files_cannot_have_is_refused_before_anything_is_measured(call, here, name):
    called = call("measure", "--quick", f"--name={name}", "--pictures", "out")
    assert called.code == 2
    assert f"--name {name!r}: letters, digits" in called.err
    assert not platform_path().exists()
    assert not (here / "out").exists()


def test_a_sample_is_measured_again(call, here):
    call("measure", "--quick")
    called = call("measure", "--check", "--json")
    assert called.code == 0
    assert called.json["drifted"] == any(row["drifted"] for row in called.json["checked"])
    assert {row["unit"] for row in called.json["checked"]} == {"s", "bytes/s", "flop/s"}
    assert "[1/3] memory copies" in called.err


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_figure_that_was_kept_as_nothing_has_no_ratio(call, here, monkeypatch, more):
    rows = [drift("dispatch lock_s", 0.0, 5e-6, 0.5), drift("dispatch put_s", 0.0, 0.0, 0.5)]
    monkeypatch.setattr("graphsched.calibration.check_platform", lambda platform, report: rows)
    Platform.load("two.json").save(platform_path())
    called = call("measure", "--check", *more)
    assert called.code == 0
    if more:
        assert [row["ratio"] for row in called.json["checked"]] == [None, 1.0]
    else:
        line = next(line for line in called.out.splitlines() if line.split()[:2] == ["dispatch", "lock_s"])
        assert "–" in line


@pytest.mark.parametrize(("ratio", "last"), [(3.0, "  a link"), (1.0, "none of 2 figures has drifted")])
def test_drifted_figures_are_listed_and_are_no_failure(call, here, monkeypatch, ratio, last):
    rows = [drift("a link", 1e-3, ratio * 1e-3, 0.03), drift("fp32 product on cpu", 1e12, 1e12, 0.5, "flop/s")]
    monkeypatch.setattr("graphsched.calibration.check_platform", lambda platform, report: rows)
    Platform.load("two.json").save(platform_path())
    called = call("measure", "--check")
    assert called.code == 0
    assert called.out.splitlines()[-1] == last
    assert "1 TFLOP/s" in called.out
    assert "3 %" in called.out


@pytest.mark.parametrize("words", [("--check",), ("--kept",)])
@pytest.mark.parametrize("versions", ["others", "the same"])
def test_figures_kept_under_another_version_are_said_to_be(call, here, monkeypatch, words, versions):
    monkeypatch.setattr("graphsched.calibration.check_platform", lambda platform, report: [])
    found = host_facts().fingerprint()
    stored = found | ({"torch": "1.0"} if versions == "others" else {})
    replace(Platform.load("two.json"), provenance={"fingerprint": stored}).save(platform_path())
    note = f"figures of another host: torch was 1.0, is {found['torch']}"
    assert (f"note: {note}\n" in call("measure", *words).err) == (versions == "others")
    assert call("measure", *words, "--json").json.get("notes") == ([note] if versions == "others" else None)


def test_an_interrupted_measurement_writes_nothing(call, here, monkeypatch):
    def interrupted(*, name, quick, report):
        report("memory copies")
        raise KeyboardInterrupt

    monkeypatch.setattr("graphsched.calibration.measure_platform", interrupted)
    called = call("measure", "--out", "desk.json")
    assert called.code == 130
    assert called.out == ""
    assert called.err.splitlines()[-2:] == [
        "the measurement is not complete: nothing was written, nothing is kept",
        "interrupted",
    ]
    assert not (here / "desk.json").exists()
    assert not platform_path().exists()
    Platform.load("two.json").save(platform_path())
    assert "nothing was written, what was kept before stays" in call("measure").err
    assert Platform.load(platform_path()).name == "two"


NOISY = Platform("noisy", (Device("cpu", "cpu"),), (Link("cpu", "cpu", "local", 0, 9e9, ("m",)),), {"m": 8e9})


def test_figures_that_contradict_by_noise_are_reconciled(call, here, monkeypatch):
    monkeypatch.setattr("graphsched.calibration.measure_platform", lambda **_: NOISY)
    assert call("measure", "--out", "desk.json").code == 0
    NOISY.save(platform_path())
    assert call("measure", "--kept", "--out", "again.json").code == 0
    for name in ("desk.json", "again.json"):
        assert Platform.load(name).capacities == {"m": 9e9}


def test_a_link_that_something_else_used_is_named(call, here, monkeypatch):
    slow = Link("cpu", "cpu", "pinned", 0, 9e9, (), False, (10**6, 10**8), (1e-4, 2e-2))
    monkeypatch.setattr("graphsched.calibration.measure_platform", lambda **_: replace(NOISY, links=(slow,)))
    called = call("measure", "--out", "desk.json")
    assert called.code == 0
    assert "note: cpu to cpu (pinned): 5 GB/s at 100 MB, 10 GB/s at less: something else used it" in called.err


def test_a_kept_platform_is_read_as_it_was_measured(call, here):
    NOISY.save(platform_path())
    assert call("measure", "--kept", "--json").json["platform"] == "noisy"
    called = call("measure", "--kept")
    assert f"kept in: {platform_path()}\n" in called.out
    assert "written" not in called.out  # nothing was
    platform_path().write_text(platform_path().read_text().replace("9000000000.0", "-1.0"))
    called = call("measure", "--kept")
    assert called.code == 2
    assert called.err.endswith("call 'graphsched measure' to measure this host again\n")
    assert str(platform_path()) in called.err


def test_pictures_and_times_to_know(call, here):
    call("measure", "--quick")
    called = call("measure", "--kept", "--pictures", "drawn", "--json")
    name = called.json["platform"]
    assert called.json["pictures"] == [f"drawn/{name}-links.png", f"drawn/{name}-pairs.png"]
    assert all((here / file).is_file() for file in called.json["pictures"])
    assert {row["what"] for row in called.json["times"]} >= {"task handed to a CPU lane"}
    assert "times to know" in call("measure", "--kept").out
    assert call("measure", "--kept", "--pictures", "two.json").code == 2


def test_costs_of_an_experiments_tasks_are_measured_too(call, here):
    called = call("measure", "--quick", "--costs", "pair", "--out", "desk.json")
    assert called.code == 0, called.err
    assert "costs of pair" in called.err
    assert len(Platform.load("desk.json").costs) > 0
    assert [case["estimated"] for case in call("predict", "pair", "--json").json["cases"]] == [[], [], []]


def test_costs_of_another_driver_are_left_out_and_this_is_said(call, here, monkeypatch):
    call("measure", "--quick")
    call("run", "pair", "--repeats", "1", "--out", "out", "--cases", "heft")
    monkeypatch.setattr("graphsched.calibration.cost_cache.installed_driver", lambda: "590.2")
    for words in (("predict", "pair", "--cases", "heft"), ("measure", "--kept", "--out", "desk.json")):
        called = call(*words)
        assert called.code == 0
        assert "kept costs are not used, they hold for other versions or settings: driver was " in called.err
        assert called.err.strip().endswith("is 590.2")
    assert len(Platform.load("desk.json").costs) == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--kept", "--quick"),
        ("--check", "--out", "x.json"),
        ("--check", "--pictures", "x"),
        ("--kept",),
        ("--check",),
        ("--out", "experiments"),
    ],
)
def test_wrong_requests_measure_nothing(call, here, words):
    called = call("measure", *words)
    assert called.code == 2
    assert called.err.startswith("error: ")
    assert len(called.err.splitlines()) == 1


def test_bench_has_the_keys_that_are_relied_on(call, monkeypatch):
    monkeypatch.setattr(bench_parts, "QUICK_ACTIONS", (64,))
    monkeypatch.setattr(bench_parts, "QUICK_TASKS", (16,))
    data = call("bench", "--quick", "--json").json
    assert [row["contention"] for row in data["simulator"]] == [False, True]
    assert data["simulator"][0].keys() >= {"actions", "contention", "actions_per_s", "bare_simpy_events_per_s"}
    assert data["schedulers"][0].keys() >= {"name", "tasks", "devices", "seconds"}
    assert data["dispatch"]
    assert "actions / s" in call("bench", "--quick").out


def test_tables_of_a_platform_are_shown_point_by_point(call, here):
    """What a graph on an H200 takes to start by its nodes: each with its unit, and no row of a table without points."""
    Platform.load("h200-x1").save(platform_path())
    lines = [" ".join(line.split()) for line in call("measure", "--kept").out.splitlines()]
    assert {"graph starts, 1 nodes 8.522 µs", "graph stamps, 31,457,280 bytes 933.4 ns"} <= set(lines)
    assert not [line for line in lines if "()" in line or "((" in line or line.startswith("graph launches")]


def test_patterns_are_told_by_their_worst():
    def row(error: float, fitted: bool, *flows: tuple[str, str]) -> dict[str, object]:
        rates = {"measured_bytes_per_s": 100.0, "predicted_bytes_per_s": 100.0 * (1 + error)}
        return {"flows": [list(flow) for flow in flows], "fitted": fitted} | rates

    into, out = ("cpu", "cuda:0"), ("cuda:1", "cpu")
    patterns = [row(0.01, True, into), row(-0.03, True, into, out), row(0.02, False, out)]
    platform = Platform("p", (Device("cpu", "cpu"),), provenance={"patterns": patterns})
    fitted, new = pattern_rows(platform)
    assert (fitted["number"], fitted["of"]) == (2, "cpu>cuda:0, cuda:1>cpu")
    assert fitted["worst"].startswith("-3")
    assert fitted["median"].startswith("+2")
    assert (new["patterns"], new["number"], new["of"]) == ("not fitted on", 1, "cuda:1>cpu")
    assert pattern_rows(Platform("p", (Device("cpu", "cpu"),))) == []

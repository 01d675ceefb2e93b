"""``measure`` and ``bench``: what they print and keep; figures depend on the host."""

from __future__ import annotations

import pytest

from graphsched.calibration import kept_costs
from graphsched.cli import bench
from graphsched.platform import Platform


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


def test_a_sample_is_measured_again(call, here):
    call("measure", "--quick")
    called = call("measure", "--check", "--json")
    assert called.code in (0, 1)
    assert called.json["drifted"] == any(row["drifted"] for row in called.json["checked"]) == bool(called.code)


@pytest.mark.parametrize(
    "words",
    [("--kept", "--quick"), ("--check", "--out", "x.json"), ("--kept",), ("--check",), ("--out", "experiments")],
)
def test_wrong_requests_measure_nothing(call, here, words):
    called = call("measure", *words)
    assert called.code == 2
    assert called.err.startswith("error: ")
    assert len(called.err.splitlines()) == 1


def test_bench_has_the_keys_that_are_relied_on(call, monkeypatch):
    monkeypatch.setattr(bench, "QUICK_ACTIONS", (64,))
    monkeypatch.setattr(bench, "QUICK_TASKS", (16,))
    data = call("bench", "--quick", "--json").json
    assert [row["contention"] for row in data["simulator"]] == [False, True]
    assert data["simulator"][0].keys() == {"actions", "contention", "actions_per_s", "bare_simpy_events_per_s"}
    assert data["schedulers"][0].keys() == {"name", "tasks", "devices", "seconds"}
    assert data["dispatch"]
    assert "actions / s" in call("bench", "--quick").out

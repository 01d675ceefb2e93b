"""``explain``."""

from __future__ import annotations

import pytest

from graphsched.records import record_baseline, save_run
from tests.records.examples import SETUP, case_of, chain, run_of, two


@pytest.fixture
def recorded(here):
    """Two cases and a baseline, in ``runs/exp.json``."""
    cases = (case_of(chain(), label="a chain"), record_baseline(SETUP, "plain", (1.0,)), case_of(two(), label="two"))
    return save_run(run_of(*cases), here / "runs")


def test_every_case_is_explained_predicted_and_measured(call, recorded):
    called = call("explain", recorded)
    assert (called.code, called.err) == (0, "")
    assert called.out.count("  bound by: ") == 4
    assert "a chain (one_stream, eager), predicted\n  bound by: cuda:0" in called.out
    assert "two (one_stream, eager), measured\n" in called.out
    assert "plain" not in called.out


def test_an_action_is_explained_where_it_is(call, recorded):
    called = call("explain", recorded, "t1")
    assert called.code == 0
    assert "t1 on cuda:0/s0" in called.out
    assert "waited last for: t0, over" in called.out
    assert "two" not in called.out


def test_two_actions(call, recorded):
    called = call("explain", recorded, "b", "a")
    assert called.code == 0
    assert "b and a did not overlap: both are on cuda:0/s0" in called.out


def test_json(call, recorded):
    data = call("explain", recorded, "--cases", "chain", "--json").json
    assert (data["experiment"], data["platform"], len(data["cases"])) == ("exp", "bench", 1)
    case = data["cases"][0]
    assert (case["label"], case["scheduler"], case["mode"]) == ("a chain", "one_stream", "eager")
    for source in ("predicted", "measured"):
        assert case[source]["source"] == source
        assert sum(case[source]["parts_s"].values()) == pytest.approx(case[source]["timed_makespan_s"])
    assert call("explain", recorded, "t1", "--json").json["cases"][0]["measured"]["action"] == "t1"
    assert call("explain", recorded, "t0", "t1", "--json").json["cases"][0]["measured"]["kind"] == "dependency"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["t11"], "error: no action 't11' in any of these cases: the nearest are t1"),
        (["t1", "a"], "error: no case has both 't1' and 'a': they are of different cases"),
        (["t1", "t1"], "error: 't1' is named twice: name two actions"),
        (["--cases", "GPU 9"], "has no case with a plan whose label holds 'GPU 9'; there are:\n  a chain\n  two"),
        (["--cases", "plain"], "has no case with a plan whose label holds 'plain'; there are:\n  a chain\n  two"),
    ],
)
def test_a_wrong_request_is_answered_with_what_there_is(call, recorded, words, message):
    called = call("explain", recorded, *words)
    assert (called.code, called.out) == (2, "")
    assert message in called.err


@pytest.mark.parametrize("command", ["explain", "plot", "export"])
def test_a_run_of_baselines_alone_has_no_plan(call, here, command):
    only = save_run(run_of(record_baseline(SETUP, "plain", (1.0,))), here / "runs")
    called = call(command, only)
    assert called.code == 2
    assert "exp.json has no case with a plan, of 1" in called.err


def test_a_run_prints_three_lines_a_case(call, here):
    from graphsched.platform import Platform

    assert Platform.load(here / "two.json").name == "two"
    called = call("run", "pair", "--platform", "two.json", "--out", "out", "--repeats", "2", "--no-pictures")
    assert called.code == 0
    for label in ("sequential, 2 workers", "heft, 2 workers"):
        assert f"{label}\n  bound by: " in called.out
    assert called.out.count("\n  critical path: ") == 2

"""``plot``, ``export`` and ``accuracy``."""

from __future__ import annotations

import json

import pytest

from graphsched.records import record_baseline, save_run
from tests.records.examples import SETUP, case_of, chain, plan_of, run_of, two


@pytest.fixture
def recorded(here):
    """Two cases and a baseline, in ``runs/exp.json``."""
    cases = (case_of(chain(), label="a chain"), record_baseline(SETUP, "plain", (1.0,)), case_of(two(), label="two"))
    return save_run(run_of(*cases), here / "runs")


def test_each_case_is_drawn(call, here, recorded):
    called = call("plot", recorded, "--json")
    assert called.code == 0
    assert called.json == {"files": ["build/plots/bench/exp-1-a-chain.png", "build/plots/bench/exp-3-two.png"]}
    assert (here / "build/plots/bench/exp-1-a-chain.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("form", "ending"), [("perfetto", "perfetto.json"), ("dot", "dot"), ("plan", "plan.txt")])
def test_cases_are_exported(call, here, recorded, form, ending):
    called = call("export", recorded, "--format", form, "--out", "out", "--cases", "chain")
    assert (called.code, called.out) == (0, f"out/exp-1-a-chain.{ending}\n")
    text = (here / f"out/exp-1-a-chain.{ending}").read_text()
    if form == "perfetto":
        assert {"predicted", "measured"} <= {event["args"].get("name") for event in json.loads(text)["traceEvents"]
                                             if event["ph"] == "M"}  # fmt: skip
    elif form == "dot":
        assert text.startswith("digraph")
    else:
        assert text == plan_of(chain()).text


def test_a_filter_that_leaves_nothing_lists_the_labels(call, recorded):
    called = call("plot", recorded, "--cases", "GPU 9")
    assert called.code == 2
    assert "  a chain\n" in called.err


def test_accuracy_has_the_keys_that_are_relied_on(call, recorded):
    data = call("accuracy", recorded.parent, "--json").json
    assert data.keys() >= {
        "runs",
        "makespan_error",
        "task_end_error",
        "sm_sharing",
        "host_bound",
        "concordant",
        "by_experiment",
    }
    assert data["runs"] == 2
    assert data["makespan_error"].keys() == data["task_end_error"].keys() == {"median", "p95", "max"}
    assert data["sm_sharing"].keys() >= {"runs", "makespan_error", "task_end_error"}
    assert data["host_bound"].keys() >= {"runs", "makespan_error"}


def test_accuracy_is_a_table_for_people(call, recorded):
    called = call("accuracy", recorded)
    assert called.code == 0
    assert "GPU-bound" in called.out
    assert "experiment exp" in called.out


def test_accuracy_looks_at_the_recorded_results_by_default(call, here, recorded):
    called = call("accuracy")
    assert called.code == 2
    assert "experiments/results" in called.err
    save_run(run_of(case_of(chain())), here / "experiments" / "results" / "bench")
    assert call("accuracy", "--json").json["runs"] == 1

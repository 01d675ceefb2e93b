"""``plot``, ``export`` and ``accuracy``."""

from __future__ import annotations

import json
import re
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace

import networkx as nx
import pytest
import torch

import graphsched as gs
from graphsched.cli import recorded as recorded_module
from graphsched.platform import Device, Link, Platform
from graphsched.records import record_baseline, save_run
from graphsched.records.goals import GOALS
from graphsched.simulator import Model
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


def test_labels_are_listed_once_each(call, here):
    """Of a case in two modes one label."""
    recorded = save_run(run_of(*(case_of(two(), label="two", mode=mode) for mode in ("eager", "graph"))), here / "runs")
    called = call("plot", recorded, "--cases", "chain")
    assert called.code == 2
    assert called.err.endswith("whose label holds 'chain'; there are:\n  two\n")


def test_a_case_that_a_format_does_not_hold_keeps_no_other_from_being_written(call, here):
    """No task; ``a`` and ``b``."""
    cases = (case_of(gs.Workload(), label="nothing"), case_of(two(), label="two"))
    recorded = save_run(run_of(*cases), here / "runs")
    called = call("export", recorded, "--format", "stg", "--out", "out")
    assert (called.code, called.out) == (1, "out/exp-2-two.stg\n")
    assert called.err == (
        "failed: nothing: the graph has 0 tasks and an STG file holds 1 or more: take another format\n"
    )


def test_beside_the_plan_of_ranks_stands_what_each_one_does(call, here):
    """a (worker:0) ──▶ b (worker:1); without ranks the plan is one file."""
    names = ("cpu", "worker:0", "worker:1")
    links = tuple(Link(a, b, "pinned", 1e-6, 1e9) for a in names for b in names)
    devices = tuple(Device(name, name.partition(":")[0], "core") for name in names)
    work = gs.Workload()
    x = work.input("x", torch.ones(2), device="worker:0")
    a = work.task(torch.neg, x, name="a", device="worker:0", duration_s=1.0)
    work.task(torch.neg, a, name="b", device="worker:1", duration_s=1.0)
    setup = replace(SETUP, platform=Platform("two", devices, links))
    cases = [case_of(work, label="ab", mode=mode, setup=setup) for mode in ("distributed", "eager")]
    recorded = save_run(run_of(*cases), here / "runs")
    called = call("export", recorded, "--format", "plan", "--out", "out", "--json")
    whole, zero, one, other = called.json["files"]
    assert (whole, other) == ("out/exp-1-ab-distributed.plan.txt", "out/exp-2-ab.plan.txt")
    assert (zero, one) == ("out/exp-1-ab-distributed.rank-0.txt", "out/exp-1-ab-distributed.rank-1.txt")
    assert (here / zero).read_text().splitlines()[0] == "rank 0 of 2: worker:0, cpu"
    assert "to rank 1 on worker:0>worker:1" in (here / zero).read_text()
    assert "  run b on worker:1/" in (here / one).read_text()


@pytest.mark.parametrize("nbytes", [10**19, 10**400, -1, 0.5], ids=["large", "huge", "negative", "half"])
@pytest.mark.parametrize("command", ["accuracy", "plot", "explain"])
def test_sizes_that_no_memory_has_are_refused(call, here, command, nbytes):
    """t0 ─ 8 bytes ─ t1"""
    graph = nx.DiGraph()
    graph.add_nodes_from(("t0", "t1"), duration_s=1.0)
    graph.add_edge("t0", "t1", nbytes=8)
    recorded = save_run(run_of(case_of(gs.Workload.from_graph(graph))), here / "runs")
    data = json.loads(recorded.read_text())
    (work,) = data["workloads"].values()
    work["tasks"][0]["outputs"][0]["nbytes"] = nbytes
    recorded.write_text(json.dumps(data))
    called = call(command, recorded)
    assert called.code == 2
    assert "'nbytes' is " in called.err
    assert "a whole number from 0 to 9007199254740992 is needed" in called.err


@pytest.mark.parametrize("command", ["accuracy", "plot"])
def test_a_record_that_overflows_when_simulated_is_refused(call, recorded, command):
    """Quartiles of a cost that are 10^19 times the rest."""
    data = json.loads(recorded.read_text())
    wide = {"signature": "t", "model": "GPU", "device_s": 1.0, "quartiles_s": [0.5, 1e19]}
    data["costs"] = [wide]
    for work in data["workloads"].values():
        for task in work["tasks"]:
            task["signature"] = "t"
            del task["duration_s"]
    recorded.write_text(json.dumps(data))
    called = call(command, recorded)
    assert called.code == 2
    assert "case 'a chain' cannot be simulated again" in called.err


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
    assert "every case" not in called.out
    assert "switched off" not in called.out


def test_every_case_is_listed_where_that_is_asked_for(call, recorded):
    called = call("accuracy", recorded, "--cases")
    assert "every case, simulated again" in called.out
    assert "a chain" in called.out


def test_goals_are_printed_with_limit_figure_and_verdict(call, recorded):
    (line,) = [line for line in call("accuracy", recorded).out.splitlines() if line.lstrip().startswith("cases ")]
    assert line.split() == ["cases", "≥", "80", "2", "no"]
    rows = {row["goal"]: row for row in call("accuracy", recorded, "--json").json["goals"]}
    assert rows["cases"] == {"goal": "cases", "limit": 80, "at_least": True, "figure": 2, "reached": False}


@pytest.fixture
def two_modes(here):
    """A chain in eager mode, predicted in 3 s; the same twice in graph mode, in the wrong order; and a baseline."""
    eager = case_of(chain(), measured_s=3.0, label="in eager")
    slow = case_of(chain(), measured_s=4.0, label="slow", mode="graph")
    fast = case_of(chain(), measured_s=3.1, label="fast", mode="graph", scheduler="sequential")
    return save_run(run_of(eager, slow, fast, record_baseline(SETUP, "plain", (1.0,))), here / "runs")


def goal_lines(out):
    """Heads of the goals' columns, and the figures and the verdict behind the limit of each goal."""
    lines = [re.split(r" {2,}", line.strip()) for line in out[out.index("\ngoals") :].splitlines()]
    (heads,) = [words for words in lines if words[0] == "goal"]
    names = {goal.name for goal in GOALS}
    return heads, {words[0]: words[2:] for words in lines if words[0] in names}


def test_each_mode_has_a_column_of_goals_where_there_are_several(call, two_modes):
    heads, rows = goal_lines(call("accuracy", two_modes).out)
    assert heads == ["goal", "limit", "all", "eager", "graph", "reached"]
    assert rows["workloads"] == ["1", "1", "1", "no"]
    assert rows["GPU-bound: cases over 5 % without a written cause"] == ["1", "0", "1", "no"]
    data = call("accuracy", two_modes, "--json").json
    assert list(data["goals_by_mode"]) == ["eager", "graph"]
    assert [rows[0]["figure"] for rows in (data["goals"], *data["goals_by_mode"].values())] == [3, 1, 2]
    assert [row["goal"] for row in data["goals_by_mode"]["graph"]] == [goal.name for goal in GOALS]


def test_one_mode_has_one_column_of_goals(call, two_modes):
    heads, rows = goal_lines(call("accuracy", two_modes, "--mode", "graph").out)
    assert heads == ["goal", "limit", "figure", "reached"]
    assert rows["workloads"] == ["1", "no"]


def test_all_figures_are_of_the_modes_that_are_asked_for(call, two_modes):
    """The wrong order of the schedules in graph mode does not count in eager mode."""
    whole, eager, graph, both = (
        call("accuracy", two_modes, "--ablation", "--json", *words).json
        for words in ([], ["--mode", "eager"], ["--mode", "graph"], ["--mode", "graph, eager"])
    )
    assert both == whole
    for name, data in (("eager", eager), ("graph", graph)):
        assert data["goals"] == whole["goals_by_mode"][name]
        assert data["cases"] == [case for case in whole["cases"] if case["mode"] == name]
        assert data["by_mode"] == {name: whole["by_mode"][name]}
    assert [data["regret"]["groups"] for data in (whole, eager, graph)] == [1, 0, 1]
    assert [data["concordant"] for data in (eager, graph)] == [None, whole["concordant"]]
    assert [data["ablation"][0]["gpu_bound"]["runs"] for data in (whole, eager, graph)] == [3, 1, 2]
    assert [len(data["large_errors"]["cases"]) for data in (whole, eager, graph)] == [1, 0, 1]


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_mode_without_a_case_lists_the_modes_that_there_are(call, two_modes, words):
    called = call("accuracy", "runs", "--mode", "distributed", *words)
    assert (called.code, called.out) == (2, "")
    assert called.err == "error: no case in runs is of mode distributed; there are: eager, graph\n"


def test_a_mode_that_does_not_exist_is_a_wrong_request(call, here):
    """It is told before a folder is read; code of others has a mode, but no prediction."""
    for mode in ("fast", "eager,fast", "baseline", ""):
        called = call("accuracy", "no such folder", "--mode", mode)
        assert (called.code, called.out) == (2, "")
        assert f"no mode {mode.split(',')[-1]!r}: one of eager, graph, distributed" in called.err


def test_each_term_of_the_model_is_switched_off_where_that_is_asked_for(call, recorded):
    called = call("accuracy", recorded, "--ablation")
    assert "with one term of the model switched off" in called.out
    rows = call("accuracy", recorded, "--ablation", "--json").json["ablation"]
    assert [row["off"] for row in rows] == [None, *Model.__dataclass_fields__]
    assert all(any(line.split()[:1] == [row["off"]] for line in called.out.splitlines()) for row in rows if row["off"])
    assert "ablation" not in call("accuracy", recorded, "--json").json


def test_a_process_that_dies_is_told_and_what_helps(call, recorded, monkeypatch):
    def died(*_, **__):
        raise BrokenProcessPool

    monkeypatch.setattr(recorded_module, "checked_cases", died)
    called = call("accuracy", recorded, "--processes", "2")
    assert (called.code, called.out) == (1, "")
    assert "a process died (out of memory?): ask for fewer with --processes" in called.err


def test_large_errors_are_listed_with_their_causes(call, here):
    """3 s predicted, 4 s measured; the wrong choice of a schedule too."""
    slow, fast = (
        case_of(chain(), measured_s=4.0, label="slow"),
        case_of(chain(), measured_s=3.1, label="fast", scheduler="sequential"),
    )
    save_run(run_of(slow, fast), here / "runs")
    called = call("accuracy", "runs")
    assert "GPU-bound cases over 5 %" in called.out
    assert "no cause written" in called.out
    assert "slower than the best, beyond noise" in called.out
    (here / "runs" / "causes.toml").write_text('[[cause]]\nlabel = "slow"\ncause = "an old driver"\n')
    assert "an old driver" in call("accuracy", "runs").out


def test_a_wrong_list_of_causes_is_a_wrong_request(call, here, recorded):
    (recorded.parent / "causes.toml").write_text("cause = 1")
    called = call("accuracy", recorded)
    assert called.code == 2
    assert "causes.toml" in called.err


@pytest.mark.parametrize("words", [[], ["--json"], ["--mode", "eager"]])
def test_accuracy_of_nothing_is_a_wrong_request(call, here, words):
    """An empty folder reaches goals such as "no case over 5 %" only for lack of cases."""
    (here / "runs").mkdir()
    for _ in range(2):
        called = call("accuracy", "runs", *words)
        assert (called.code, called.out) == (2, "")
        assert "there is no recorded run with a prediction in runs" in called.err
        save_run(run_of(record_baseline(SETUP, "plain", (1.0,))), here / "runs")


def test_accuracy_looks_at_the_recorded_results_by_default(call, here, recorded):
    called = call("accuracy")
    assert called.code == 2
    assert "experiments/results" in called.err
    save_run(run_of(case_of(chain())), here / "experiments" / "results" / "bench")
    assert call("accuracy", "--json").json["runs"] == 1

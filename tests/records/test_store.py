"""Recorded runs: written, read, merged, and what is wrong with a file."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from graphsched.errors import ExperimentError, FileFormatError, OutputError
from graphsched.plan import Plan
from graphsched.platform import Dispatch, Pace
from graphsched.records import find_runs, load_run, record_baseline, record_case, run_file, save_run, store
from graphsched.records.model import COLUMNS
from tests.records.examples import PLATFORM, SETUP, case_of, chain, plan_of, run_of, timeline, two, with_cost


def test_a_case_comes_back_as_it_was(tmp_path):
    """t0 → t1 → t2 on one GPU."""
    work = chain()
    case = case_of(work, measured_s=3.0, spread=0.1)
    (back,) = load_run(save_run(run_of(case), tmp_path)).cases
    assert back.figures() == case.figures()
    assert back.figures() == {
        "label": "one GPU",
        "scheduler": "one_stream",
        "mode": "eager",
        "predicted_s": 3.3,
        "measured_s": 3.0,
        "spread": pytest.approx(0.1),
        "reported_s": 2.5,
        "error": pytest.approx(0.1),
        "options": {},
        "metrics": {},
        "estimated": [],
    }
    assert back.work.digest() == work.digest()
    assert back.plan.text == plan_of(work).text
    assert back.setup.platform.digest() == PLATFORM.digest()
    assert back.setup.parameters == {"sizes": [1, 2]}
    line = back.measured
    assert isinstance(line.plan, Plan)
    assert (line.timed_makespan_s, line.clock_uncertainty_s, line.notes) == (3.0 * 1.01, 1e-6, ("by hand",))
    assert line.samples_s == case.samples_s
    for name in COLUMNS:
        assert getattr(line, name).tolist() == case.spans[name].tolist()


@pytest.mark.parametrize("inline", [200, 2])
def test_halves_of_messages_are_kept_and_no_column_of_them_where_there_are_none(tmp_path, monkeypatch, inline):
    """t0 → t1 → t2, the second issued by rank 1 too; in the file, and in one beside it."""
    monkeypatch.setattr(store, "INLINE_ACTIONS", inline)
    line = timeline(plan_of(chain()), 3.0)
    whole = record_case(SETUP, "whole", line, line, scheduler="one_stream")
    parted = record_case(SETUP, "parted", line, replace(line, halves_s={(1, 1): (0.5, 0.75)}), scheduler="one_stream")
    back = load_run(save_run(run_of(whole, parted), tmp_path)).cases
    assert [tuple(case.spans) for case in back] == [COLUMNS, (*COLUMNS, "halves")]
    assert [case.measured.halves_s for case in back] == [{}, {(1, 1): (0.5, 0.75)}]


def test_makespans_are_kept_to_the_bit_and_spans_to_a_tenth_of_a_nanosecond(tmp_path):
    third = case_of(chain(), measured_s=1 / 3)
    (back,) = load_run(save_run(run_of(third), tmp_path)).cases
    assert back.measured_s == 1 / 3
    assert back.measured.end_s[-1] == 0.3333333333


def test_calls_after_waits_are_predicted_as_they_were_during_the_run(tmp_path):
    """t0 → t1 → t2: the plan of the record has the figures of the run, also where its platform has others."""
    calls = Dispatch(call_s=1e-5, colds=((20, 1e-6), (200, 2e-6)))
    setup = replace(SETUP, platform=replace(PLATFORM, dispatch=calls))
    case = replace(case_of(chain(), setup=setup), pace=Pace(2e-5, colds=((20, 4e-6), (200, 9e-6))))
    (back,) = load_run(save_run(run_of(case), tmp_path)).cases
    assert back.pace.colds == ((20, 4e-6), (200, 9e-6))
    assert back.plan.platform.dispatch == calls.at(back.pace)
    assert case_of(chain(), setup=setup).pace.colds == calls.colds  # of the platform that the case was predicted on


def test_launches_of_graphs_are_predicted_as_they_were_during_the_run(tmp_path):
    """t0 → t1 → t2: the record of a plan in graph mode has the yardsticks of launches; that of another, none."""
    costs = Dispatch(call_s=1e-5, graph_launches=((1, 1e-5), (2, 4e-5)), graph_launch_node_s=5e-6)
    setup = replace(SETUP, platform=replace(PLATFORM, dispatch=costs))
    case = replace(case_of(chain(), setup=setup, mode="graph"), pace=Pace(1e-5, launches=((1, 3e-5), (2, 8e-5))))
    (back,) = load_run(save_run(run_of(case), tmp_path)).cases
    assert back.pace.launches == ((1, 3e-5), (2, 8e-5))
    assert back.plan.platform.dispatch == costs.at(back.pace)
    assert back.plan.platform.dispatch.graph_launch_node_s == pytest.approx(1.5e-5)
    assert case_of(chain(), setup=setup, mode="graph").pace.launches == costs.graph_launches
    assert case_of(chain(), setup=setup).pace.launches == ()


def test_launches_behind_waits_are_predicted_as_they_were_during_the_run(tmp_path):
    """t0 → t1 → t2: on one GPU and over several; that of another mode has none of them."""
    alone, across = ((20, 1e-6), (200, 2e-6)), ((20, 3e-6),)
    costs = Dispatch(call_s=1e-5, graph_colds=alone, graph_across_colds=across)
    setup = replace(SETUP, platform=replace(PLATFORM, dispatch=costs))
    case = case_of(chain(), setup=setup, mode="graph")
    assert case.pace.launch_colds == (alone, across)
    case = replace(case, pace=Pace(1e-5, launch_colds=(((20, 7e-6),), ((20, 8e-6),))))
    (back,) = load_run(save_run(run_of(case), tmp_path)).cases
    assert back.pace == case.pace
    now = back.plan.platform.dispatch
    assert (now.graph_colds, now.graph_across_colds) == back.pace.launch_colds
    assert case_of(chain(), setup=setup).pace.launch_colds == ()


def test_a_run_recorded_before_calls_after_waits_were_measured_is_predicted_as_before(tmp_path):
    setup = replace(SETUP, platform=replace(PLATFORM, dispatch=Dispatch(call_s=1e-5, cold_s=1e-6)))
    path = save_run(run_of(replace(case_of(chain(), setup=setup), pace=Pace(2e-5))), tmp_path)
    data = json.loads(path.read_text())
    assert data["cases"][0].pop("colds") == []
    path.write_text(json.dumps(data))
    (back,) = load_run(path).cases
    assert (back.pace.colds, back.plan.platform.dispatch.cold_s) == ((), 2e-6)


LANES_NOW = {"product_s": 3e-4, "sweep_s": 2e-3, "fetch_s": 4e-4, "pinned_s": 6e-4}


def test_cpu_lanes_are_predicted_at_the_speed_that_they_had_during_the_run(tmp_path):
    """t0 → t1 → t2: of a run without their yardstick the file does not name it."""
    case = replace(case_of(chain()), pace=Pace(**LANES_NOW))
    path = save_run(run_of(case), tmp_path)
    (back,) = load_run(path).cases
    assert back.pace == Pace(**LANES_NOW)
    assert back.plan.platform.dispatch == Dispatch(**LANES_NOW)
    here = replace(PLATFORM, dispatch=Dispatch(product_s=5e-4))
    assert case_of(chain(), setup=replace(SETUP, platform=here)).pace.product_s == 5e-4
    (bare,) = load_run(save_run(run_of(replace(case, pace=Pace())), tmp_path)).cases
    assert (bare.pace.product_s, bare.plan.platform.dispatch) == (0.0, PLATFORM.dispatch)
    assert not set(LANES_NOW) & set(json.loads(path.read_text())["cases"][0])


@pytest.mark.parametrize(("stamped", "stamp_s"), [(False, 0.0), (True, 1e-6), (None, 1e-6)])
def test_what_timed_the_tasks_of_graphs_is_kept(tmp_path, stamped, stamp_s):
    """t0 → t1 → t2: where events did, the plan of the record has a platform without stamps."""
    setup = replace(SETUP, platform=replace(PLATFORM, dispatch=Dispatch(graph_stamp_s=1e-6)))
    path = save_run(run_of(replace(case_of(chain(), setup=setup), stamped=stamped)), tmp_path)
    (back,) = load_run(path).cases
    assert (back.stamped, back.plan.platform.dispatch.graph_stamp_s) == (stamped, stamp_s)
    data = json.loads(path.read_text())
    data["cases"][0]["stamped"] = "yes"
    path.write_text(json.dumps(data))
    with pytest.raises(FileFormatError, match="stamped is 'yes': true, false or null is needed"):
        load_run(path)


@pytest.mark.parametrize(
    ("mode", "stamp_s", "stamped"), [("graph", 1e-6, True), ("graph", 0.0, False), ("eager", 1e-6, None)]
)
def test_a_case_tells_whether_stamps_time_its_tasks(mode, stamp_s, stamped):
    """t0 → t1 → t2: stamps do in a graph, where they were measured."""
    setup = replace(SETUP, platform=replace(PLATFORM, dispatch=Dispatch(graph_stamp_s=stamp_s)))
    assert case_of(chain(), setup=setup, mode=mode).stamped is stamped


def test_calls_after_waits_that_are_none_are_named(tmp_path):
    path = save_run(run_of(case_of(chain())), tmp_path)
    data = json.loads(path.read_text())
    wrong: list[tuple[str, object, str]] = [
        ("colds", [[200, 1e-6], [20, 2e-6]], "after .200, 20. microseconds"),
        ("colds", 5, "colds are 5: pairs"),
        ("launches", [[2, 1e-5], [1, 2e-5]], "after .2, 1. GPUs"),
    ]
    for name, points, message in wrong:
        data["cases"][0] |= {"colds": [], "launches": []} | {name: points}
        path.write_text(json.dumps(data))
        with pytest.raises(FileFormatError, match=rf"exp\.json: dispatch .*{message}"):
            load_run(path)


def test_a_run_recorded_before_the_model_gained_a_field_is_still_read(tmp_path):
    path = save_run(run_of(case_of(chain())), tmp_path)
    data = json.loads(path.read_text())
    for platform in find_platforms(data):
        del platform["dispatch"]["peer_copy_s"]
    data = json.loads(json.dumps(data).replace(PLATFORM.digest(), "0123456789abcdef"))
    path.write_text(json.dumps(data))
    (back,) = load_run(path).cases
    assert back.setup.platform.dispatch.peer_copy_s == Dispatch().peer_copy_s
    assert back.repredict().makespan_s > 0


def find_platforms(thing):
    """Every platform's object in a file."""
    if isinstance(thing, dict):
        return ([thing] if "dispatch" in thing else []) + [p for v in thing.values() for p in find_platforms(v)]
    return [p for v in thing for p in find_platforms(v)] if isinstance(thing, list) else []


def test_what_cases_share_is_written_once(tmp_path):
    work = chain()
    path = save_run(run_of(case_of(work, label="a"), case_of(work, label="b"), case_of(two(), label="c")), tmp_path)
    data = json.loads(path.read_text())
    assert len(data["workloads"]) == len(data["plans"]) == 2
    assert [case["workload"] for case in data["cases"]].count(work.digest()) == 2


def test_what_costs_repeat_is_written_once(tmp_path):
    """Two setups with a cost of the same operation; a file that names it in full is read like it."""
    cases = [
        case_of(chain(), label=label, setup=with_cost(SETUP, seconds)) for label, seconds in (("a", 0.5), ("b", 0.7))
    ]
    path = save_run(run_of(*cases), tmp_path)
    data = json.loads(path.read_text())
    assert data["repeated"] == ["given t0", "GPU"]
    parts = [data, *data["earlier"]]
    assert [(row["signature"], row["model"]) for part in parts for row in part["costs"]] == [(0, 1), (0, 1)]
    read = load_run(path).cases
    assert [case.setup.platform.costs["given t0", "GPU"].device_s for case in read] == [0.5, 0.7]
    del data["repeated"]
    for part in parts:
        part["costs"] = [row | {"signature": "given t0", "model": "GPU"} for row in part["costs"]]
    path.write_text(json.dumps(data))
    assert [case.setup.platform.costs for case in load_run(path).cases] == [case.setup.platform.costs for case in read]


@pytest.mark.parametrize("number", [2, -1])
def test_a_number_that_stands_for_nothing_is_named(tmp_path, number):
    path = save_run(run_of(case_of(chain(), setup=with_cost(SETUP, 0.5))), tmp_path)
    data = json.loads(path.read_text())
    data["costs"][0]["signature"] = number
    path.write_text(json.dumps(data))
    with pytest.raises(
        FileFormatError, match=f"exp.json: signature {number} of a row of costs stands for nothing, .* 2"
    ):
        load_run(path)


def test_only_costs_that_the_plan_uses_are_kept(tmp_path):
    platform = with_cost(SETUP, 0.5).platform
    case = case_of(chain(), setup=replace(SETUP, platform=platform))
    other = case_of(two(), label="other", setup=replace(SETUP, platform=platform))
    assert list(case.setup.platform.costs) == [("given t0", "GPU")]
    assert not other.setup.platform.costs
    run = load_run(save_run(run_of(other, case), tmp_path))
    assert all(list(c.setup.platform.costs) == [("given t0", "GPU")] for c in run.cases)
    assert "earlier" in json.loads(run_file(tmp_path, "exp").read_text())
    assert json.loads(run_file(tmp_path, "exp").read_text())["earlier"] == []


def test_a_baseline_has_samples_and_nothing_else(tmp_path):
    case = record_baseline(SETUP, "plain PyTorch", (1.0, 2.0, 3.0, 4.0, 5.0), reported_s=2.0, metrics={"peak_bytes": 7})
    (back,) = load_run(save_run(run_of(case), tmp_path)).cases
    assert (back.measured_s, back.predicted_s, back.error, back.scheduler, back.mode) == (
        3.0,
        None,
        None,
        None,
        "baseline",
    )
    assert back.spread == pytest.approx(1 / 3)
    assert back.metrics == {"peak_bytes": 7}
    with pytest.raises(FileFormatError, match="'plain PyTorch' is a baseline"):
        _ = back.plan


def test_figures_of_numpy_and_torch_are_kept_as_numbers(tmp_path):
    """What a file could not hold would cost the cases beside it."""
    metrics = {"accuracy": np.float32(0.5), "loss": torch.tensor(0.25, requires_grad=True), "steps": np.int64(3)}
    case = record_baseline(SETUP, "plain PyTorch", (1.0,), metrics=metrics)
    assert case.metrics == {"accuracy": 0.5, "loss": 0.25, "steps": 3}
    assert load_run(save_run(run_of(case), tmp_path)).cases[0].metrics == case.metrics


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"loss": torch.ones(2)}, "metric 'loss' is a Tensor: a number is needed"),
        ({"loss": [1.0]}, "metric 'loss' is a list"),
        ({3: 1.0}, "a metric is called 3"),
    ],
)
def test_a_metric_that_is_no_number_is_named(metrics, message):
    with pytest.raises(ExperimentError, match=message):
        record_baseline(SETUP, "plain PyTorch", (1.0,), metrics=metrics)


def test_an_option_that_no_file_holds_is_kept_as_text(tmp_path):
    """Schedulers of others take what they like."""
    line, options = timeline(plan_of(two()), 3.0), {"lanes": 2, "prefer": PLATFORM.devices[0]}
    case = record_case(SETUP, "one GPU", line, line, scheduler="of others", options=options)
    assert load_run(save_run(run_of(case), tmp_path)).cases[0].options == case.options
    assert case.options["lanes"] == 2


def test_names_of_several_lines_come_back(tmp_path):
    """A plan's text has them in one line; else its run could be written and never read."""
    setup = replace(SETUP, platform=replace(PLATFORM, name="my\ndesk"))
    work = two()
    work.name = "a\nstep"
    case = case_of(work, setup=setup)
    (back,) = load_run(save_run(run_of(case), tmp_path)).cases
    assert back.plan.text == case.plan_text
    assert (back.work.name, back.setup.platform.name) == ("a\nstep", "my\ndesk")


# -- many spans -------------------------------------------------------------------------------


def test_spans_of_large_plans_are_in_a_file_beside(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "INLINE_ACTIONS", 2)
    large, small = case_of(chain(3), label="large"), case_of(two(), label="small")
    path = save_run(run_of(large, small), tmp_path)
    (beside,) = tmp_path.glob("*.npz")
    data = json.loads(path.read_text())
    assert data["cases"][0]["spans"] == beside.name
    assert list(data["plans"].values()) == [plan_of(two()).text]
    back = load_run(path).cases[0]
    assert back.plan.text == plan_of(chain(3)).text
    assert np.array_equal(back.measured.end_s, large.spans["end_s"])


def test_the_file_beside_is_replaced_with_its_case(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "INLINE_ACTIONS", 2)
    save_run(run_of(case_of(chain(3), measured_s=1.0)), tmp_path)
    (first,) = tmp_path.glob("*.npz")
    path = save_run(run_of(case_of(chain(3), measured_s=2.0)), tmp_path)
    (second,) = tmp_path.glob("*.npz")
    assert first.name != second.name
    assert load_run(path).cases[0].measured.end_s[-1] == 2.0


@pytest.mark.parametrize("damage", ["missing", "truncated", "foreign"])
def test_a_damaged_file_beside_is_named(tmp_path, monkeypatch, damage):
    monkeypatch.setattr(store, "INLINE_ACTIONS", 2)
    path = save_run(run_of(case_of(chain(3))), tmp_path)
    (beside,) = tmp_path.glob("*.npz")
    if damage == "missing":
        beside.unlink()
    elif damage == "truncated":
        beside.write_bytes(beside.read_bytes()[:100])
    else:
        np.savez(beside, start_s=np.zeros(3))
    with pytest.raises(FileFormatError, match=beside.name):
        load_run(path)


@pytest.mark.parametrize("damage", ["no archive", "foreign"])
def test_a_file_beside_that_holds_no_spans_is_named(tmp_path, monkeypatch, damage):
    """t0 → t1 → t2 on one GPU; the file's name says rightly what is in it."""
    monkeypatch.setattr(store, "INLINE_ACTIONS", 2)
    path = save_run(run_of(case_of(chain(3))), tmp_path)
    (beside,) = tmp_path.glob("*.npz")
    np.savez(beside, start_s=np.zeros(3))
    content = beside.read_bytes()[: 100 if damage == "no archive" else None]
    name = f"exp.{hashlib.sha256(content).hexdigest()[:12]}.spans.npz"
    (tmp_path / name).write_bytes(content)
    path.write_text(path.read_text().replace(beside.name, name))
    with pytest.raises(FileFormatError, match=rf"the spans in {name} cannot be read"):
        load_run(path)


def test_a_file_beside_in_the_place_of_another_is_named(tmp_path, monkeypatch):
    """t0 → t1 → t2 on one GPU, twice; the spans of the one under the name of the other."""
    monkeypatch.setattr(store, "INLINE_ACTIONS", 2)
    path = save_run(run_of(case_of(chain(3)), case_of(chain(3), label="again", measured_s=5.0)), tmp_path)
    one, other = sorted(tmp_path.glob("*.npz"))
    one.write_bytes(other.read_bytes())
    with pytest.raises(FileFormatError, match=rf"{one.name} are others than its name says, their hash is "):
        load_run(path)


# -- merging ----------------------------------------------------------------------------------


def test_another_mode_replaces_only_its_own_cases(tmp_path):
    save_run(run_of(case_of(chain(), measured_s=1.0), case_of(two(), label="two")), tmp_path)
    save_run(run_of(case_of(chain(), measured_s=2.0, mode="graph")), tmp_path)
    path = save_run(run_of(case_of(chain(), measured_s=3.0)), tmp_path)
    found = [(c.label, c.mode, c.measured_s) for c in load_run(path).cases]
    assert found == [("one GPU", "eager", 3.0), ("two", "eager", 3.0), ("one GPU", "graph", 2.0)]


def test_cases_kept_from_another_platform_keep_it(tmp_path):
    bigger = replace(SETUP, platform=replace(PLATFORM, name="bigger", cores=8))
    save_run(run_of(case_of(chain(), mode="graph", setup=bigger)), tmp_path)
    path = save_run(run_of(case_of(chain())), tmp_path)
    run = load_run(path)
    assert {case.mode: case.setup.platform.name for case in run.cases} == {"graph": "bigger", "eager": "bench"}
    assert all(case.measured.plan.platform is case.setup.platform for case in run.cases)
    data = json.loads(path.read_text())
    assert data["platform"]["name"] == "bench"
    assert [setup["platform"]["name"] for setup in data["earlier"]] == ["bigger"]


def test_costs_that_have_changed_since_make_another_setup(tmp_path):
    save_run(run_of(case_of(chain(), mode="graph", setup=with_cost(SETUP, 1.0))), tmp_path)
    run = load_run(save_run(run_of(case_of(chain(), setup=with_cost(SETUP, 2.0))), tmp_path))
    kept = {case.mode: case.setup.platform.costs["given t0", "GPU"].device_s for case in run.cases}
    assert kept == {"graph": 1.0, "eager": 2.0}


def test_costs_of_replaced_cases_go_with_them(tmp_path):
    """Of a chain and of other tasks, both run at once; then the chain again on another platform."""
    bigger = replace(SETUP, platform=replace(with_cost(SETUP, 1.0).platform, name="bigger"))
    both = case_of(chain(), setup=bigger), case_of(two(), label="two", setup=bigger)
    save_run(run_of(*both, record_baseline(bigger, "plain PyTorch", (1.0,))), tmp_path)
    path = save_run(run_of(case_of(chain(), setup=with_cost(SETUP, 2.0))), tmp_path)
    data = json.loads(path.read_text())
    (earlier,) = data["earlier"]
    assert (earlier["platform"]["name"], earlier["costs"]) == ("bigger", [])
    assert data["costs"][0]["device_s"] == 2.0


def test_a_case_that_cannot_be_read_is_kept_when_others_are_saved(tmp_path):
    path = save_run(run_of(case_of(chain()), case_of(two(), label="two", setup=with_cost(SETUP, 1.0))), tmp_path)
    data = json.loads(path.read_text())
    (digest,) = {case["workload"] for case in data["cases"] if case["label"] == "two"}
    data["workloads"][digest]["tasks"] = "?"
    path.write_text(json.dumps(data))
    save_run(run_of(case_of(chain(), measured_s=7.0)), tmp_path)
    assert "?" in [work["tasks"] for work in json.loads(path.read_text())["workloads"].values()]


def test_the_same_run_gives_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "INLINE_ACTIONS", 2)
    contents = []
    for _ in range(2):
        path = save_run(run_of(case_of(chain(3)), case_of(two(), label="two")), tmp_path)
        contents.append([file.read_bytes() for file in sorted(tmp_path.iterdir())])
        assert path.name == "exp.json"
    assert contents[0] == contents[1]


# -- wrong files ------------------------------------------------------------------------------


def test_a_truncated_file_is_named(tmp_path):
    path = save_run(run_of(case_of(chain())), tmp_path)
    path.write_text(path.read_text()[:-200])
    with pytest.raises(FileFormatError, match=r"exp.json is no complete JSON file"):
        load_run(path)


@pytest.mark.parametrize("change", [{"schema": 2}, {"schema": None}, {"cases": None}, {"cases": [{}]}, {"seed": ...}])
def test_another_version_or_missing_entries_are_refused(tmp_path, change):
    path = save_run(run_of(case_of(chain())), tmp_path)
    data = json.loads(path.read_text())
    for key, value in change.items():
        data.pop(key) if value is ... else data.update({key: value})
    path.write_text(json.dumps(data))
    with pytest.raises(FileFormatError, match=r"exp.json is no recorded run"):
        load_run(path)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("scheduler", ["heft"], "'scheduler' is .'heft'., text is needed"),
        ("options", None, "'options' is None, an object is needed"),
        ("metrics", [1], "'metrics' is .1., an object is needed"),
        ("measured_s", float("nan"), "'measured_s' is nan, a finite number is needed"),
        ("measured_s", None, "'measured_s' is null, though there are spans"),
        ("spans", {name: [float("nan")] * 3 for name in COLUMNS}, "the spans' .* hold what is no finite number"),
        ("predicted_s", True, "'predicted_s' is True, a finite number"),
        ("timed_makespan_s", "long", "'timed_makespan_s' is 'long', a finite number"),
        ("product_s", "5", "'product_s' is '5', a finite number"),
        ("sweep_s", "5", "'sweep_s' is '5', a finite number"),
        ("fetch_s", "5", "'fetch_s' is '5', a finite number"),
        ("pinned_s", "5", "'pinned_s' is '5', a finite number"),
        ("call_s", [1e-6], "'call_s' is .1e-06., a finite number"),
        ("samples_s", [1.0, "x"], "'samples_s' is 'x', a finite number"),
        ("samples_s", [1.0, None], "'samples_s' is None, a finite number"),
        ("samples_s", [-1.0], "'samples_s' is -1.0, at least 0"),
        ("measured_s", -1.0, "'measured_s' is -1.0, at least 0"),
        ("clock_uncertainty_s", None, "'clock_uncertainty_s' is None, a finite number"),
        ("estimated", [1, 2], "'estimated' is .1, 2., a list of texts"),
        ("estimated", "abc", "'estimated' is 'abc', a list of texts"),
        ("notes", [["x"]], "'notes' is ..'x'.., a list of texts"),
        ("spans", {name: [[1.0], [1.0], [1.0]] for name in COLUMNS}, "the spans' issue_start_s are no list"),
        ("spans", {name: [10**400] for name in COLUMNS}, "int too large"),
        (
            "spans",
            {name: [0.0, 1.0, 1e19] for name in COLUMNS},
            "the spans' issue_start_s hold 1e.19 s: at most 1e.09 s",
        ),
        (
            "spans",
            {name: [0.0, 1.0, 1.0] for name in COLUMNS} | {"halves": [[1.0, 1.0, 0.5]]},
            "the spans' halves are no list of an action, a rank and two times each",
        ),
    ],
)
def test_an_entry_of_another_type_is_named(tmp_path, key, value, message):
    path = save_run(run_of(case_of(chain())), tmp_path)
    data = json.loads(path.read_text())
    data["cases"][0][key] = value
    path.write_text(json.dumps(data))
    with pytest.raises(FileFormatError, match=rf"exp\.json is no recorded run: .*{message}"):
        load_run(path)


@pytest.mark.parametrize("key", ["measured_s", "timed_makespan_s"])
def test_spans_of_a_run_that_took_no_time_are_refused(tmp_path, key):
    """t0 → t1 → t2 on one GPU; without spans a time of 0 has no error, and is read."""
    path = save_run(run_of(case_of(chain())), tmp_path)
    data = json.loads(path.read_text())
    data["cases"][0][key] = 0
    path.write_text(json.dumps(data))
    with pytest.raises(FileFormatError, match=rf"exp\.json: case 'one GPU' \(eager\) has spans, but {key!r} is 0: "):
        load_run(path)
    del data["cases"][0]["spans"]
    path.write_text(json.dumps(data))
    assert load_run(path).cases[0].workload is None


@pytest.mark.parametrize(("key", "value"), [("environment", [1]), ("parameters", "p"), ("seed", "0"), ("seed", True)])
def test_what_a_run_was_set_up_with_is_of_its_type(tmp_path, key, value):
    path = save_run(run_of(case_of(chain())), tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(
        FileFormatError, match=rf"exp\.json is no recorded run: .*{key!r} is {value!r}".replace("[", ".")
    ):
        load_run(path)


@pytest.mark.parametrize("table", ["workloads", "plans"])
def test_what_a_case_refers_to_is_of_its_type(tmp_path, table):
    path = save_run(run_of(case_of(chain())), tmp_path)
    data = json.loads(path.read_text())
    data[table] = dict.fromkeys(data[table], 5)
    path.write_text(json.dumps(data))
    with pytest.raises(FileFormatError, match=r"exp.json is no recorded run: .* is int"):
        load_run(path)


def test_a_single_span_where_columns_are_needed_is_of_another_number(tmp_path):
    path = save_run(run_of(case_of(chain(3))), tmp_path)
    data = json.loads(path.read_text())
    data["cases"][0]["spans"]["start_s"] = 1.0
    path.write_text(json.dumps(data))
    with pytest.raises(FileFormatError, match="has 3 actions"):
        _ = load_run(path).cases[0].measured


def test_a_file_that_is_no_run_is_refused(tmp_path):
    PLATFORM.save(tmp_path / "platform.json")
    with pytest.raises(FileFormatError, match="is no recorded run but a platform: name a file that"):
        load_run(tmp_path / "platform.json")
    (tmp_path / "trace.json").write_text('{"traceEvents": []}')
    with pytest.raises(FileFormatError, match="is no recorded run but an object of traceEvents: name a file that"):
        load_run(tmp_path / "trace.json")
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(FileFormatError, match="is no recorded run but a list: name a file that"):
        load_run(tmp_path / "list.json")
    with pytest.raises(FileFormatError, match="cannot read"):
        load_run(tmp_path / "none.json")


def test_spans_of_another_length_are_refused(tmp_path):
    case = case_of(chain(3))
    short = replace(case, spans={name: column[:-1] for name, column in case.spans.items()})
    with pytest.raises(FileFormatError, match="'one GPU' has 3 actions"):
        _ = load_run(save_run(run_of(short), tmp_path)).cases[0].measured


def test_a_folder_that_cannot_be_written_is_an_output_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        save_run(run_of(case_of(chain())), tmp_path / "file")


def test_runs_are_found_below_folders_but_traces_are_none(tmp_path):
    save_run(run_of(case_of(chain())), tmp_path / "b")
    save_run(run_of(case_of(chain())), tmp_path / "a")
    (tmp_path / "a" / "exp-1.perfetto.json").write_text("{}")
    assert find_runs([tmp_path]) == [tmp_path / "a" / "exp.json", tmp_path / "b" / "exp.json"]
    assert find_runs([tmp_path / "a" / "exp.json", tmp_path / "a"]) == [tmp_path / "a" / "exp.json"]
    with pytest.raises(FileFormatError, match="no file or folder"):
        find_runs([tmp_path / "none"])


def test_a_file_named_by_two_spellings_is_found_once_as_it_was_named_first(tmp_path):
    save_run(run_of(case_of(chain())), tmp_path / "a")
    save_run(run_of(case_of(chain())), tmp_path / "b")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    first, other = tmp_path / "b" / "exp.json", tmp_path / "a" / "exp.json"
    assert find_runs([first, tmp_path / "a" / ".." / "b", other, tmp_path / "link"]) == [first, other]


def test_reading_a_run_needs_no_torch(tmp_path):
    path = save_run(run_of(case_of(chain())), tmp_path)
    code = f"""
import sys
from graphsched.records import load_run
case = load_run({str(path)!r}).cases[0]
print(case.measured, case.repredict())
sys.exit('torch' in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr

"""The lines: what binds a run, where its time went, what it lost; reports of actions; text and JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from graphsched import explain
from graphsched.simulator import predict
from graphsched.timeline import Timeline
from graphsched.workload import TensorSpec, Workload
from tests.builders import planned, platform, workload
from tests.explanation.hand import charged, predicted, served_in_turn
from tests.timelines import overlap, plan_of, timeline

LANES = {"a": "cuda:0/s0", "b": "cuda:1/s0"}


def test_a_run_at_its_bound() -> None:
    """Two chains of 2 s on two GPUs, nothing else."""
    line = predicted(
        {name: {"cuda": 1.0} for name in "abcd"},
        LANES | {"c": "cuda:0/s0", "d": "cuda:1/s0"},
        [("a", "c", 0), ("b", "d", 0)],
    )
    assert explain(line).headlines == (
        "bound by: cuda:0, 100 % busy",
        "critical path: 100 % compute on cuda:0/s0",
        "little to win: no plan takes less than 2 s (work), 100 % of this",
    )


def test_a_run_that_dispatch_binds() -> None:
    line = predicted(
        {"a": 1.0, "b": 1.0}, {"a": "cuda:0/s0", "b": "cuda:0/s0"}, where=platform(dispatch=charged(run_s=4.0))
    )
    bound, path, lost = explain(line).headlines
    assert bound == "bound by: dispatch (host/py), 89 % busy"
    assert path == "critical path: 89 % dispatch, 11 % compute on cuda:0/s0"
    assert lost == "8 s lost to dispatch: 2 actions issued, 4 s each"


def test_a_run_that_nothing_binds_alone() -> None:
    """a(2) on cuda:0, b(2) after it on cuda:1, c(1) after that on cuda:2."""
    lanes = LANES | {"c": "cuda:2/s0"}
    line = predicted({"a": 2.0, "b": 2.0, "c": 1.0}, lanes, [("a", "b", 0), ("b", "c", 0)], where=platform(gpus=3))
    assert explain(line).headlines[0] == "bound by: no one resource; cuda:0 has 40 % of the path, 40 % busy"


def test_the_busiest_need_not_be_on_the_path_most() -> None:
    """f(2) before b on cuda:1, which waits for a in any case."""
    lanes = LANES | {"f": "cuda:1/s0", "c": "cuda:2/s0"}
    durations = {"f": 2.0, "a": 2.0, "b": 2.0, "c": 1.0}
    line = predicted(durations, lanes, [("a", "b", 0), ("b", "c", 0)], where=platform(gpus=3))
    bound = explain(line).headlines[0]
    assert bound == "bound by: no one resource; cuda:0 has 40 % of the path, the busiest is cuda:1, 80 %"


def test_what_another_plan_could_win_where_nothing_is_lost() -> None:
    """Both on one of two GPUs."""
    line = predicted({"a": {"cuda": 1.0}, "b": {"cuda": 1.0}}, dict.fromkeys("ab", "cuda:0/s0"))
    assert explain(line).headlines[2] == "to win by another plan: 1 s at most; none takes less than 1 s (work)"


def test_what_is_lost_is_worth_no_more_than_the_bound_leaves() -> None:
    """Four that fill the GPU, side by side: 3 s each lost to the others, none to be won but on the other GPU."""
    lanes = {name: f"cuda:0/s{k}" for k, name in enumerate("abcd")}
    line = predicted({name: {"cuda": 1.0} for name in "abcd"}, lanes)
    lost = explain(line).headlines[2]
    assert lost == (
        "3 s lost to others on a device by a, beside b and 2 more; "
        "2 s to win at most, no plan takes less than 2 s (work)"
    )


def _copies_on_the_compute_lane() -> Timeline:
    """mm0(1) mm1(1) then the copies of both (1 s each), all on cuda:0/s0."""
    work = Workload()
    x = work.input("x", TensorSpec((1,), "int8"), device="cuda:0")
    made = [work.task(print, x, name=f"mm{k}", outputs=[TensorSpec((100,), "int8")], duration_s=1.0) for k in range(2)]
    for k, y in enumerate(made):
        work.copy(y, to="cpu", name=f"copy{k}")  # type: ignore[arg-type]
    return predict(planned(work, platform(), dict.fromkeys(("mm0", "mm1"), "cuda:0/s0"), copies="compute"))


def test_copies_that_stand_in_line_with_tasks() -> None:
    """copy0 was ready when mm0 was over, and could have gone beside mm1."""
    losses = explain(_copies_on_the_compute_lane()).losses
    assert (losses[0].kind, losses[0].seconds) == ("line", pytest.approx(1.0))
    assert losses[0].text == "1 s lost in line: copy0 was ready, but on cuda:0/s0 it stood behind mm1"


def test_a_run_faster_than_its_costs_says_so() -> None:
    """Half a second measured, where the costs say one."""
    work = Workload()
    x = work.input("x", TensorSpec((1,), "int8"), device="cuda:0")
    work.task(print, x, name="t", outputs=[], duration_s=1.0, device="cuda:0")
    slow = timeline(planned(work, platform(), {"t": "cuda:0/s0"}), [(0.0, 0.5)], source="measured")
    assert explain(slow).headlines[2] == (
        "little to win: by the costs no plan takes less than 1 s (work), and this one took 500 ms"
    )


def test_measured_dispatch_is_held_against_its_costs() -> None:
    plan = predicted(
        {"a": 1.0, "b": 1.0}, dict.fromkeys("ab", "cuda:0/s0"), where=platform(dispatch=charged(run_s=0.5))
    ).plan
    line = timeline(plan, [(3.0, 4.0), (6.0, 7.0)], issues=[(0.0, 3.0), (3.0, 6.0)], source="measured")
    lost = next(loss for loss in explain(line).losses if loss.kind == "dispatch")
    assert lost.text == "6 s lost to dispatch: 2 actions issued, 3 s each; by their costs it would be 1 s"


def test_a_graph_that_begins_after_its_launch_is_as_late_as_its_costs_say() -> None:
    """The launch takes 2 s, the first node begins 5 s after its begin."""
    where = platform(dispatch=charged(graph_launch_s=2.0, graph_starts=((1, 5.0), (2, 5.0))))
    plan = planned(workload({"a": 1.0, "b": 1.0}), where, dict.fromkeys("ab", "cuda:0/s0"))
    explanation = explain(predict(replace(plan, mode="graph")))
    assert explanation.parts_s == {"dispatch": 5.0, "compute": 2.0}
    assert "by their costs" not in explanation.losses[0].text


def test_a_graph_is_launched_once_for_all_that_it_holds() -> None:
    """a ─▶ b (cpu) ─▶ c, d: two graphs, of one action and of two, and a task that is handed over.

    ::

        cuda:0/s0   a(1) ──┐    ┌──▶ c(1), d(1)
        cpu/w0             └▶ b(1)
    """
    where = platform(dispatch=charged(graph_launch_s=2.0))
    lanes = dict.fromkeys("acd", "cuda:0/s0") | {"b": "cpu/w0"}
    tasks = workload(dict.fromkeys("abcd", 1.0), [("a", "b", 0), ("b", "c", 0)])
    lost = explain(predict(replace(planned(tasks, where, lanes), mode="graph"))).losses[0]
    assert lost.text == "4 s lost to dispatch: 2 launches of graphs, 2 s each, in 2 goes between waits"
    alone = replace(planned(workload(dict.fromkeys("cd", 1.0)), where, dict.fromkeys("cd", "cuda:0/s0")), mode="graph")
    for line in (predict(alone), timeline(alone, [(2.0, 3.0), (3.0, 4.0)], issues=[(0.0, 2.0)] * 2, source="measured")):
        assert explain(line).losses[0].text == "2 s lost to dispatch: 1 launch of a graph of 2 actions"


def test_goes_between_waits_are_counted() -> None:
    where = platform(dispatch=charged(run_s=0.5, sync_s=0.25))
    line = predicted(dict.fromkeys("ab", 1.0), dict.fromkeys("ab", "cuda:0/s0"), wait_after=["a"], where=where)
    texts = {loss.kind: loss.text for loss in explain(line).losses}
    assert texts["dispatch"] == "1 s lost to dispatch: 2 actions issued, 500 ms each, in 2 goes between waits"
    assert texts["return"] == "500 ms lost until the thread knew that a wait was over, 2 times"


def test_gaps_and_slow_actions_of_a_measured_run() -> None:
    """b starts 2 s after all that it waited for, and takes a second more than alone."""
    plan = predicted({"a": 1.0, "b": 1.0}, LANES, [("a", "b", 0)]).plan
    line = timeline(plan, [(0.0, 1.0), (3.0, 5.0)], issues=[(0.0, 0.0)] * 2, source="measured")
    texts = {loss.kind: loss.text for loss in explain(line).losses}
    assert texts["idle"] == "2 s lost waiting for nothing that shows here before b"
    assert texts["slower"] == "1 s lost by taking longer than alone with nothing beside by b"


def test_a_copy_that_waits_for_its_engine() -> None:
    explanation = explain(served_in_turn())
    assert explanation.losses[0].text == (
        "1 s lost to others on links and engines by up1, which waited for the engine behind up0"
    )
    report = explanation.action("up1")
    assert report.behind == report.to_dict()["behind"] == "up0"
    assert report.parts == pytest.approx({"copy": 1.0, "contention": 1.0})
    assert "then stood behind up0 for what both go over" in str(report)


def test_text_has_every_part() -> None:
    text = str(explain(_copies_on_the_compute_lane()))
    for heading in ("bound by: ", "critical path: ", "lost on the critical path", "lower bounds, of 4 s", "busy  "):
        assert heading in text
    assert "copy0: 1 s copy; behind mm1 on its lane" in text
    assert "copy1: 1 s copy; behind copy0 on its lane" in text


def test_text_of_a_long_path_has_its_longest_steps() -> None:
    names = [f"t{k}" for k in range(20)]
    lines = str(explain(predicted(dict.fromkeys(names, 1.0), dict.fromkeys(names, "cuda:0/s0")))).splitlines()
    assert "critical path: 20 steps, the 12 longest" in lines
    assert len(lines) - lines.index("critical path: 20 steps, the 12 longest") == 13


def test_text_of_a_path_through_the_thread() -> None:
    where = platform(dispatch=charged(run_s=4.0, sync_s=0.5))
    text = str(explain(predicted(dict.fromkeys("ab", 1.0), dict.fromkeys("ab", "cuda:0/s0"), where=where)))
    assert "thread from a to b: 8 s dispatch; from the start" in text
    assert "b: 1 s compute; as soon as it was issued" in text
    assert "end: 500 ms return; waited for b" in text


def test_json_can_be_written_and_adds_up() -> None:
    data = json.loads(json.dumps(explain(_copies_on_the_compute_lane()).to_dict()))
    assert sum(data["parts_s"].values()) == pytest.approx(data["timed_makespan_s"], abs=1e-12)
    assert [step["action"] for step in data["path"]] == ["mm0", "mm0", "mm1", "copy0", "copy1"]
    assert {key: data["path"][3][key] for key in ("kind", "action", "cause", "by")} == {
        "kind": "action",
        "action": "copy0",
        "cause": "lane",
        "by": "mm1",
    }
    assert data["path"][3]["parts_s"] == {"copy": pytest.approx(1.0)}
    assert {"headlines", "losses", "limits", "lanes", "devices", "source"} <= data.keys()


def test_nothing_to_explain() -> None:
    explanation = explain(timeline(plan_of(Workload(), {}), []))
    assert explanation.headlines[:2] == ("bound by: nothing, for nothing ran", "critical path: empty")
    assert not any(heading in str(explanation) for heading in ("lower bounds", "steps"))


def test_a_run_of_nothing_is_its_return() -> None:
    """No action, and 0.5 s until the thread knows."""
    explanation = explain(predicted({}, {}, where=platform(dispatch=charged(sync_s=0.5))))
    assert explanation.headlines[:2] == (
        "bound by: nothing, for nothing ran",
        "critical path: 100 % return from waits",
    )
    assert "500 ms lost until the thread knew that a wait was over" in str(explanation)
    assert "critical path: 1 step\n" in str(explanation)


# -- actions --------------------------------------------------------------------------------------


def test_an_action_says_what_it_waited_for_and_what_ran_beside_it() -> None:
    """copy0 while mm1 runs; copy1 after mm1, its lane free since copy0."""
    plan = overlap(2)
    spans = {"mm0.0": (0.0, 2.0), "copy0.0": (2.0, 3.0), "mm0.1": (2.0, 4.0), "copy0.1": (4.0, 5.0)}
    line = timeline(plan, [spans[name] for name in plan.names], issues=[(0.0, 0.0)] * 4)
    report = explain(line).action("copy0.1")
    assert [(cause.kind, report.names.get(cause.by)) for cause in report.waited_for] == [
        ("wait", "mm0.1"),
        ("lane", "copy0.0"),
        ("thread", "copy0.1"),
    ]
    assert report.cause.alone_s == pytest.approx(1.0, abs=1e-5)
    assert report.critical
    first = explain(line).action("copy0.0")
    assert [(b.action, b.lane, b.seconds) for b in first.beside] == [("mm0.1", "cuda:0/s0", 1.0)]
    text = str(first)
    assert "copy0.0 on cuda:0/d2h: 2 s to 3 s (1 s)" in text
    assert "beside: mm0.1 on cuda:0/s0 1 s" in text
    assert "slack: 1 s, not on the critical path" in text
    assert json.loads(json.dumps(first.to_dict()))["slack_s"] == 1.0


def test_a_wait_says_what_it_waited_for() -> None:
    line = predicted(
        {"a": 2.0, "b": 1.0}, LANES, wait_after=["b"], where=platform(dispatch=charged(sync_s=0.5, run_s=0.25))
    )
    report = explain(line).action("wait0")
    assert (report.cause.kind, report.names[report.cause.by]) == ("return", "a")
    assert report.parts == {"idle": 1.75, "return": 0.5}
    assert report.critical
    assert "waited last for: a, over at 2.25 s" in str(report)


def test_what_ran_beside_longest_comes_first() -> None:
    lanes = {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": "cpu/w0"}
    found = explain(predicted({"a": 5.0, "b": 1.0, "c": 3.0}, lanes)).action("a").beside
    assert [(b.action, b.seconds) for b in found] == [("c", 3.0), ("b", 1.0)]


def test_many_beside_are_cut_short() -> None:
    names = [f"t{k}" for k in range(9)]
    lanes = {name: f"cuda:0/s{k}" for k, name in enumerate(names)}
    assert " and 2 more\n" in str(explain(predicted(dict.fromkeys(names, 1.0), lanes)).action("t0"))


def test_the_same_from_numbers() -> None:
    line = predicted({"a": 1.0}, {"a": "cuda:0/s0"})
    assert explain(line).action(np.int64(0).item()) == explain(line).action("a")


def test_a_span_that_begins_before_the_action_was_issued_says_so() -> None:
    """The lane comes to b when a ends, at 1 s; b, issued from 1 s to 5 s, runs from 5 s to 6 s."""
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s0"}
    line = timeline(
        planned(workload({"a": 1.0, "b": 1.0}), platform(), lanes),
        [(0.0, 1.0), (1.0, 6.0)],
        issues=[(0.0, 0.0), (1.0, 5.0)],
        source="measured",
    )
    first, second = (str(explain(line).action(name)).splitlines()[0] for name in "ab")
    assert first == "a on cuda:0/s0: 0 s to 1 s (1 s)"
    assert second == "b on cuda:0/s0: 1 s to 6 s (5 s, of which 4 s before it was ready)"
